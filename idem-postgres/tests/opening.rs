//! What opening does to a database, and which servers, settings and tables it refuses.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use idem_core::{Claimed, Error, ErrorKind, Store};
use idem_postgres::sqlx::postgres::PgPoolOptions;
use idem_postgres::{Builder, PostgresStore, migration_sql};
use tokio::sync::Barrier;

async fn refusal(builder: Builder) -> Error {
    builder.open().await.expect_err("refused")
}

#[tokio::test]
async fn eight_at_once_make_the_tables_once() {
    for _ in 0..5 {
        let Some(place) = Place::new().await else { return };
        let barrier = Arc::new(Barrier::new(8));
        let openers = (0..8).map(|_| {
            let (builder, barrier) = (place.builder(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                let store = builder.open().await.expect("opened");
                matches!(store.claim(&claim("k")).await.expect("claimed"), Claimed::Acquired(_))
            })
        });
        let acquired = futures::future::join_all(openers).await;
        assert_eq!(acquired.into_iter().filter(|acquired| *acquired.as_ref().expect("ran")).count(), 1);
        assert_eq!(place.number("SELECT count(*) FROM idem_schema").await, 1);
    }
}

#[tokio::test]
async fn opening_twice_changes_nothing() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.acquire(&claim("k")).await;
    let objects = "SELECT sum(hashtext(oid::text || relname || relfilenode))::bigint FROM pg_class
                    WHERE relnamespace = current_schema()::regnamespace";
    let before = fixture.place.number(objects).await;
    let again = fixture.place.builder().expect_tables().open().await.expect("opened");
    fixture.place.builder().migrate().await.expect("nothing to do");
    assert_eq!(fixture.place.number(objects).await, before);
    assert!(matches!(again.claim(&claim("k")).await, Ok(Claimed::InFlight { .. })), "two stores on one table");
}

/// The tables as the catalogue has them, without the name of their schema.
const SHAPE: &str = "
SELECT hashtextextended(string_agg(what, '|' ORDER BY what), 0) FROM (
    SELECT format('%s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                  a.attcollation) AS what
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = current_schema()::regnamespace AND a.attnum > 0
    UNION ALL
    SELECT format('%s %s', c.relname, c.reloptions) FROM pg_class c
     WHERE c.relnamespace = current_schema()::regnamespace
    UNION ALL
    SELECT pg_get_constraintdef(o.oid) FROM pg_constraint o WHERE o.connamespace = current_schema()::regnamespace
    UNION ALL
    SELECT format('version %s %s', version, works_from) FROM idem_schema
) AS shape";

#[tokio::test]
async fn the_printed_script_makes_what_opening_makes() {
    let (Some(by_store), Some(by_script)) = (Fixture::new().await, Place::new().await) else { return };
    // By a program that knows nothing of us, where there is one.
    let script = migration_sql(&by_script.schema).expect("valid");
    let psql = std::process::Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null", "--command", &script])
        .arg(by_script.server.endpoint().url())
        .stdin(Stdio::null())
        .output();
    match psql {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => by_script.sql(&script).await,
    }
    assert_eq!(by_script.number(SHAPE).await, by_store.place.number(SHAPE).await);
    let store = by_script.builder().expect_tables().open().await.expect("opened");
    assert!(matches!(store.claim(&claim("k")).await, Ok(Claimed::Acquired(_))));
}

#[tokio::test]
async fn a_role_that_may_not_run_ddl_is_told_what_to_do_and_works_once_it_is_done() {
    let Some(place) = Place::new().await else { return };
    let (schema, role) = (&place.schema, format!("r_{}", place.schema));
    place.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'p'; GRANT USAGE ON SCHEMA {schema} TO {role}")).await;
    let builder = || PostgresStore::builder(place.options().username(&role).password("p")).schema(schema);
    let error = refusal(builder().expect_tables()).await;
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.message().contains("migration_sql"), "{error}");
    let error = refusal(builder()).await;
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, false), "{error:?}");

    place.sql(&migration_sql(schema).expect("valid")).await;
    place.sql(&format!("GRANT SELECT ON idem_schema TO {role}; GRANT SELECT, INSERT ON idem_records TO {role}")).await;
    let error = refusal(builder()).await;
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, false));
    assert!(error.message().contains("DELETE"), "{error}");
    place.sql(&format!("GRANT UPDATE, DELETE ON idem_records TO {role}")).await;
    let store = builder().open().await.expect("opened");
    assert!(matches!(store.claim(&claim("k")).await, Ok(Claimed::Acquired(_))));
    store.close().await;
    place.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused_unless_it_says_that_it_bears_us() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.sql("INSERT INTO idem_schema (version, works_from, applied_us) VALUES (2, 1, 0)").await;
    let store = fixture.place.builder().open().await.expect("a rolling deployment: the newer one is there already");
    assert!(matches!(store.claim(&claim("k")).await, Ok(Claimed::Acquired(_))));
    fixture.sql("INSERT INTO idem_schema (version, works_from, applied_us) VALUES (3, 2, 0)").await;
    let error = refusal(fixture.place.builder()).await;
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Schema, false));
    assert!(error.message().contains("newer"), "{error}");
    for version in ["0", "-1"] {
        fixture.sql(&format!("UPDATE idem_schema SET version = {version}, works_from = -5 WHERE version = 3; DELETE FROM idem_schema WHERE version > 0")).await;
        assert_eq!(refusal(fixture.place.builder()).await.kind(), ErrorKind::Schema);
        fixture.sql("UPDATE idem_schema SET version = 3").await;
    }
}

