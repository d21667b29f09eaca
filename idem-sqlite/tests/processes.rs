//! Several processes on one file: this test binary runs itself as its own children.
//!
//! The parent leads the children through rounds over their pipes, so that all of them claim the same keys at once, and
//! moves time between rounds. What was granted is told by the children, not read from the table that is under test.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use common::*;
use idem_core::{Claimed, Complete, Completed, Store};
use idem_sqlite::SqliteStore;
use tokio::sync::Barrier;

const FILE: &str = "IDEM_TEST_CHILD_FILE";
const NAME: &str = "IDEM_TEST_CHILD_NAME";

const PROCESSES: usize = 2;
const TASKS: usize = 8;
const ROUNDS: usize = 24;
const KEYS: usize = 25;

struct Process {
    child: Child,
    orders: ChildStdin,
    reports: BufReader<ChildStdout>,
}

impl Process {
    /// Runs the test `children` of this binary in a process of its own.
    fn start(path: &Path, name: &str) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(FILE, path)
            .env(NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let orders = child.stdin.take().expect("piped");
        let reports = BufReader::new(child.stdout.take().expect("piped"));
        Process { child, orders, reports }
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("told");
    }

    /// What it reports up to this word; the test harness's own lines are skipped.
    fn hear_until(&mut self, word: &str) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.reports.read_line(&mut line).expect("heard");
            assert_ne!(read, 0, "a child ended before {word:?}, after {heard:?}");
            match line.trim().strip_prefix("child: ") {
                Some(said) if said == word => return heard,
                Some(said) => heard.push(said.to_owned()),
                None => {}
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Also when the parent fails: no child outlives it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn two_processes_never_grant_twice_and_never_surface_busy() {
    let fixture = Fixture::new().await;
    let mut processes: Vec<_> = ["a", "b"].map(|name| Process::start(&fixture.path, name)).into();
    assert_eq!(processes.len(), PROCESSES);
    let mut claims = 0_usize;
    let mut fences: HashMap<String, u64> = HashMap::new();
    let mut granted_by: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..ROUNDS {
        // A third of the rounds is for new keys; in the others their lapsed attempts are taken over, twice.
        let (keys, age) = (round / 3, round % 3 != 0);
        for key in 0..KEYS {
            if age {
                fixture.age(&identity(&format!("{keys}/{key}")), secs(31));
            }
        }
        let finish = if round % 3 == 2 { "finish" } else { "leave" };
        processes.iter_mut().for_each(|process| process.tell(&format!("{keys} {finish}")));
        let mut grants: HashMap<String, u64> = HashMap::new();
        for process in &mut processes {
            for said in process.hear_until("done") {
                let words: Vec<_> = said.split(' ').collect();
                match words.as_slice() {
                    ["granted", name, key, attempt, fence] => {
                        let fence: u64 = fence.parse().expect("a number");
                        assert_eq!(attempt.parse(), Ok(round % 3 + 1), "{said}");
                        assert_eq!(grants.insert((*key).to_owned(), fence), None, "round {round}: {key} granted twice");
                        *granted_by.entry((*name).to_owned()).or_default() += 1;
                    }
                    ["claims", count] => claims += count.parse::<usize>().expect("a number"),
                    _ => panic!("round {round}: {said}"),
                }
            }
        }
        assert_eq!(grants.len(), KEYS, "round {round}: every key has one owner");
        for (key, fence) in grants {
            assert!(fences.insert(key, fence).is_none_or(|before| before < fence), "fences grow");
        }
    }
    for mut process in processes {
        process.tell("end");
        process.hear_until("ended");
        assert!(process.child.wait().expect("ended").success());
    }
    assert_eq!(claims, PROCESSES * TASKS * KEYS * ROUNDS);
    assert_eq!(fixture.rows(), (KEYS * ROUNDS / 3) as i64);
    assert_eq!(granted_by.values().sum::<usize>(), KEYS * ROUNDS);
    assert_eq!(granted_by.len(), PROCESSES, "both arrived and both won: {granted_by:?}");
    println!("{claims} claims, grants by process: {granted_by:?}");
}

#[tokio::test]
async fn a_killed_process_leaves_a_file_that_others_go_on_with() {
    let fixture = Fixture::new().await;
    for kill in 0..5 {
        let key = format!("{kill}/0");
        let mut process = Process::start(&fixture.path, "killed");
        process.tell(&format!("{kill} leave"));
        process.hear_until("done");
        // It goes on claiming while it is killed.
        process.tell(&format!("{} leave", kill + 1_000));
        process.child.kill().expect("killed");
        process.child.wait().expect("ended");
        assert!(matches!(fixture.claim(&claim(&key)).await, Claimed::InFlight { .. }), "what was answered is there");
        fixture.age(&identity(&key), secs(31));
        let grant = fixture.acquire(&claim(&key)).await;
        assert_eq!(grant.lease.attempt, 2);
        assert_eq!(fixture.complete(&grant, succeeded("after all")).await, Completed::Stored);
    }
    let sound: String =
        fixture.connection().query_row("PRAGMA integrity_check", (), |row| row.get(0)).expect("checked");
    assert_eq!(sound, "ok");
}

#[test]
fn eight_processes_make_the_tables_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("idem.db");
    let mut processes: Vec<_> = (0..8).map(|number| Process::start(&path, &number.to_string())).collect();
    for process in &mut processes {
        process.tell("end");
    }
    for mut process in processes {
        process.hear_until("ended");
        assert!(process.child.wait().expect("ended").success());
    }
    let versions: i64 =
        connection(&path).query_row("SELECT count(*) FROM idem_schema", (), |row| row.get(0)).expect("read");
    assert_eq!(versions, 1);
}

/// The child's side; without a parent there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the other tests, as a process of its own"]
async fn child() {
    let (Some(path), Ok(name)) = (std::env::var_os(FILE), std::env::var(NAME)) else { return };
    let store = SqliteStore::open(PathBuf::from(path)).await.expect("opened");
    for order in std::io::stdin().lines() {
        let order = order.expect("an order");
        let Some((keys, finish)) = order.split_once(' ') else { break };
        round(&store, &name, keys, finish == "finish").await;
        println!("child: done");
    }
    store.close().await;
    println!("child: ended");
}

async fn round(store: &SqliteStore, name: &str, keys: &str, finish: bool) {
    let barrier = Arc::new(Barrier::new(TASKS));
    let tasks = (0..TASKS).map(|_| {
        let (store, barrier) = (store.clone(), Arc::clone(&barrier));
        let (name, keys) = (name.to_owned(), keys.to_owned());
        tokio::spawn(async move {
            let mut claims = 0;
            for key in 0..KEYS {
                barrier.wait().await;
                let key = format!("{keys}/{key}");
                claims += 1;
                match store.claim(&claim(&key)).await.expect("no error surfaces") {
                    Claimed::Acquired(grant) => {
                        println!("child: granted {name} {key} {} {}", grant.lease.attempt, grant.lease.fence.get());
                        if finish {
                            let complete = Complete::new(grant.lease, succeeded("x"));
                            assert_eq!(store.complete(&complete).await.expect("stored"), Completed::Stored);
                        }
                    }
                    Claimed::InFlight { .. } => {}
                    Claimed::Replay(_) if finish => {}
                    other => panic!("{other:?}"),
                }
            }
            claims
        })
    });
    let mut claims = 0;
    for task in futures::future::join_all(tasks).await {
        claims += task.expect("ran");
    }
    println!("child: claims {claims}");
}
