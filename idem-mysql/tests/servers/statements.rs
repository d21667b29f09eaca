//! The public statements, by hand: what comes late, or saw something else, changes nothing (clause C13).

use idem_core::{Claimed, Completed, End, OnUncertain, Record, Release, Renew, State, Store};
use idem_mysql::mysql_async::Value;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::sql;

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    a_takeover_stands_only_on_what_it_saw,
    a_takeover_stands_only_while_its_own_clock_agrees,
    a_takeover_minds_the_policies_of_both,
    a_new_life_stands_only_on_what_it_saw_and_while_it_is_free,
    a_repeat_stands_only_on_what_it_saw,
    what_comes_late_changes_nothing,
];

const DAY_US: u64 = 86_400_000_000;

/// Runs a statement; how many rows it changed.
async fn run(fixture: &Fixture, statement: &str, params: Vec<Value>) -> u64 {
    let mut connection = fixture.connection().await;
    connection.exec_drop(statement, params).await.expect("done");
    connection.affected_rows()
}

fn identified() -> [Value; 2] {
    ["global".into(), "k".into()]
}

fn seen(record: &Record) -> [Value; 4] {
    let state: u8 = match record.state {
        State::Processing => 1,
        State::Succeeded | State::Spent(_) => 2,
        State::Failed => 3,
        State::Unknown => 4,
        State::Released => 5,
    };
    [record.fence.get().into(), record.token.as_bytes().into(), state.into(), record.lease_until.as_micros().into()]
}

/// What a takeover asks beside what it saw.
struct Asked {
    resolving: bool,
    within_us: Option<u64>,
}

const PLAINLY: Asked = Asked { resolving: false, within_us: Some(DAY_US) };

async fn take_over(fixture: &Fixture, record: &Record, asked: Asked) -> u64 {
    let mut params: Vec<Value> = vec![[9_u8; 16].into(), Value::NULL, false.into(), 30_000_000_u64.into(), "[]".into()];
    params.extend(identified());
    params.extend(seen(record));
    params.push(record.checkpoint.as_ref().map(|left| left.sequence).into());
    params.push(asked.resolving.into());
    params.push(asked.within_us.into());
    run(fixture, sql::TAKE_OVER, params).await
}

async fn new_life(fixture: &Fixture, record: &Record, remember_us: u64) -> u64 {
    let mut params: Vec<Value> = vec![
        "test".into(),
        [0_u8; 32].into(),
        Value::NULL,
        [9_u8; 16].into(),
        Value::NULL,
        1_u64.into(),
        30_000_000_u64.into(),
        DAY_US.into(),
    ];
    params.extend(identified());
    params.extend(seen(record));
    params.push(remember_us.into());
    run(fixture, sql::NEW_LIFE, params).await
}

async fn record(fixture: &Fixture) -> Record {
    fixture.get(&identity("k")).await.expect("there")
}

async fn lapsed(fixture: &Fixture) -> Record {
    fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(31)).await;
    record(fixture).await
}

async fn a_takeover_stands_only_on_what_it_saw(fixture: Fixture) {
    let record = lapsed(&fixture).await;
    let mut others = Vec::new();
    let mut other = record.clone();
    other.fence = idem_core::Fence::new(record.fence.get() + 1);
    others.push(other);
    let mut other = record.clone();
    other.token = idem_core::Token::random();
    others.push(other);
    let mut other = record.clone();
    other.state = State::Unknown;
    others.push(other);
    let mut other = record.clone();
    other.lease_until = record.lease_until.plus(secs(1));
    others.push(other);
    let mut other = record.clone();
    other.checkpoint = Some(idem_core::Checkpoint { sequence: 1, bytes: bytes::Bytes::new() });
    others.push(other);
    for other in &others {
        assert_eq!(take_over(&fixture, other, PLAINLY).await, 0, "{other:?}");
    }
    assert_eq!(take_over(&fixture, &record, PLAINLY).await, 1);
    assert_eq!(take_over(&fixture, &record, PLAINLY).await, 0, "and once");
}

async fn a_takeover_stands_only_while_its_own_clock_agrees(fixture: Fixture) {
    // As if the clock had stepped back since the record was read: its lease runs again.
    fixture.acquire(&claim("k")).await;
    let running = record(&fixture).await;
    assert_eq!(take_over(&fixture, &running, PLAINLY).await, 0, "a lease that runs");
    let resolving = Asked { resolving: true, within_us: None };
    assert_eq!(take_over(&fixture, &running, resolving).await, 0, "and not for a resolver either");
    fixture.age(&identity("k"), secs(31)).await;
    let lapsed = record(&fixture).await;
    let too_late = Asked { resolving: false, within_us: Some(30_000_000) };
    assert_eq!(take_over(&fixture, &lapsed, too_late).await, 0, "past the time for it");
    assert_eq!(take_over(&fixture, &lapsed, PLAINLY).await, 1);
}

