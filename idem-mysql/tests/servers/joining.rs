//! `settle` and `once`: the application's rows and the record, both or neither, in the application's transaction.

#[path = "joining/proxy.rs"]
mod proxy;

use conformance::provider::Kind;
use futures::future::join_all;
use idem_core::{
    Claim, Claimed, Complete, Completed, End, ErrorKind, Final, HowEnded, OnUncertain, Renew, Replay, Response, State,
    Store,
};
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Conn, IsolationLevel, OptsBuilder, Transaction, TxOpts};
use idem_mysql::{Answered, Once};
use proxy::{Cut, Proxy};

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    settle_commits_rows_and_record_together,
    settle_repeated_or_lost_rolls_back,
    a_rollback_leaves_the_attempt_as_it_was,
    a_response_that_is_too_long_rolls_back,
    settle_works_on_a_lapsed_lease_that_nobody_took,
    once_runs_once,
    once_keeps_a_final_refusal,
    once_answers_for_those_who_may_not_run,
    once_takes_over_and_begins_new_lives,
    once_runs_once_for_all_at_once,
    j3_a_duplicate_leaves_the_transaction_usable,
    j4_behind_an_open_claim_the_answer_is_busy_and_the_transaction_usable,
    j3_an_older_snapshot_does_not_hide_the_record,
    j3_a_snapshot_that_the_server_insists_on_aborts,
    a_transaction_that_the_server_rolled_back_is_not_settled,
    the_insert_id_of_the_application_is_left_alone,
    the_application_may_be_on_another_database,
    j2_a_session_without_an_idle_limit_is_refused,
    a_session_that_is_not_strict_is_refused,
    a_read_only_transaction_is_refused,
    a_commit_whose_reply_is_lost_is_found_out,
    a_commit_that_never_arrives_is_found_out,
];

const ORDERS: &str = "CREATE TABLE orders (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, what VARCHAR(100) NOT NULL)
                      ENGINE = InnoDB";

/// The application: its own connection, as the documentation asks for.
async fn application(fixture: &Fixture) -> Conn {
    let mut connection = fixture.connection().await;
    connection.query_drop("SET SESSION wait_timeout = 60").await.expect("set");
    connection
}

fn read_committed() -> TxOpts {
    at(IsolationLevel::ReadCommitted)
}

fn at(level: IsolationLevel) -> TxOpts {
    let mut options = TxOpts::new();
    options.with_isolation_level(level);
    options
}

async fn order(on: &mut Transaction<'_>, what: &str) {
    on.exec_drop("INSERT INTO orders (what) VALUES (?)", (what,)).await.expect("ordered");
}

async fn orders(fixture: &Fixture) -> i64 {
    fixture.number("SELECT COUNT(*) FROM orders").await
}

fn done(body: &'static str) -> Replay {
    Replay { end: Final::Succeeded, recorded: response(body).into() }
}

fn complete(lease: &idem_core::Lease, end: End) -> Complete {
    Complete::new(lease.clone(), end)
}

/// Runs it once: an order, and the answer "first".
async fn once(fixture: &Fixture, claim: &Claim) -> Result<Answered, Replay> {
    let mut application = application(fixture).await;
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    match fixture.store.once(transaction, claim).await.expect("answered") {
        Once::First(mut first) => {
            order(&mut first, "book").await;
            Err(first.commit(done("first")).await.expect("committed"))
        }
        Once::Answered(answered, transaction) => {
            transaction.commit().await.expect("committed");
            Ok(answered)
        }
    }
}

async fn settle_commits_rows_and_record_together(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let mut application = application(&fixture).await;
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let key = level.to_string();
        let grant = fixture.acquire(&claim(&key)).await;
        let mut transaction = application.start_transaction(at(level)).await.expect("begun");
        order(&mut transaction, "book").await;
        let settled = fixture.store.settle(transaction, &complete(&grant.lease, succeeded("ordered"))).await;
        assert_eq!(settled.ok(), Some(Completed::Stored), "{key}");
        assert!(matches!(fixture.claim(&claim(&key)).await, Claimed::Replay(replay) if replay == done("ordered")));
    }
    assert_eq!(orders(&fixture).await, 3);
}

