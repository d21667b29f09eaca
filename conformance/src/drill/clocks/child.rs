//! A store in a process of its own, whose host's clock is wrong. It is told what to do in lines, and answers in lines.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem_core::{Claimed, Completed, Grant, Store};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{claim, complete};

/// Says that this process is such a child, and where its store is.
const STORE: &str = "IDEM_DRILL_CLOCK_STORE";

/// What the child's store answered, as its parent reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// Attempt and fence.
    Acquired(u32, u64),
    InFlight(Duration),
    Replay,
    Ended(String),
}

/// A store on a host whose clock is this far off.
pub(super) struct Apart {
    _process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Apart {
    pub(super) async fn start(store: &str, faketime: &Path, offset: &str) -> Apart {
        let mut process = Command::new(std::env::current_exe().expect("known"))
            .env(STORE, store)
            .env("LD_PRELOAD", faketime)
            .env("FAKETIME", offset)
            // A wrong clock shows another time, but time passes as elsewhere.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("started");
        let stdin = process.stdin.take().expect("piped");
        let stdout = BufReader::new(process.stdout.take().expect("piped")).lines();
        Apart { _process: process, stdin, stdout }
    }

    async fn ask(&mut self, line: String) -> Vec<String> {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.expect("it listens");
        let answer = self.stdout.next_line().await.expect("read").expect("it answers");
        answer.split(' ').map(str::to_owned).collect()
    }

    /// What its host's clock shows.
    pub(super) async fn clock(&mut self) -> SystemTime {
        let answer = self.ask("clock".to_owned()).await;
        UNIX_EPOCH + Duration::from_micros(answer[0].parse().expect("a number"))
    }

    pub(super) async fn claim(&mut self, key: &str) -> Said {
        let answer = self.ask(format!("claim {key}")).await;
        match answer[0].as_str() {
            "acquired" => Said::Acquired(answer[1].parse().expect("a number"), answer[2].parse().expect("a number")),
            "in-flight" => Said::InFlight(Duration::from_micros(answer[1].parse().expect("a number"))),
            "replay" => Said::Replay,
            other => panic!("{other}"),
        }
    }

    /// Ends what it acquired last, as `stored` or as `lost`.
    pub(super) async fn complete(&mut self) -> Said {
        Said::Ended(self.ask("complete".to_owned()).await.remove(0))
    }
}

/// Is this process the child of a drill? Then it opens the store that it is told of, and is one until nobody asks any more.
///
/// # Panics
/// When its store does not answer.
#[must_use]
pub fn run_as_one<S: Store>(open: impl AsyncFnOnce(String) -> S) -> bool {
    let Ok(there) = std::env::var(STORE) else { return false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("built");
    runtime.block_on(async {
        let store = open(there).await;
        let mut held: Option<Grant> = None;
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("read");
            let answer = match line.split_once(' ') {
                Some(("claim", key)) => claim_here(&store, key, &mut held).await,
                _ if line == "complete" => match complete(&store, held.take().expect("it acquired one"), "x").await {
                    Completed::Stored => "stored".to_owned(),
                    Completed::AlreadyStored => "already-stored".to_owned(),
                    Completed::Lost => "lost".to_owned(),
                },
                _ => SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_micros().to_string(),
            };
            println!("{answer}");
            std::io::stdout().flush().expect("heard");
        }
    });
    true
}

async fn claim_here(store: &impl Store, key: &str, held: &mut Option<Grant>) -> String {
    match claim(store, key).await {
        Claimed::Acquired(grant) => {
            let said = format!("acquired {} {}", grant.lease.attempt, grant.lease.fence.get());
            *held = Some(grant);
            said
        }
        Claimed::InFlight { retry_after } => format!("in-flight {}", retry_after.as_micros()),
        Claimed::Replay(_) => "replay".to_owned(),
        other => panic!("{other:?}"),
    }
}