async fn a_takeover_minds_the_policies_of_both(fixture: Fixture) {
    let held = claiming("k").on_uncertain(OnUncertain::Hold).build().expect("valid");
    let grant = fixture.acquire(&held).await;
    fixture.store.renew(&Renew::new(grant.lease)).await.expect("announced");
    fixture.age(&identity("k"), secs(31)).await;
    let theirs = record(&fixture).await;
    assert_eq!(take_over(&fixture, &theirs, PLAINLY).await, 0, "held by the record");
    let resolving = Asked { resolving: true, within_us: None };
    assert_eq!(take_over(&fixture, &theirs, resolving).await, 1, "resolved");
    fixture.run_sql("DELETE FROM idem_records").await;
    let record = lapsed(&fixture).await;
    let ours = Asked { resolving: false, within_us: None };
    assert_eq!(take_over(&fixture, &record, ours).await, 0, "held by the claim");
    fixture.run_sql("DELETE FROM idem_records").await;
    fixture.acquire(&held).await;
    fixture.age(&identity("k"), secs(31)).await;
    let silent = self::record(&fixture).await;
    let ours = Asked { resolving: false, within_us: None };
    assert_eq!(take_over(&fixture, &silent, ours).await, 1, "C14: nothing ran");
}

async fn a_new_life_stands_only_on_what_it_saw_and_while_it_is_free(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    assert_eq!(new_life(&fixture, &record(&fixture).await, 0).await, 0, "a lease that runs");
    fixture.complete(&grant, succeeded("x")).await;
    let finished = record(&fixture).await;
    assert_eq!(new_life(&fixture, &finished, 0).await, 0, "to be replayed");
    fixture.age(&identity("k"), secs(86_401)).await;
    let mut over_age = finished.clone();
    over_age.lease_until = idem_core::StoreTime::from_micros(finished.lease_until.as_micros() - 86_401_000_000);
    assert_eq!(new_life(&fixture, &over_age, DAY_US).await, 0, "remembered");
    assert_eq!(new_life(&fixture, &finished, 0).await, 0, "not as it was seen");
    assert_eq!(new_life(&fixture, &over_age, 0).await, 1);
    fixture.run_sql("DELETE FROM idem_records").await;
    let grant = fixture.acquire(&claim("k")).await;
    fixture.store.release(&Release::new(grant.lease)).await.expect("released");
    let released = record(&fixture).await;
    assert_eq!(new_life(&fixture, &released, DAY_US).await, 1, "released is free whatever is remembered");
    assert_eq!(new_life(&fixture, &released, 0).await, 0, "and once");
}

async fn a_repeat_stands_only_on_what_it_saw(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(31)).await;
    let before = record(&fixture).await;
    fixture.store.renew(&Renew::new(grant.lease)).await.expect("renewed");
    let repeat = async |record: &Record| {
        let mut params: Vec<Value> = vec![3_600_000_000_u64.into()];
        params.extend(identified());
        params.extend(seen(record));
        run(&fixture, sql::REPEAT, params).await
    };
    assert_eq!(repeat(&before).await, 0);
    let now = record(&fixture).await;
    assert_eq!(repeat(&now).await, 1);
    assert!(record(&fixture).await.lease_until > now.lease_until);
}

async fn what_comes_late_changes_nothing(fixture: Fixture) {
    // An attempt's own statements, sent before somebody took over and delivered after.
    let first = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(31)).await;
    let second = fixture.acquire(&claim("k")).await;
    let before = record(&fixture).await;
    let mut holder: Vec<Value> = identified().to_vec();
    holder.extend([first.lease.token.as_bytes().into(), first.lease.fence.get().into()]);
    let with = |params: &[Value]| params.iter().cloned().chain(holder.iter().cloned()).collect::<Vec<_>>();
    assert_eq!(run(&fixture, sql::RENEW, with(&[1_u64.into(), Value::NULL, Value::NULL, Value::NULL])).await, 0);
    let code: Value = 200_u16.into();
    let complete =
        [false.into(), code, false.into(), "".into(), false.into(), "late".into(), 1_u64.into(), 2_u8.into()];
    assert_eq!(run(&fixture, sql::COMPLETE, with(&complete)).await, 0);
    assert_eq!(run(&fixture, sql::RELEASE, with(&[true.into()])).await, 0);
    assert_eq!(record(&fixture).await, before);
    assert_eq!(fixture.complete(&second, End::Unknown(None)).await, Completed::Stored);
    assert!(matches!(fixture.claim(&claim("k")).await, Claimed::Acquired(grant) if grant.lease.attempt == 3));
}
