//! T1: the server's clock alone decides. Stores on hosts whose clocks are an hour apart agree about everything.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod child;
#[path = "../common/mod.rs"]
mod common;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use child::{Apart, Said};
use common::*;
use conformance::provider::{Policy, Tool};
use idem_core::{Claimed, Complete, Completed, Store};
use libtest_mimic::{Arguments, Trial};

const HOUR: Duration = Duration::from_secs(3_600);

fn main() -> ExitCode {
    if child::run_as_one() {
        return ExitCode::SUCCESS;
    }
    let trial = |name: &str, offset: &'static str| {
        Trial::test(name, move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(agree(offset));
            Ok(())
        })
    };
    let trials = vec![trial("a_host_an_hour_ahead_agrees", "+3600s"), trial("a_host_an_hour_behind_agrees", "-3600s")];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn agree(offset: &str) {
    let policy = Policy::from_env().expect("the variables are understood");
    let faketime = match Tool::Faketime.find(&policy) {
        Ok(file) => file,
        Err(missing) => {
            assert!(!missing.required, "{missing}");
            eprintln!("not run: {missing}");
            return;
        }
    };
    let Some(fixture) = Fixture::new().await else { return };
    let mut other = Apart::start(&fixture.place, &faketime, offset).await;
    let clock = other.clock().await;
    let apart = clock.duration_since(SystemTime::now()).unwrap_or_else(|error| error.duration());
    assert!(apart.abs_diff(HOUR) < Duration::from_secs(60), "its clock is an hour off, not {apart:?}");

    // A lease of ours: the other sees what is left of it, and takes over when it is over, not before.
    let ours = fixture.acquire(&claim("ours")).await;
    fixture.age(&identity("ours"), secs(10)).await;
    let Said::InFlight(left) = other.claim("ours").await else { panic!("a running lease") };
    assert!(left > Duration::ZERO && left <= secs(20).as_duration(), "{left:?}");
    fixture.age(&identity("ours"), secs(20)).await;
    let Said::Acquired(2, fence) = other.claim("ours").await else { panic!("a lease that is over") };
    assert!(fence > ours.lease.fence.get());
    assert_eq!(fixture.complete(&ours, succeeded("late")).await, Completed::Lost);

    // What the other ended is replayed here for as long as it is kept, and not longer.
    assert_eq!(other.complete().await, Said::Ended("stored".to_owned()));
    assert!(matches!(fixture.claim(&claim("ours")).await, Claimed::Replay(_)));
    fixture.age(&identity("ours"), secs(23 * 3_600)).await;
    assert_eq!(other.claim("ours").await, Said::Replay);
    assert!(matches!(fixture.claim(&claim("ours")).await, Claimed::Replay(_)));
    fixture.age(&identity("ours"), secs(2 * 3_600)).await;
    let Said::Acquired(1, newer) = other.claim("ours").await else { panic!("its retention is over") };
    assert!(newer > fence);

    // A lease of the other's: the same from this side, and its completion comes too late.
    let Said::Acquired(1, fence) = other.claim("theirs").await else { panic!("a new key") };
    fixture.age(&identity("theirs"), secs(10)).await;
    let Claimed::InFlight { retry_after } = fixture.claim(&claim("theirs")).await else { panic!("a running lease") };
    assert!(retry_after <= secs(20).as_duration(), "{retry_after:?}");
    fixture.age(&identity("theirs"), secs(20)).await;
    let taken = fixture.acquire(&claim("theirs")).await;
    assert_eq!(taken.lease.attempt, 2);
    assert!(taken.lease.fence.get() > fence);
    assert_eq!(other.complete().await, Said::Ended("lost".to_owned()));
    let complete = Complete::new(taken.lease, succeeded("x"));
    assert_eq!(fixture.store.complete(&complete).await.expect("answered"), Completed::Stored);
    assert_eq!(other.claim("theirs").await, Said::Replay);
}
