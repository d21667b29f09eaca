//! Sessions and settings: what is refused, and what must not matter.

use std::time::Duration;

use bytes::Bytes;
use idem_core::{Claimed, Complete, Completed, ErrorKind, Recorded, Renew, Response, Store};
use idem_mysql::mysql_async::prelude::Queryable;
use tokio::sync::Mutex;

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    a_session_that_breaks_the_contract_is_refused_with_a_remedy,
    a_deadline_below_a_locks_wait_is_refused,
    t3_the_sessions_time_zone_moves_nothing,
    t3_an_hour_that_comes_twice_is_two_hours,
    f7_a_response_that_no_packet_holds_is_refused_before_it_is_sent,
    the_applications_sql_modes_do_not_matter,
];

async fn a_session_that_breaks_the_contract_is_refused_with_a_remedy(fixture: Fixture) {
    let cases = [
        ("SET SESSION sql_mode = ''", "strict"),
        ("SET SESSION sql_mode = 'ANSI_QUOTES,NO_ZERO_DATE'", "strict"),
        ("SET SESSION autocommit = 0", "autocommit"),
        ("SET SESSION TRANSACTION READ ONLY", "primary"),
    ];
    for (setting, says) in cases {
        let error = fixture.builder().on_connect(setting).open().await.expect_err("refused");
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false), "{setting}: {error}");
        assert!(error.message().contains(says), "{setting}: {error}");
    }
}

async fn a_deadline_below_a_locks_wait_is_refused(fixture: Fixture) {
    let error = fixture.builder().deadline(Duration::from_millis(1_999)).open().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    fixture.builder().deadline(Duration::MAX).open().await.expect("opened").close().await;
}

async fn t3_the_sessions_time_zone_moves_nothing(fixture: Fixture) {
    let west = fixture.with(|builder| builder.on_connect("SET SESSION time_zone = '-12:00'")).await;
    let east = fixture.with(|builder| builder.on_connect("SET SESSION time_zone = '+13:00'")).await;
    let grant = west.acquire(&claim("k")).await;
    let Claimed::InFlight { retry_after } = east.claim(&claim("k")).await else { panic!("not in flight") };
    assert!(retry_after <= Duration::from_secs(30) && retry_after > Duration::from_secs(20), "{retry_after:?}");
    let (a, b) = (west.get(&identity("k")).await, east.get(&identity("k")).await);
    assert_eq!(a, b);
    assert_eq!(east.complete(&grant, succeeded("x")).await, Completed::Stored);
    assert!(matches!(west.claim(&claim("k")).await, Claimed::Replay(_)));
    west.store.close().await;
    east.store.close().await;
}

/// 2025-10-26 01:00 UTC: in Berlin the hour from 02:00 to 03:00 begins again.
const FALL_BACK: u64 = 1_761_440_400;

/// Two sessions whose local clocks show the same, an hour apart.
async fn t3_an_hour_that_comes_twice_is_two_hours(fixture: Fixture) {
    // Time zones with names are tables that a server may be without: this one is for the trial.
    let zone =
        format!("idem/{}", fixture.url.rsplit('/').next().unwrap_or_default().split('?').next().unwrap_or_default());
    let mut admin = fixture.connection().await;
    admin.query_drop("INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N')").await.expect("made");
    let number = admin.last_insert_id().expect("numbered");
    for statement in [
        format!("INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('{zone}', {number})"),
        format!(
            "INSERT INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation)
             VALUES ({number}, 0, 7200, 1, 'S'), ({number}, 1, 3600, 0, 'W')"
        ),
        format!(
            "INSERT INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id)
             VALUES ({number}, {}, 0), ({number}, {FALL_BACK}, 1)",
            FALL_BACK - 10_000_000
        ),
    ] {
        admin.query_drop(statement).await.expect("made");
    }
    let at = async |time: u64| {
        let zoned = format!("SET SESSION time_zone = '{zone}'");
        let frozen = format!("SET SESSION timestamp = {time}");
        fixture.with(|builder| builder.on_connect(zoned).on_connect(frozen)).await
    };
    let (first, second) = (at(FALL_BACK - 1_800).await, at(FALL_BACK + 1_800).await);
    admin.query_drop(format!("SET SESSION time_zone = '{zone}'")).await.expect("known");
    let mut shown = Vec::new();
    for time in [FALL_BACK - 1_800, FALL_BACK + 1_800] {
        admin.query_drop(format!("SET SESSION timestamp = {time}")).await.expect("set");
        let local: Option<String> = admin.query_first("SELECT CAST(NOW() AS CHAR)").await.expect("read");
        shown.push(local);
    }
    assert_eq!(shown[0], shown[1], "the hour comes twice");

    let grant = first.acquire(&claim("k")).await;
    assert_eq!(grant.lease.fence.get(), (FALL_BACK - 1_800) * 1_000_000);
    let later = second.acquire(&claim("k")).await;
    assert_eq!(later.lease.attempt, 2, "an hour later the lease of half a minute is over");
    assert!(later.lease.fence > grant.lease.fence);
    let Claimed::InFlight { retry_after } = first.claim(&claim("k")).await else { panic!("not in flight") };
    assert!(retry_after >= Duration::from_secs(3_600), "{retry_after:?}");
    for table in ["time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type"] {
        admin.query_drop(format!("DELETE FROM mysql.{table} WHERE Time_zone_id = {number}")).await.expect("removed");
    }
    first.store.close().await;
    second.store.close().await;
}

