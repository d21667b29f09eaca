//! What operations cost the server, measured on a quiet one of the test's own.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use common::counters::Counters;
use common::*;
use idem_core::{Claimed, OnUncertain, Renew, Response, Store};
use idem_postgres::sqlx::{AssertSqlSafe, Executor, Row};

const REPLAYS: i64 = 1_000;
const RUNS: i64 = 500;

/// A store on a server where nothing else writes, not even vacuum or a checkpoint.
async fn quiet() -> Option<Fixture> {
    let server = own_server().await?;
    let place = Place::on(server).await;
    place.sql("ALTER SYSTEM SET autovacuum = off").await;
    place.sql("ALTER SYSTEM SET checkpoint_timeout = '1d'").await;
    place.sql("ALTER SYSTEM SET bgwriter_lru_maxpages = 0").await;
    place.sql("SELECT pg_reload_conf()").await;
    place.sql("CHECKPOINT").await;
    let store = place.builder().open().await.expect("opened");
    Some(Fixture { store, place })
}

#[tokio::test]
async fn answers_from_the_record_use_no_transaction_id_and_no_wal() {
    let Some(fixture) = quiet().await else { return };
    let grant = fixture.acquire(&claim("done")).await;
    fixture.complete(&grant, succeeded("kept")).await;
    fixture.acquire(&claim("running")).await;
    let held = || claiming("held").on_uncertain(OnUncertain::Hold).build().expect("valid");
    let announced = fixture.acquire(&held()).await;
    fixture.store.renew(&Renew::new(announced.lease)).await.expect("announced");
    fixture.age(&identity("held"), secs(31)).await;
    let other = idem_core::Claim::builder(identity("done"), operation(), fingerprint("b")).build().expect("valid");
    let answer = async || {
        assert!(matches!(fixture.claim(&claim("done")).await, Claimed::Replay(_)));
        assert!(matches!(fixture.claim(&claim("running")).await, Claimed::InFlight { .. }));
        assert!(matches!(fixture.claim(&held()).await, Claimed::Uncertain(_)));
        assert_eq!(fixture.claim(&other).await, Claimed::Mismatch);
        assert!(fixture.get(&identity("done")).await.is_some());
    };
    answer().await; // Hint bits and pruning, which the first reader of a page leaves, are behind.
    let before = Counters::read(&fixture.place).await;
    for _ in 0..REPLAYS {
        answer().await;
    }
    let used = Counters::read(&fixture.place).await.since(before);
    println!("{REPLAYS} of each answer: {} transaction ids, {} bytes of WAL", used.xids, used.wal);
    assert_eq!((used.xids, used.wal), (0, 0));
}

#[tokio::test]
async fn completions_stay_on_their_page() {
    let Some(fixture) = quiet().await else { return };
    let before = Counters::read(&fixture.place).await;
    for number in 0..RUNS {
        let grant = fixture.acquire(&claim(&format!("{number:08}"))).await;
        fixture.store.renew(&Renew::new(grant.lease.clone())).await.expect("renewed");
        let response = Response::new(201).with_meta(vec![1; 40]).with_body(vec![7; 400]);
        fixture.complete(&grant, idem_core::End::Succeeded(response.into())).await;
    }
    let used = Counters::read(&fixture.place).await.since(before);
    // The counts of a session are sent at its end at the latest.
    fixture.store.close().await;
    let statement = format!(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
          WHERE schemaname = '{}' AND relname = 'idem_records'",
        fixture.place.schema
    );
    let mut connection = fixture.place.connection().await;
    let (updated, hot): (i64, i64) = loop {
        let row = connection.fetch_one(AssertSqlSafe(statement.as_str())).await.expect("counted");
        if row.get::<i64, _>(0) >= 2 * RUNS {
            break (row.get(0), row.get(1));
        }
        tokio::task::yield_now().await;
    };
    println!(
        "{RUNS} claims, renewals and completions: {hot} of {updated} updates HOT ({:.1} %), {} bytes of WAL a run",
        100.0 * hot as f64 / updated as f64,
        used.wal / RUNS
    );
    assert_eq!(updated, 2 * RUNS);
    assert!(hot * 100 >= updated * 95, "{hot} of {updated}");
}

#[tokio::test]
async fn no_statement_reads_the_whole_table() {
    let Some(fixture) = quiet().await else { return };
    // Enough rows that reading them all would be dearer than an index, in each part of the index of age.
    fixture
        .sql(
            "INSERT INTO idem_records (scope, key, operation, fingerprint, state, attempt, token, fence, created_us,
                 claimed_us, lease_until_us, expires_us, remembered, code, meta)
             SELECT 'global', n::text, 'test', decode(repeat('00', 32), 'hex'), 2, 1, decode(repeat('00', 16), 'hex'),
                    n, 0, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + (n - 200)::bigint * 1000000000,
                    n % 2 = 0, 200, ''
               FROM generate_series(1, 20000) AS n;
             ANALYZE idem_records",
        )
        .await;
    let schema = &fixture.place.schema;
    use idem_postgres::sql;
    let statements = [
        (sql::CLAIM, "'g','1','o','','1','','o','f','1','1'"),
        (sql::NEW_LIFE, "'g','1','o','','1','','o','f','1','1','1','','1','1','1'"),
        (sql::TAKE_OVER, "'g','1','','o','f','1','[]','1','f','1','','1','1'"),
        (sql::REPEAT, "'g','1','1','1','','1','1'"),
        (sql::RENEW, "'g','1','','1','1',NULL,NULL"),
        (sql::COMPLETE, "'g','1','','1','2','200','','','1'"),
        (sql::RELEASE, "'g','1','','1','f'"),
        (sql::GET, "'g','1'"),
        (sql::PURGE, "'3600000000','1','1','100'"),
        (sql::PURGE_RESPONSES, "'100'"),
        (sql::ONCE, "'g','1','o','','1','','o','f','1','1'"),
        (sql::LOCK, "'g','1'"),
        (sql::SETTLED, "'g','1'"),
    ];
    let mut connection = fixture.place.connection().await;
    for (statement, arguments) in statements {
        let text = sql::in_schema(statement, schema).expect("valid");
        let explain = format!("PREPARE s AS {text}; EXPLAIN (COSTS OFF) EXECUTE s ({arguments})");
        let rows = connection.fetch_all(idem_postgres::sqlx::raw_sql(AssertSqlSafe(explain))).await.expect(statement);
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan on"), "{plan}");
        assert!(plan.contains("idem_records_pkey") || plan.contains("idem_records_by_age"), "{plan}");
        connection.execute("DEALLOCATE s").await.expect("forgotten");
    }
}