async fn settle_repeated_or_lost_rolls_back(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let first = fixture.acquire(&claim("k")).await;
    let mut application = application(&fixture).await;
    let mut settle = async |lease| {
        let mut transaction = application.start_transaction(read_committed()).await.expect("begun");
        order(&mut transaction, "book").await;
        fixture.store.settle(transaction, &complete(lease, succeeded("ordered"))).await.expect("answered")
    };
    fixture.age(&identity("k"), secs(31)).await;
    let second = fixture.acquire(&claim("k")).await;
    assert_eq!(settle(&first.lease).await, Completed::Lost);
    assert_eq!(orders(&fixture).await, 0);
    assert_eq!(settle(&second.lease).await, Completed::Stored);
    assert_eq!(settle(&second.lease).await, Completed::AlreadyStored, "F5b");
    assert_eq!(orders(&fixture).await, 1);
    fixture.run_sql("DELETE FROM idem_records").await;
    assert_eq!(settle(&second.lease).await, Completed::Lost);
    assert_eq!((orders(&fixture).await, fixture.rows().await), (1, 0));
}

async fn a_rollback_leaves_the_attempt_as_it_was(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let grant = fixture.acquire(&claim("k")).await;
    let before = fixture.get(&identity("k")).await;
    let mut application = application(&fixture).await;
    let mut transaction = application.start_transaction(read_committed()).await.expect("begun");
    order(&mut transaction, "book").await;
    transaction.rollback().await.expect("rolled back");
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    let Once::First(mut first) = fixture.store.once(transaction, &claim("other")).await.expect("answered") else {
        panic!("not first")
    };
    order(&mut first, "book").await;
    first.rollback().await;
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    let once = fixture.store.once(transaction, &claim("other")).await.expect("answered");
    assert!(matches!(once, Once::First(_)), "nothing was left, not even the claim");
    drop(once);
    application.query_drop("DO 0").await.expect("the driver rolls back what was dropped");
    assert_eq!((orders(&fixture).await, fixture.get(&identity("k")).await), (0, before));
    assert_eq!(fixture.rows().await, 1);
    assert_eq!(fixture.complete(&grant, succeeded("after all")).await, Completed::Stored);
}

async fn a_response_that_is_too_long_rolls_back(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let small = fixture.with(|builder| builder.response_limit(4)).await;
    let grant = small.acquire(&claim("k")).await;
    let mut application = application(&fixture).await;
    let mut transaction = application.start_transaction(read_committed()).await.expect("begun");
    order(&mut transaction, "book").await;
    let error =
        small.store.settle(transaction, &complete(&grant.lease, succeeded("too long"))).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    let Once::First(mut first) = small.store.once(transaction, &claim("other")).await.expect("answered") else {
        panic!("not first")
    };
    order(&mut first, "book").await;
    assert_eq!(first.commit(done("too long")).await.expect_err("refused").kind(), ErrorKind::TooLarge);
    assert_eq!((orders(&fixture).await, fixture.rows().await), (0, 1));
    assert_eq!(fixture.get(&identity("k")).await.map(|record| record.state), Some(State::Processing));
    small.store.close().await;
}

async fn settle_works_on_a_lapsed_lease_that_nobody_took(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(3_000)).await;
    let mut application = application(&fixture).await;
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    let settled = fixture.store.settle(transaction, &complete(&grant.lease, succeeded("late"))).await;
    assert_eq!(settled.ok(), Some(Completed::Stored), "F1");
}

async fn once_runs_once(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    assert_eq!(once(&fixture, &claim("k")).await, Err(done("first")));
    assert_eq!(once(&fixture, &claim("k")).await, Ok(Answered::Done(done("first"))));
    assert_eq!(once(&fixture, &claim("other")).await, Err(done("first")));
    assert_eq!(orders(&fixture).await, 2);
    let record = fixture.get(&identity("k")).await.expect("there");
    assert_eq!((record.state, record.attempt), (State::Succeeded, 1));
    assert_eq!(record.fence.get(), record.created_at.as_micros());
}