#[tokio::test]
async fn what_is_not_ours_is_refused_and_left_alone() {
    let Some(place) = Place::new().await else { return };
    place.sql("CREATE TABLE idem_records (mine text)").await;
    let error = refusal(place.builder()).await;
    assert_eq!(error.kind(), ErrorKind::Schema, "{error:?}");
    assert_eq!(place.number("SELECT (to_regclass('idem_schema') IS NULL)::int::bigint").await, 1, "nothing half done");
    let error = refusal(place.builder().schema("no_such_schema")).await;
    assert_eq!(error.kind(), ErrorKind::Schema, "{error:?}");
    for bad in ["", "a-b", "a\"; DROP SCHEMA public"] {
        assert_eq!(refusal(place.builder().schema(bad)).await.kind(), ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn tables_that_could_not_keep_the_contract_are_refused() {
    let changes = [
        ("ALTER TABLE idem_records DROP CONSTRAINT idem_records_pkey", "UNIQUE"),
        (
            "ALTER TABLE idem_records DROP CONSTRAINT idem_records_pkey;
             CREATE UNIQUE INDEX ON idem_records (scope, key) WHERE state <> 5",
            "UNIQUE",
        ),
        (
            "ALTER TABLE idem_records DROP CONSTRAINT idem_records_pkey;
             CREATE UNIQUE INDEX ON idem_records (scope, key, attempt)",
            "UNIQUE",
        ),
        (
            "ALTER TABLE idem_records DROP CONSTRAINT idem_records_pkey;
             CREATE UNIQUE INDEX ON idem_records (scope, lower(key))",
            "UNIQUE",
        ),
        (
            "ALTER TABLE idem_records DROP CONSTRAINT idem_records_pkey;
             ALTER TABLE idem_records ADD UNIQUE (scope, key) DEFERRABLE",
            "UNIQUE",
        ),
        (
            "CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
             ALTER TABLE idem_records ALTER COLUMN key TYPE text COLLATE folding",
            "byte for byte",
        ),
        ("ALTER TABLE idem_records SET UNLOGGED", "unlogged"),
        ("ALTER TABLE idem_records RENAME COLUMN history TO past", "expects"),
        ("ALTER TABLE idem_records ALTER COLUMN fence TYPE numeric", "expects"),
        ("DROP TABLE idem_records", "missing"),
        ("DROP TABLE idem_records; CREATE VIEW idem_records AS SELECT 1 AS scope", "plain"),
    ];
    for (change, word) in changes {
        let Some(fixture) = Fixture::new().await else { return };
        fixture.sql(change).await;
        let error = refusal(fixture.place.builder()).await;
        assert_eq!(error.kind(), ErrorKind::Schema, "{change}: {error:?}");
        assert!(error.message().contains(word), "{change}: {error}");
    }
}

#[tokio::test]
async fn sessions_that_could_not_keep_the_contract_are_refused() {
    let Some(fixture) = Fixture::new().await else { return };
    let place = &fixture.place;
    let with = |name: &'static str, value: &'static str| {
        PostgresStore::builder(place.options().options([(name, value)])).schema(&place.schema)
    };
    for (name, value, word) in
        [("default_transaction_read_only", "on", "read-only"), ("synchronous_commit", "off", "synchronous_commit")]
    {
        let error = refusal(with(name, value)).await;
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false), "{name}");
        assert!(error.message().contains(word), "{error}");
    }
    // As when a pooler dropped what the store asked for.
    let error = refusal(place.builder().limits_of_the_role()).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("lock_timeout"), "{error}");
    assert!(with("lock_timeout", "2s").limits_of_the_role().open().await.is_ok());
    assert!(with("lock_timeout", "9s").limits_of_the_role().open().await.is_err(), "not below the deadline");
    let bare = PgPoolOptions::new().connect_lazy_with(place.options());
    let error = refusal(PostgresStore::on_pool(bare).schema(&place.schema)).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "a shared pool without lock_timeout");
}

#[tokio::test]
async fn row_level_security_that_hides_rows_is_refused() {
    let Some(fixture) = Fixture::new().await else { return };
    let role = format!("s_{}", fixture.place.schema);
    fixture
        .sql(&format!(
            "ALTER TABLE idem_records ENABLE ROW LEVEL SECURITY; CREATE ROLE {role} LOGIN PASSWORD 'p';
             GRANT USAGE ON SCHEMA {0} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {0} TO {role}",
            fixture.place.schema
        ))
        .await;
    let options = fixture.place.options().username(&role).password("p");
    let error = refusal(PostgresStore::builder(options).schema(&fixture.place.schema)).await;
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.message().contains("row-level"), "{error}");
    fixture.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let Some(place) = Place::new().await else { return };
    for builder in [place.builder().response_limit(1_000_000_000), place.builder().deadline(Duration::ZERO)] {
        assert_eq!(refusal(builder).await.kind(), ErrorKind::InvalidInput);
    }
    let error = PostgresStore::open("mysql://user:secret@host/db").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(!format!("{error:?}").contains("secret"));
}

#[tokio::test]
async fn servers_that_cannot_be_had_are_unavailable() {
    let Some(place) = Place::new().await else { return };
    let cases = [
        (place.options().password("wrong"), false),
        (place.options().database("no_such_database"), false),
        (place.options().port(1), true),
    ];
    for (options, retryable) in cases {
        let error = refusal(PostgresStore::builder(options)).await;
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, retryable), "{error:?}");
    }
}
