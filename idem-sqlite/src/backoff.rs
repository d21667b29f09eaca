//! Waiting for another connection's lock, up to a deadline.

use std::thread;
use std::time::{Duration, Instant};

use crate::error;

/// Short and not growing. SQLite has no queue of waiters: who asks often gets a turn between two commits of a busy
/// neighbour, and who sleeps ever longer starves. One try costs a few system calls.
const SHORTEST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_micros(1_600);

/// Does it again as long as the file is busy and the deadline is not over.
pub(crate) fn until<T>(deadline: Instant, mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let mut pause = SHORTEST;
    loop {
        match attempt() {
            Err(refusal) if error::is_busy(&refusal) && Instant::now() < deadline => {
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST);
            }
            outcome => return outcome,
        }
    }
}