async fn once_keeps_a_final_refusal(fixture: Fixture) {
    let refused = Replay { end: Final::Failed, recorded: Response::new(422).into() };
    let mut application = application(&fixture).await;
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    let Once::First(first) = fixture.store.once(transaction, &claim("k")).await.expect("answered") else {
        panic!("not first")
    };
    assert_eq!(first.commit(refused.clone()).await.ok(), Some(refused.clone()));
    assert_eq!(fixture.claim(&claim("k")).await, Claimed::Replay(refused));
}

async fn once_answers_for_those_who_may_not_run(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let held = || claiming("held").on_uncertain(OnUncertain::Hold).build().expect("valid");
    let grant = fixture.acquire(&held()).await;
    assert!(matches!(once(&fixture, &held()).await, Ok(Answered::Busy { retry_after }) if !retry_after.is_zero()));
    assert_eq!(once(&fixture, &other_claim("held")).await, Ok(Answered::Mismatch));
    fixture.store.renew(&Renew::new(grant.lease)).await.expect("announced");
    fixture.age(&identity("held"), secs(31)).await;
    assert!(matches!(once(&fixture, &held()).await, Ok(Answered::Uncertain(uncertain)) if uncertain.attempt == 1));
    assert_eq!(orders(&fixture).await, 0);
}

async fn once_takes_over_and_begins_new_lives(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let lapsed = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(31)).await;
    assert_eq!(once(&fixture, &claim("k")).await, Err(done("first")));
    let record = fixture.get(&identity("k")).await.expect("there");
    assert_eq!(record.previous().map(|past| past.how), Some(HowEnded::Lapsed));
    assert!(record.fence > lapsed.lease.fence);
    assert_eq!(fixture.complete(&lapsed, succeeded("late")).await, Completed::Lost);
    fixture.age(&identity("k"), secs(100_000)).await;
    assert_eq!(once(&fixture, &claim("k")).await, Err(done("first")));
    let again = fixture.get(&identity("k")).await.expect("there");
    assert_eq!((again.attempt, again.history.len()), (1, 0));
    assert!(again.fence > record.fence);
    assert_eq!(orders(&fixture).await, 2);
    // Our own claim, granted outside and repeated inside.
    let asked = claim("mine");
    let grant = fixture.acquire(&asked).await;
    fixture.store.renew(&Renew::new(grant.lease.clone()).lasting(secs(600))).await.expect("renewed");
    assert_eq!(once(&fixture, &asked).await, Err(done("first")));
    let record = fixture.get(&identity("mine")).await.expect("there");
    assert_eq!((record.state, record.fence), (State::Succeeded, grant.lease.fence));
}

async fn once_runs_once_for_all_at_once(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let all = (0..32).map(|_| {
        let fixture = fixture.clone();
        tokio::spawn(async move { once(&fixture, &claim("k")).await })
    });
    let mut firsts = 0;
    for answer in join_all(all).await {
        match answer.expect("ran") {
            Err(_) => firsts += 1,
            Ok(Answered::Done(replay)) => assert_eq!(replay, done("first")),
            Ok(Answered::Busy { .. }) => {}
            Ok(other) => panic!("a claim was seen that was not committed: {other:?}"),
        }
    }
    assert_eq!((firsts, orders(&fixture).await), (1, 1));
}

async fn j3_a_duplicate_leaves_the_transaction_usable(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    once(&fixture, &claim("k")).await.expect_err("first");
    let mut application = application(&fixture).await;
    let mut transaction = application.start_transaction(read_committed()).await.expect("begun");
    order(&mut transaction, "before").await;
    let Ok(Once::Answered(answered, mut transaction)) = fixture.store.once(transaction, &claim("k")).await else {
        panic!("not answered")
    };
    assert_eq!(answered, Answered::Done(done("first")));
    order(&mut transaction, "after").await;
    transaction.commit().await.expect("committed");
    assert_eq!(fixture.number("SELECT COUNT(*) FROM orders WHERE what IN ('before', 'after')").await, 2);
}