/// One trial at a time changes what the server tells new connections.
static GLOBALS: Mutex<()> = Mutex::const_new(());

async fn f7_a_response_that_no_packet_holds_is_refused_before_it_is_sent(fixture: Fixture) {
    let small = {
        let _alone = GLOBALS.lock().await;
        let before = fixture.number("SELECT @@GLOBAL.max_allowed_packet").await;
        fixture.run_sql("SET GLOBAL max_allowed_packet = 1048576").await;
        let one = std::num::NonZeroUsize::MIN;
        let small = fixture.with(|builder| builder.connections(one).response_limit(usize::MAX)).await;
        fixture.run_sql(format!("SET GLOBAL max_allowed_packet = {before}")).await;
        small
    };
    let limit = small.store.response_limit();
    assert_eq!(limit, 1_048_576 - 2 * 65_536);
    let grant = small.acquire(&claim("k")).await;
    // The largest of everything: it has to fit into one row on its way back, too.
    let renew = Renew::new(grant.lease.clone()).checkpoint(1, vec![1_u8; idem_core::MAX_CHECKPOINT]).expect("valid");
    small.store.renew(&renew).await.expect("renewed");
    let of_size = |bytes: usize| Recorded::from(Response::new(200).with_body(Bytes::from(vec![b'x'; bytes])));
    let end = |bytes| Complete::new(grant.lease.clone(), idem_core::End::Succeeded(of_size(bytes)));
    let before = small.get(&identity("k")).await;
    let error = small.store.complete(&end(limit + 1)).await.expect_err("refused");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TooLarge, false));
    assert_eq!(small.get(&identity("k")).await, before);
    assert_eq!(small.store.complete(&end(limit)).await.ok(), Some(Completed::Stored));
    let Claimed::Replay(replay) = small.claim(&claim("k")).await else { panic!("not replayed") };
    assert_eq!(replay.recorded, of_size(limit));
    small.store.close().await;
}

async fn the_applications_sql_modes_do_not_matter(fixture: Fixture) {
    // The statements are public, so they mean the same in any strict session.
    let mut modes =
        vec!["STRICT_ALL_TABLES,ANSI", "TRADITIONAL,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION"];
    if fixture.kind == conformance::provider::Kind::MariaDb {
        modes.push("STRICT_ALL_TABLES,SIMULTANEOUS_ASSIGNMENT");
    }
    for mode in modes {
        let fixture = fixture.with(|builder| builder.on_connect(format!("SET SESSION sql_mode = '{mode}'"))).await;
        let key = |name: &str| format!("{mode}{name}");
        let first = fixture.acquire(&claim(&key("a"))).await;
        let renew = Renew::new(first.lease.clone()).checkpoint(3, "page 3").expect("valid");
        fixture.store.renew(&renew).await.expect("renewed");
        fixture.age(&identity(&key("a")), secs(31)).await;
        let second = fixture.acquire(&claim(&key("a"))).await;
        assert_eq!((second.lease.attempt, second.checkpoint.map(|left| left.sequence)), (2, Some(3)), "{mode}");
        assert_eq!(fixture.get(&identity(&key("a"))).await.and_then(|record| record.ran_since), Some(1));
        let release = idem_core::Release::new(second.lease);
        assert_eq!(fixture.store.release(&release).await.ok(), Some(idem_core::Released::Released));
        let record = fixture.get(&identity(&key("a"))).await.expect("there");
        assert_eq!((record.state, record.undone), (idem_core::State::Unknown, true), "{mode}");
        let third = fixture.acquire(&claim(&key("a"))).await;
        assert_eq!(fixture.complete(&third, succeeded("done")).await, Completed::Stored);
        assert!(matches!(fixture.claim(&claim(&key("a"))).await, Claimed::Replay(_)));
        fixture.age(&identity(&key("a")), secs(100_000)).await;
        assert_eq!(fixture.acquire(&claim(&key("a"))).await.lease.attempt, 1, "{mode}");
        fixture.store.close().await;
    }
}
