//! Behind other clients' locks: claims end in time, purges do not wait at all, and replays write nothing.

use std::num::NonZeroU32;
use std::time::Duration;

use idem_core::{Claimed, Complete, Completed, ErrorKind, Release, Renew, State, Store};
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Conn, TxOpts};
use idem_mysql::{Product, sql};

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    c11_a_claim_behind_an_uncommitted_claim_ends_in_time,
    c11_a_claim_behind_a_locked_record_tells_the_lease,
    what_changes_a_locked_record_is_refused_in_time_and_changed_nothing,
    p4_a_purge_skips_what_others_hold,
    p4_a_claim_does_not_wait_for_a_purge_of_other_keys,
    a_replay_writes_nothing,
];

const LIMIT: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// Longer than any lock is waited for, on a machine that is busy with other trials.
const IN_TIME: Duration = Duration::from_secs(8);

const LOCK_BY_HAND: &str = "SELECT state FROM idem_records WHERE scope = 'global' AND `key` = 'k' FOR UPDATE";

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(IN_TIME, work).await.expect("in time")
}

async fn c11_a_claim_behind_an_uncommitted_claim_ends_in_time(fixture: Fixture) {
    let mut other = fixture.connection().await;
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop(INSERT_BY_HAND).await.expect("inserted");
    let claimed = in_time(fixture.claim(&claim("k"))).await;
    assert!(matches!(claimed, Claimed::InFlight { retry_after } if !retry_after.is_zero()), "{claimed:?}");
    open.rollback().await.expect("rolled back");
    fixture.acquire(&claim("k")).await;
}

async fn c11_a_claim_behind_a_locked_record_tells_the_lease(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(20)).await;
    let mut other = fixture.connection().await;
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop(LOCK_BY_HAND).await.expect("locked");
    let claimed = in_time(fixture.claim(&claim("k"))).await;
    let Claimed::InFlight { retry_after } = claimed else { panic!("{claimed:?}") };
    assert!(retry_after > Duration::from_secs(1) && retry_after <= Duration::from_secs(10), "{retry_after:?}");
    assert_eq!(in_time(fixture.claim(&other_claim("k"))).await, Claimed::Mismatch, "what is committed is read");
    open.rollback().await.expect("rolled back");
    assert_eq!(fixture.complete(&grant, succeeded("x")).await, Completed::Stored);
}

async fn what_changes_a_locked_record_is_refused_in_time_and_changed_nothing(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    let impatient = fixture.with(|builder| builder.deadline(Duration::from_secs(2))).await;
    let mut other = fixture.connection().await;
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop(LOCK_BY_HAND).await.expect("locked");
    let before = fixture.get(&identity("k")).await;
    let complete = Complete::new(grant.lease.clone(), succeeded("x"));
    let (renew, release) = (Renew::new(grant.lease.clone()), Release::new(grant.lease.clone()));
    let store = &impatient.store;
    let all = async { futures::join!(store.renew(&renew), store.complete(&complete), store.release(&release)) };
    let (renewed, completed, released) = in_time(all).await;
    for error in [renewed.expect_err("locked"), completed.expect_err("locked"), released.expect_err("locked")] {
        // The deadline may come before the server gives up waiting; then it may still be applied.
        assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate), "{error:?}");
        assert!(error.is_retryable());
    }
    assert_eq!(fixture.get(&identity("k")).await, before);
    open.rollback().await.expect("rolled back");
    impatient.store.close().await;
    // Whatever was still waiting at the server, the token tells.
    let again = fixture.store.complete(&complete).await.expect("answered");
    let state = fixture.get(&identity("k")).await.map(|record| record.state);
    assert!(
        matches!(
            (again, state),
            (Completed::Stored | Completed::AlreadyStored, Some(State::Succeeded))
                | (Completed::Lost, Some(State::Released))
        ),
        "{again:?} {state:?}"
    );
}

async fn p4_a_purge_skips_what_others_hold(fixture: Fixture) {
    for key in ["k", "free"] {
        let grant = fixture.acquire(&claim(key)).await;
        fixture.complete(&grant, succeeded("x")).await;
        fixture.age(&identity(key), secs(100_000)).await;
    }
    let mut other = fixture.connection().await;
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop(LOCK_BY_HAND).await.expect("locked");
    let purged = in_time(fixture.store.purge(LIMIT)).await.expect("not blocked");
    assert_eq!(purged.deleted, 1);
    assert_eq!(fixture.number("SELECT COUNT(*) FROM idem_records WHERE `key` = 'k'").await, 1);
    open.rollback().await.expect("rolled back");
    assert_eq!(fixture.store.purge(LIMIT).await.map(|purged| purged.deleted).ok(), Some(1));
}

async fn p4_a_claim_does_not_wait_for_a_purge_of_other_keys(fixture: Fixture) {
    for key in ["a", "c", "e"] {
        let grant = fixture.acquire(&claim(key)).await;
        fixture.complete(&grant, succeeded("x")).await;
        fixture.age(&identity(key), secs(100_000)).await;
    }
    // A purge that is held open between its DELETE and its commit, on a session like the store's.
    let mut other = fixture.connection().await;
    other.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.expect("set");
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    let quarantine = 3_600_000_000_u64;
    let limit = 100_u64;
    let params: Vec<u64> =
        vec![quarantine, limit, quarantine, limit, quarantine, quarantine, limit, quarantine, quarantine, limit, limit];
    open.exec_drop(sql::PURGE, params).await.expect("deleted");
    assert_eq!(open.affected_rows(), 3);
    for key in ["0", "b", "d", "f"] {
        assert!(matches!(fixture.claim(&claim(key)).await, Claimed::Acquired(_)), "{key}");
    }
    open.commit().await.expect("committed");
    assert_eq!(fixture.rows().await, 4);
}

async fn a_replay_writes_nothing(fixture: Fixture) {
    let grant = fixture.acquire(&claim("done")).await;
    fixture.complete(&grant, succeeded("x")).await;
    fixture.acquire(&claim("running")).await;
    let claimed = async |connection: &mut Conn, key: &str| {
        let statement = match fixture.store.server().product {
            Product::MariaDb => sql::MARIADB_CLAIM,
            _ => sql::CLAIM,
        };
        let params: Vec<idem_mysql::mysql_async::Value> = vec![
            "global".into(),
            key.into(),
            "test".into(),
            [0_u8; 32].into(),
            1_u64.into(),
            [7_u8; 16].into(),
            Option::<&str>::None.into(),
            1_u64.into(),
            1_u64.into(),
            1_u64.into(),
        ];
        connection.exec_drop(statement, params).await.err()
    };
    let mut connection = fixture.connection().await;
    let updates = async |connection: &mut Conn| -> u64 {
        let row: Option<(String, u64)> =
            connection.query_first("SHOW SESSION STATUS LIKE 'Handler_update'").await.expect("read");
        row.expect("a row").1
    };
    let before = (fixture.get(&identity("done")).await, fixture.get(&identity("running")).await);
    let counted = updates(&mut connection).await;
    for key in ["done", "running"] {
        let error = claimed(&mut connection, key).await;
        assert_eq!(error.is_some(), fixture.store.server().product == Product::MySql, "{error:?}");
    }
    assert_eq!(updates(&mut connection).await, counted, "no row was written to");
    assert_eq!((fixture.get(&identity("done")).await, fixture.get(&identity("running")).await), before);
}