async fn j4_behind_an_open_claim_the_answer_is_busy_and_the_transaction_usable(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let (mut one, mut two) = (application(&fixture).await, application(&fixture).await);
    let transaction = one.start_transaction(read_committed()).await.expect("begun");
    let Ok(Once::First(first)) = fixture.store.once(transaction, &claim("k")).await else { panic!("not first") };
    // The application waits patiently for its own rows; the store does not.
    two.query_drop("SET SESSION innodb_lock_wait_timeout = 50").await.expect("set");
    let mut transaction = two.start_transaction(read_committed()).await.expect("begun");
    order(&mut transaction, "before").await;
    let asked = claim("k");
    let behind = tokio::time::timeout(std::time::Duration::from_secs(8), fixture.store.once(transaction, &asked)).await;
    let Ok(Ok(Once::Answered(Answered::Busy { .. }, mut transaction))) = behind else { panic!("not busy") };
    order(&mut transaction, "after").await;
    let wait: Option<u32> = transaction.query_first("SELECT @@SESSION.innodb_lock_wait_timeout").await.expect("read");
    assert_eq!(wait, Some(50), "and its own patience is its own again");
    transaction.commit().await.expect("committed");
    assert_eq!(orders(&fixture).await, 2);
    first.commit(done("first")).await.expect("committed");
    assert_eq!(once(&fixture, &claim("k")).await, Ok(Answered::Done(done("first"))));
}

/// A transaction whose snapshot is from before the key was used.
async fn with_an_old_snapshot<'c>(connection: &'c mut Conn, level: IsolationLevel) -> Transaction<'c> {
    let mut transaction = connection.start_transaction(at(level)).await.expect("begun");
    let seen: Option<i64> = transaction.query_first("SELECT COUNT(*) FROM idem_records").await.expect("read");
    assert_eq!(seen, Some(0));
    transaction
}

async fn j3_an_older_snapshot_does_not_hide_the_record(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead] {
        let mut application = application(&fixture).await;
        if fixture.kind == Kind::MariaDb {
            application.query_drop("SET SESSION innodb_snapshot_isolation = OFF").await.expect("set");
        }
        let transaction = with_an_old_snapshot(&mut application, level).await;
        once(&fixture, &claim("k")).await.expect_err("first");
        let Ok(Once::Answered(answered, mut transaction)) = fixture.store.once(transaction, &claim("k")).await else {
            panic!("{level}: not answered")
        };
        assert_eq!(answered, Answered::Done(done("first")), "{level}");
        order(&mut transaction, "after").await;
        transaction.commit().await.expect("committed");
        fixture.run_sql("DELETE FROM idem_records").await;
    }
}

async fn j3_a_snapshot_that_the_server_insists_on_aborts(fixture: Fixture) {
    if fixture.kind != Kind::MariaDb {
        // MySQL has no such setting; the trial would have nothing to say.
        return;
    }
    fixture.run_sql(ORDERS).await;
    let mut application = application(&fixture).await;
    application.query_drop("SET SESSION innodb_snapshot_isolation = ON").await.expect("set");
    let transaction = with_an_old_snapshot(&mut application, IsolationLevel::RepeatableRead).await;
    once(&fixture, &claim("k")).await.expect_err("first");
    let error = fixture.store.once(transaction, &claim("k")).await.expect_err("aborted");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, true), "{error}");
    // A renewal between the transaction's snapshot and its end.
    let grant = fixture.acquire(&claim("other")).await;
    let mut transaction = application.start_transaction(at(IsolationLevel::RepeatableRead)).await.expect("begun");
    let _: Option<i64> = transaction.query_first("SELECT COUNT(*) FROM idem_records").await.expect("read");
    order(&mut transaction, "book").await;
    fixture.store.renew(&Renew::new(grant.lease.clone()).lasting(secs(60))).await.expect("renewed");
    let settled = fixture.store.settle(transaction, &complete(&grant.lease, succeeded("x"))).await;
    assert_eq!(settled.expect_err("aborted").kind(), ErrorKind::TransactionAborted);
    assert_eq!(orders(&fixture).await, 1, "never a silent half");
    assert_eq!(fixture.complete(&grant, succeeded("again")).await, Completed::Stored);
}

