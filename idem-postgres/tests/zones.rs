//! T3: no session's time zone moves anything.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use common::*;
use idem_core::{Claimed, Store};
use idem_postgres::PostgresStore;

const ZONES: [&str; 5] = ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati", "<weird>-14:59"];

#[tokio::test]
async fn t3_stores_whose_sessions_are_in_other_zones_agree() {
    let Some(place) = Place::new().await else { return };
    let mut stores = Vec::new();
    for zone in ZONES {
        // The driver asks for UTC; what the server takes from these options comes later, and wins.
        let pool = idem_postgres::sqlx::postgres::PgPoolOptions::new()
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    let set = "SELECT set_config('TimeZone', $1, false)";
                    idem_postgres::sqlx::query(set).bind(zone).execute(connection).await.map(drop)
                })
            })
            .connect_lazy_with(place.options().options([("lock_timeout", "2s")]));
        stores.push(PostgresStore::on_pool(pool).schema(&place.schema).open().await.expect("opened"));
    }
    for (number, owner) in stores.iter().enumerate() {
        let key = format!("k{number}");
        let grant = acquired(owner.claim(&claim(&key)).await.expect("claimed"));
        place.age(&identity(&key), secs(10)).await;
        for store in &stores {
            let answer = store.claim(&claim(&key)).await.expect("answered");
            let Claimed::InFlight { retry_after } = answer else { panic!("{answer:?}") };
            assert!(retry_after > secs(10).as_duration() && retry_after <= secs(20).as_duration(), "{retry_after:?}");
            let seen = store.get(&identity(&key)).await.expect("read").expect("there");
            assert_eq!(seen.lease_until.since(seen.claimed_at), secs(30).as_duration());
        }
        place.age(&identity(&key), secs(21)).await;
        let next = &stores[(number + 1) % stores.len()];
        let second = acquired(next.claim(&claim(&key)).await.expect("claimed"));
        assert_eq!(second.lease.attempt, 2);
        assert!(second.lease.fence > grant.lease.fence);
    }
}

#[tokio::test]
async fn t3_the_clock_of_the_statements_runs_evenly_through_a_change_to_summer_time() {
    let Some(place) = Place::new().await else { return };
    // The expression of the statements, at instants on both sides of both changes of a year.
    let uneven = "
        WITH zone AS MATERIALIZED (SELECT set_config('TimeZone', 'America/New_York', true)),
        instants AS (
            SELECT t, (extract(epoch FROM t) * 1000000)::bigint AS us
              FROM zone, generate_series('2026-03-08 05:00:00+00'::timestamptz, '2026-03-08 09:00:00+00', '1 minute') AS t
            UNION ALL
            SELECT t, (extract(epoch FROM t) * 1000000)::bigint
              FROM zone, generate_series('2026-11-01 04:00:00+00'::timestamptz, '2026-11-01 08:00:00+00', '1 minute') AS t
        )
        SELECT count(*) FROM (SELECT us - lag(us) OVER (ORDER BY t) AS step FROM instants) AS steps
         WHERE step <> 60000000 AND step < 86400000000";
    assert_eq!(place.number(uneven).await, 0);
}
