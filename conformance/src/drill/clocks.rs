//! T1: the server's clock alone decides. Stores on hosts whose clocks are an hour apart agree about everything.

mod child;

use std::time::{Duration, SystemTime};

use idem_core::{Claimed, Complete, Completed, Grant, Identity, Span, Store};

pub use child::run_as_one;
use child::{Apart, Said};

use super::{claiming, identity, succeeded};
use crate::provider::Tool;

const HOUR: Duration = Duration::from_secs(3_600);

/// A store here, and one on the same records in a process whose host's clock is an hour off by this offset of libfaketime
/// (`+3600s`, `-3600s`), agree on leases, takeovers, replays and retention. Says that it is not run where there is no
/// libfaketime.
///
/// The other process is this very program again: its `main` calls [`run_as_one`] first, which is told `there`. `age` makes a
/// record older.
///
/// # Panics
/// When they do not agree; when there is no libfaketime and it is required.
pub async fn an_hour_apart<A>(store: &impl Store, there: &str, offset: &str, age: impl Fn(Identity, Span) -> A)
where
    A: Future<Output = ()>,
{
    let Some(faketime) = Tool::Faketime.wanted().into_iter().next() else { return };
    let mut other = Apart::start(there, &faketime, offset).await;
    let clock = other.clock().await;
    let apart = clock.duration_since(SystemTime::now()).unwrap_or_else(|error| error.duration());
    assert!(apart.abs_diff(HOUR) < Duration::from_secs(60), "its clock is an hour off, not {apart:?}");

    // A lease of ours: the other sees what is left of it, and takes over when it is over, not before.
    let ours = acquire(store, "ours").await;
    age(identity("ours"), Span::saturating_secs(10)).await;
    let Said::InFlight(left) = other.claim("ours").await else { panic!("a running lease") };
    assert!(left > Duration::ZERO && left <= Span::saturating_secs(20).as_duration(), "{left:?}");
    age(identity("ours"), Span::saturating_secs(20)).await;
    let Said::Acquired(2, fence) = other.claim("ours").await else { panic!("a lease that is over") };
    assert!(fence > ours.lease.fence.get());
    assert_eq!(complete(store, ours, "late").await, Completed::Lost);

    // What the other ended is replayed here for as long as it is kept, and not longer.
    assert_eq!(other.complete().await, Said::Ended("stored".to_owned()));
    assert!(matches!(claim(store, "ours").await, Claimed::Replay(_)));
    age(identity("ours"), Span::saturating_secs(23 * 3_600)).await;
    assert_eq!(other.claim("ours").await, Said::Replay);
    assert!(matches!(claim(store, "ours").await, Claimed::Replay(_)));
    age(identity("ours"), Span::saturating_secs(2 * 3_600)).await;
    let Said::Acquired(1, newer) = other.claim("ours").await else { panic!("its retention is over") };
    assert!(newer > fence);

    // A lease of the other's: the same from this side, and its completion comes too late.
    let Said::Acquired(1, fence) = other.claim("theirs").await else { panic!("a new key") };
    age(identity("theirs"), Span::saturating_secs(10)).await;
    let Claimed::InFlight { retry_after } = claim(store, "theirs").await else { panic!("a running lease") };
    assert!(retry_after <= Span::saturating_secs(20).as_duration(), "{retry_after:?}");
    age(identity("theirs"), Span::saturating_secs(20)).await;
    let taken = acquire(store, "theirs").await;
    assert_eq!(taken.lease.attempt, 2);
    assert!(taken.lease.fence.get() > fence);
    assert_eq!(other.complete().await, Said::Ended("lost".to_owned()));
    assert_eq!(complete(store, taken, "x").await, Completed::Stored);
    assert_eq!(other.claim("theirs").await, Said::Replay);
}

async fn claim(store: &impl Store, key: &str) -> Claimed {
    store.claim(&claiming(key).build().expect("valid")).await.expect("answered")
}

async fn acquire(store: &impl Store, key: &str) -> Grant {
    match claim(store, key).await {
        Claimed::Acquired(grant) => grant,
        other => panic!("not acquired: {other:?}"),
    }
}

async fn complete(store: &impl Store, grant: Grant, body: &str) -> Completed {
    store.complete(&Complete::new(grant.lease, succeeded(body))).await.expect("answered")
}