async fn a_transaction_that_the_server_rolled_back_is_not_settled(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    fixture.run_sql("INSERT INTO orders VALUES (1, 'one'), (2, 'two')").await;
    let grant = fixture.acquire(&claim("k")).await;
    let (mut one, mut two) = (application(&fixture).await, application(&fixture).await);
    let mut victim = one.start_transaction(read_committed()).await.expect("begun");
    let mut other = two.start_transaction(read_committed()).await.expect("begun");
    victim.query_drop("UPDATE orders SET what = 'victim' WHERE id = 1").await.expect("locked");
    // The server ends the one that changed fewer rows.
    other.query_drop("INSERT INTO orders (what) VALUES ('a'), ('b'), ('c'), ('d'), ('e')").await.expect("inserted");
    other.query_drop("UPDATE orders SET what = 'other' WHERE id = 2").await.expect("locked");
    let crossing = async {
        fixture.until_waiting(1).await;
        other.query_drop("UPDATE orders SET what = 'other' WHERE id = 1").await
    };
    let (deadlock, crossed) =
        futures::join!(victim.query_drop("UPDATE orders SET what = 'victim' WHERE id = 2"), crossing);
    crossed.expect("the other goes on");
    let deadlock = deadlock.expect_err("a deadlock");
    assert!(deadlock.to_string().contains("1213"), "{deadlock}");
    other.commit().await.expect("committed");
    // The application does not care, and goes on outside any transaction.
    let error = fixture.store.settle(victim, &complete(&grant.lease, succeeded("half"))).await.expect_err("aborted");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, true));
    assert_eq!(fixture.get(&identity("k")).await.map(|record| record.state), Some(State::Processing));
}

async fn the_insert_id_of_the_application_is_left_alone(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let lapsed = fixture.acquire(&claim("lapsed")).await;
    fixture.age(&identity("lapsed"), secs(31)).await;
    let mut application = application(&fixture).await;
    for (key, expected) in [("k", 1), ("lapsed", 2)] {
        let mut transaction = application.start_transaction(read_committed()).await.expect("begun");
        order(&mut transaction, "book").await;
        let Ok(Once::First(mut first)) = fixture.store.once(transaction, &claim(key)).await else {
            panic!("not first")
        };
        let id: Option<u64> = first.query_first("SELECT LAST_INSERT_ID()").await.expect("read");
        assert_eq!(id, Some(expected), "{key}");
        assert!(first.grant().lease.fence > idem_core::Fence::new(0));
        first.commit(done("first")).await.expect("committed");
    }
    assert_eq!(fixture.complete(&lapsed, succeeded("late")).await, Completed::Lost);
}

async fn the_application_may_be_on_another_database(fixture: Fixture) {
    let mut application = application(&fixture).await;
    let name: Option<String> = application.query_first("SELECT DATABASE()").await.expect("read");
    let other = format!("{}_odd`name", name.expect("named"));
    let quoted = format!("`{}`", other.replace('`', "``"));
    application.query_drop(format!("CREATE DATABASE {quoted}")).await.expect("made");
    application.query_drop(format!("USE {quoted}")).await.expect("used");
    application.query_drop(ORDERS).await.expect("made");
    let grant = fixture.acquire(&claim("k")).await;
    let mut transaction = application.start_transaction(read_committed()).await.expect("begun");
    order(&mut transaction, "book").await;
    let settled = fixture.store.settle(transaction, &complete(&grant.lease, succeeded("x"))).await;
    assert_eq!(settled.ok(), Some(Completed::Stored));
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    let Ok(Once::First(mut first)) = fixture.store.once(transaction, &claim("other")).await else {
        panic!("not first")
    };
    order(&mut first, "pen").await;
    first.commit(done("first")).await.expect("committed");
    let orders: Option<i64> = application.query_first("SELECT COUNT(*) FROM orders").await.expect("read");
    assert_eq!((orders, fixture.rows().await), (Some(2), 2));
    // And the store on a database with such a name.
    let opts = OptsBuilder::from_opts(application.opts().clone()).db_name(Some(other));
    let store = idem_mysql::MySqlStore::builder(opts).open().await.expect("opened");
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    assert!(matches!(store.once(transaction, &claim("k")).await, Ok(Once::First(_))));
    store.close().await;
    application.query_drop(format!("DROP DATABASE {quoted}")).await.expect("dropped");
}

