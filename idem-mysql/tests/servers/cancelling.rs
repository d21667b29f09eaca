//! Callers that go away: the operation happens wholly or not at all, and a pool of one goes on.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use futures::FutureExt;
use idem_core::{Claim, Claimed, Complete, Completed, ErrorKind, Final, Release, Released, Renew, Replay, Store};
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, TxOpts};
use idem_mysql::{Answered, MySqlStore, Once};

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    x3_a_future_dropped_at_any_poll_leaves_it_done_or_not_done,
    x3_every_operation_dropped_at_any_poll_leaves_a_pool_of_one_sound,
    x3_joined_transactions_dropped_at_any_poll_happen_wholly_or_not_at_all,
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
        assert_nothing_stays_open(&fixture).await;
    }
    assert!(early > 40, "futures were dropped before they were ready");
    one.store.close().await;
}

/// What was dropped goes on to its end by itself, and may be at it still; a transaction that was left open never ends.
async fn assert_nothing_stays_open(fixture: &Fixture) {
    for _ in 0..500 {
        if fixture.in_transaction().await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a transaction was left open");
}

/// Polls a future so many times, and drops it. Says whether it was ready before.
async fn poll_and_drop<F: Future>(future: F, polls: usize) -> bool {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        if futures::poll!(future.as_mut()).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

async fn x3_every_operation_dropped_at_any_poll_leaves_a_pool_of_one_sound(fixture: Fixture) {
    let one = of_one(&fixture).await;
    let mut early = 0;
    for polls in 0..40 {
        let asked = claim(&format!("k{polls}"));
        let grant = one.acquire(&asked).await;
        let lease = grant.lease.clone();
        early += usize::from(!poll_and_drop(one.store.renew(&Renew::new(lease.clone())), polls).await);
        early += usize::from(!poll_and_drop(one.store.get(asked.identity()), polls).await);
        early += usize::from(!poll_and_drop(one.store.purge(NonZeroU32::MIN), polls).await);
        if polls % 2 == 0 {
            let complete = Complete::new(lease, succeeded("x"));
            early += usize::from(!poll_and_drop(one.store.complete(&complete), polls).await);
            let stayed = one.store.complete(&complete).await.expect("completed");
            assert!(matches!(stayed, Completed::Stored | Completed::AlreadyStored), "{stayed:?}");
        } else {
            let release = Release::new(lease);
            early += usize::from(!poll_and_drop(one.store.release(&release), polls).await);
            assert_eq!(one.store.release(&release).await.ok(), Some(Released::Released));
        }
        assert_nothing_stays_open(&fixture).await;
    }
    assert!(early > 40, "{early} futures were dropped before they were ready");
    one.store.close().await;
}

/// The application's begin, its rows and the join are one future, on a shared pool of one connection.
async fn x3_joined_transactions_dropped_at_any_poll_happen_wholly_or_not_at_all(fixture: Fixture) {
    fixture.run_sql("CREATE TABLE orders (what VARCHAR(100) NOT NULL) ENGINE = InnoDB").await;
    let options = OptsBuilder::from_opts(Opts::from_url(&fixture.url).expect("a URL"));
    let one = PoolConstraints::new(1, 1).expect("valid");
    let options = options.setup(vec!["SET SESSION wait_timeout = 60"]);
    let pool = Pool::new(options.pool_opts(PoolOpts::new().with_constraints(one)));
    let begun = async |what: &str| {
        let mut transaction = pool.start_transaction(TxOpts::new()).await.expect("begun");
        transaction.exec_drop("INSERT INTO orders (what) VALUES (?)", (what,)).await.expect("ordered");
        transaction
    };
    let settle = async |complete: &Complete, what: &str| fixture.store.settle(begun(what).await, complete).await;
    let once = async |asked: &Claim, what: &str| {
        let transaction = pool.start_transaction(TxOpts::new()).await.expect("begun");
        match fixture.store.once(transaction, asked).await {
            Ok(Once::First(mut first)) => {
                first.exec_drop("INSERT INTO orders (what) VALUES (?)", (what,)).await.expect("ordered");
                let replay = Replay { end: Final::Succeeded, recorded: response("x").into() };
                first.commit(replay).await.map(|_| true)
            }
            Ok(Once::Answered(Answered::Done(_), _)) => Ok(true),
            Ok(Once::Answered(Answered::Busy { .. }, _)) => Ok(false),
            Ok(Once::Answered(other, _)) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    };
    let mut early = 0;
    for polls in 0..60 {
        let (settled, first) = (format!("settle {polls}"), format!("once {polls}"));
        let grant = fixture.acquire(&claim(&settled)).await;
        let complete = Complete::new(grant.lease, succeeded("x"));
        early += usize::from(!poll_and_drop(settle(&complete, &settled), polls).await);
        let completed = settle(&complete, &settled).await.expect("settled, now or before");
        assert!(matches!(completed, Completed::Stored | Completed::AlreadyStored), "{completed:?}");
        let asked = claim(&first);
        early += usize::from(!poll_and_drop(once(&asked, &first), polls).await);
        // Behind what the server still has open of the one that was dropped.
        let mut done = false;
        for _ in 0..20 {
            done = done || once(&asked, &first).await.expect("answered");
        }
        assert!(done, "it never came to its turn");
        assert_nothing_stays_open(&fixture).await;
    }
    assert!(early > 40, "{early} futures were dropped before they were ready");
    let wrong = "SELECT COUNT(*) FROM (SELECT what FROM orders GROUP BY what HAVING COUNT(*) <> 1) AS wrong";
    assert_eq!(fixture.number(wrong).await, 0);
    assert_eq!(fixture.number("SELECT COUNT(*) FROM orders").await, 120);
    pool.disconnect().await.expect("closed");
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
