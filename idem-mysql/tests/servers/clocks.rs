//! T1: the server's clock alone decides. Stores on hosts whose clocks are an hour apart agree about everything.

mod child;

use std::time::{Duration, SystemTime};

pub(crate) use child::run_as_one;
use child::{Apart, Said};
use conformance::provider::{Policy, Tool};
use idem_core::{Claimed, Complete, Completed, Store};

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![t1_a_host_an_hour_ahead_agrees, t1_a_host_an_hour_behind_agrees];

const HOUR: Duration = Duration::from_secs(3_600);

async fn t1_a_host_an_hour_ahead_agrees(fixture: Fixture) {
    agree(&fixture, "+3600s").await;
}

async fn t1_a_host_an_hour_behind_agrees(fixture: Fixture) {
    agree(&fixture, "-3600s").await;
}

async fn agree(fixture: &Fixture, offset: &str) {
    let policy = Policy::from_env().expect("the variables are understood");
    let faketime = match Tool::Faketime.find(&policy) {
        Ok(file) => file,
        Err(missing) => {
            assert!(!missing.required, "{missing}");
            eprintln!("not run: {missing}");
            return;
        }
    };
    let mut other = Apart::start(&fixture.url, &faketime, offset).await;
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
