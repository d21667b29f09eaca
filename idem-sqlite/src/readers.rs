//! The threads that read. A finished record is answered here, beside the writer, never behind it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use async_channel::Receiver;
use idem_core::{Error, ErrorKind};
use rusqlite::Connection;

use crate::backoff::until;
use crate::connection::open_reader;
use crate::error::{self, Moment};
use crate::job::Order;
use crate::operation::Context;

/// One read, with the one who waits for it inside.
pub(crate) type Read = Box<dyn FnOnce(&Connection, &Context) + Send>;

/// A read that answers to an order. Its statement is a transaction of its own, so no snapshot outlives it and the log
/// can always be moved into the file.
pub(crate) fn read<T: Send + 'static>(
    order: Order<Result<T, Error>>,
    look: impl Fn(&Connection, &Context) -> rusqlite::Result<T> + Send + 'static,
) -> Read {
    Box::new(move |connection, context| {
        if order.ticket.start() {
            let found = until(order.deadline, || look(connection, context));
            // Nobody waits any more when the caller's future was dropped.
            let _ = order.answer.send(found.map_err(|refusal| error::of(refusal, Moment::Statement)));
        }
    })
}

/// Starts the readers, each on a connection of its own. They end when the queue is closed and empty.
pub(crate) fn start(
    path: &Path,
    count: usize,
    queue: &Receiver<Read>,
    context: &Arc<Context>,
) -> Result<Vec<JoinHandle<()>>, Error> {
    let spawn = |_| {
        let connection = open_reader(path)?;
        let (queue, context) = (queue.clone(), Arc::clone(context));
        thread::Builder::new()
            .name("idem-sqlite-reader".to_owned())
            .spawn(move || serve(&connection, &queue, &context))
            .map_err(|refusal| Error::new(ErrorKind::Unavailable, "no thread could be started").with_source(refusal))
    };
    (0..count).map(spawn).collect()
}

fn serve(connection: &Connection, queue: &Receiver<Read>, context: &Context) {
    while let Ok(read) = queue.recv_blocking() {
        if catch_unwind(AssertUnwindSafe(|| read(connection, context))).is_err() {
            tracing::error!("an SQLite reader panicked and goes on; please report it");
        }
    }
}