async fn j2_a_session_without_an_idle_limit_is_refused(fixture: Fixture) {
    fixture.run_sql(ORDERS).await;
    let mut application = fixture.connection().await;
    application.query_drop("SET SESSION wait_timeout = 28800").await.expect("set");
    let mut transaction = application.start_transaction(read_committed()).await.expect("begun");
    order(&mut transaction, "book").await;
    let error = fixture.store.once(transaction, &claim("k")).await.expect_err("refused");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false));
    assert!(error.message().contains("wait_timeout"), "{error}");
    assert_eq!((orders(&fixture).await, fixture.rows().await), (0, 0), "rolled back");
    if fixture.kind == Kind::MariaDb {
        application.query_drop("SET SESSION idle_transaction_timeout = 60").await.expect("set");
        let transaction = application.start_transaction(read_committed()).await.expect("begun");
        assert!(matches!(fixture.store.once(transaction, &claim("k")).await, Ok(Once::First(_))));
    }
}

async fn a_session_that_is_not_strict_is_refused(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    let mut application = application(&fixture).await;
    application.query_drop("SET SESSION sql_mode = ''").await.expect("set");
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    let error = fixture.store.once(transaction, &claim("other")).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let transaction = application.start_transaction(read_committed()).await.expect("begun");
    let settled = fixture.store.settle(transaction, &complete(&grant.lease, succeeded("x"))).await;
    assert_eq!(settled.expect_err("refused").kind(), ErrorKind::Unsupported);
    assert_eq!(fixture.get(&identity("k")).await.map(|record| record.state), Some(State::Processing));
}

async fn a_read_only_transaction_is_refused(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    let mut application = application(&fixture).await;
    let mut options = read_committed();
    options.with_readonly(true);
    let transaction = application.start_transaction(options).await.expect("begun");
    let error = fixture.store.settle(transaction, &complete(&grant.lease, succeeded("x"))).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::TransactionAborted, "{error}");
    assert!(error.message().contains("read-only"), "{error}");
}

/// Settles through a proxy that cuts the connection at COMMIT.
async fn settle_through(fixture: &Fixture, cut: Cut) -> Result<Completed, idem_core::Error> {
    fixture.run_sql(ORDERS).await;
    let grant = fixture.acquire(&claim("k")).await;
    let proxy = Proxy::start(&fixture.url, cut).await;
    let mut application = Conn::new(proxy.opts()).await.expect("connected through the proxy");
    let mut transaction = application.start_transaction(read_committed()).await.expect("begun");
    order(&mut transaction, "book").await;
    fixture.store.settle(transaction, &complete(&grant.lease, succeeded("ordered"))).await
}

async fn a_commit_whose_reply_is_lost_is_found_out(fixture: Fixture) {
    assert_eq!(settle_through(&fixture, Cut::TheReply).await.ok(), Some(Completed::Stored));
    assert_eq!(orders(&fixture).await, 1);
    assert!(matches!(fixture.claim(&claim("k")).await, Claimed::Replay(replay) if replay == done("ordered")));
}

async fn a_commit_that_never_arrives_is_found_out(fixture: Fixture) {
    let error = settle_through(&fixture, Cut::TheRequest).await.expect_err("not committed");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, true), "{error}");
    assert_eq!(orders(&fixture).await, 0);
    assert_eq!(fixture.get(&identity("k")).await.map(|record| record.state), Some(State::Processing));
}
