//! Callers that go away: the operation happens wholly or not at all, and a pool of one goes on.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures::FutureExt;
use idem_core::{Claim, Claimed, Complete, Completed, ErrorKind, Store};
use idem_mysql::MySqlStore;
use idem_mysql::mysql_async::TxOpts;
use idem_mysql::mysql_async::prelude::Queryable;

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    x3_a_future_dropped_at_any_poll_leaves_it_done_or_not_done,
    x3_a_deadline_cuts_the_connection_and_the_pool_of_one_goes_on,
    x3_a_runtime_that_ends_in_the_middle_leaves_nothing_half_done,
];

async fn of_one(fixture: &Fixture) -> Fixture {
    fixture.with(|builder| builder.connections(NonZeroUsize::MIN)).await
}

async fn x3_a_future_dropped_at_any_poll_leaves_it_done_or_not_done(fixture: Fixture) {
    let one = of_one(&fixture).await;
    let mut early = 0;
    for polls in 0..40 {
        let asked = claim(&format!("k{polls}"));
        {
            let mut claiming = Box::pin(one.store.claim(&asked));
            for _ in 0..polls {
                if futures::poll!(claiming.as_mut()).is_ready() {
                    break;
                }
                early += 1;
                tokio::task::yield_now().await;
            }
        }
        // Repeating with the same token tells, and a stranger meets nothing half done.
        let grant = one.acquire(&asked).await;
        assert!(matches!(one.claim(&claim(&format!("k{polls}"))).await, Claimed::InFlight { .. }));
        let complete = Complete::new(grant.lease.clone(), succeeded("x"));
        // Whose caller went away and who stays race for the one connection: each is done, and one of them is first.
        let _ = one.store.complete(&complete).now_or_never();
        let stayed = one.store.complete(&complete).await.expect("completed");
        assert!(matches!(stayed, Completed::Stored | Completed::AlreadyStored), "{stayed:?}");
        assert!(matches!(one.claim(&claim(&format!("k{polls}"))).await, Claimed::Replay(_)));
        assert_eq!(fixture.in_transaction().await, 0);
    }
    assert!(early > 40, "futures were dropped before they were ready");
    one.store.close().await;
}

async fn x3_a_deadline_cuts_the_connection_and_the_pool_of_one_goes_on(fixture: Fixture) {
    let one = fixture
        .with(|builder| {
            builder
                .connections(NonZeroUsize::MIN)
                .deadline(Duration::from_secs(2))
                .on_connect("SET SESSION innodb_lock_wait_timeout = 50")
        })
        .await;
    let mut other = fixture.connection().await;
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop(INSERT_BY_HAND).await.expect("inserted");
    let asked = claim("k");
    let error = one.store.claim(&asked).await.expect_err("too late");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Indeterminate, true));
    // The server still waits with what it was sent; the pool's only connection is another one.
    one.acquire(&claim("other")).await;
    open.rollback().await.expect("rolled back");
    let grant = fixture.acquire(&asked).await;
    assert_eq!(grant.lease.attempt, 1);
    assert!(matches!(one.claim(&claim("k")).await, Claimed::InFlight { .. }));
    one.store.close().await;
}

async fn x3_a_runtime_that_ends_in_the_middle_leaves_nothing_half_done(fixture: Fixture) {
    for polls in 0..8 {
        let asked = claim(&format!("k{polls}"));
        let (url, other): (String, Claim) = (fixture.url.clone(), asked.clone());
        let ending = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("built");
            runtime.block_on(async {
                let store = MySqlStore::open(&url).await.expect("opened");
                let mut claiming = Box::pin(store.claim(&other));
                for _ in 0..polls {
                    if futures::poll!(claiming.as_mut()).is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            });
        });
        ending.join().expect("ended");
        let grant = fixture.acquire(&asked).await;
        assert_eq!(grant.lease.attempt, 1);
        assert_eq!(fixture.complete(&grant, succeeded("x")).await, Completed::Stored);
    }
    assert_eq!(fixture.rows().await, 8);
}
