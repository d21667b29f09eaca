//! Each code that can be provoked, as a real server gives it, and what becomes of it.

use std::time::Duration;

use conformance::provider::{Kind, Server, wanted};
use idem_core::ErrorKind::{self, Bug, Indeterminate, Schema, TooLarge, TransactionAborted, Unavailable, Unsupported};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::sync::OnceCell;

use super::*;

static SHARED: OnceCell<Option<Server>> = OnceCell::const_new();

async fn options() -> Option<PgConnectOptions> {
    let server = SHARED.get_or_init(|| wanted(Kind::Postgres)).await.clone()?;
    Some(server.endpoint().url().parse().expect("a URL"))
}

async fn connect(options: &PgConnectOptions) -> PgConnection {
    PgConnection::connect_with(options).await.expect("connected")
}

async fn run(connection: &mut PgConnection, statements: &str) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(statements))).await.map(drop)
}

/// What it is outside a transaction of the caller's, and in one.
fn kinds(failure: impl Fn() -> Failure) -> [(ErrorKind, bool); 2] {
    [failure().into_error(), failure().into_aborted()].map(|error| (error.kind(), error.is_retryable()))
}

fn sqlstate(error: &sqlx::Error) -> Option<String> {
    match error {
        sqlx::Error::Database(refusal) => refusal.code().map(String::from),
        _ => None,
    }
}

/// The code that the server really gave, and what becomes of it.
fn judged(error: sqlx::Error) -> (String, Class, [(ErrorKind, bool); 2]) {
    let code = sqlstate(&error).unwrap_or_else(|| panic!("not the server's: {error:?}"));
    let class = Failure::Sql(error).class();
    let made = kinds(|| Failure::Store(of_class(class)));
    let made = [made[0], {
        let error = of_class_in_transaction(class);
        (error.kind(), error.is_retryable())
    }];
    (code, class, made)
}

#[tokio::test]
async fn what_one_session_can_provoke() {
    let Some(options) = options().await else { return };
    let mut connection = connect(&options).await;
    run(
        &mut connection,
        "CREATE TEMP TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n < 10), long text UNIQUE);
         INSERT INTO t VALUES (1, 1, 'x')",
    )
    .await
    .expect("made");
    let cases = [
        ("SET statement_timeout = 20; SELECT pg_sleep(60)", "57014", (Unavailable, true), (TransactionAborted, true)),
        ("BEGIN READ ONLY; CREATE TABLE u ()", "25006", (Unavailable, true), (TransactionAborted, true)),
        ("ROLLBACK; BEGIN; SELECT 1 / 0", "22012", (Bug, false), (Bug, false)),
        ("SELECT 1", "25P02", (Unavailable, true), (TransactionAborted, true)),
        ("ROLLBACK; EXECUTE missing", "26000", (Unsupported, false), (Unsupported, false)),
        ("PREPARE p AS SELECT 1; PREPARE p AS SELECT 1", "42P05", (Unsupported, false), (Unsupported, false)),
        ("SELECT * FROM missing", "42P01", (Schema, false), (Schema, false)),
        ("SELECT missing FROM t", "42703", (Schema, false), (Schema, false)),
        ("SELECT * FROM missing.t", "42P01", (Schema, false), (Schema, false)),
        ("CREATE TABLE missing.t ()", "3F000", (Schema, false), (Schema, false)),
        ("INSERT INTO t VALUES (1, 1)", "23505", (Schema, false), (TransactionAborted, false)),
        ("INSERT INTO t VALUES (2, NULL)", "23502", (Schema, false), (TransactionAborted, false)),
        ("INSERT INTO t VALUES (2, 11)", "23514", (Schema, false), (TransactionAborted, false)),
        ("DO $$ BEGIN RAISE EXCEPTION 'no'; END $$", "P0001", (Schema, false), (TransactionAborted, false)),
        (
            "INSERT INTO t SELECT 3, 3, string_agg(md5(n::text), '') FROM generate_series(1, 1000) AS n",
            "54000",
            (TooLarge, false),
            (TooLarge, false),
        ),
        ("SET ROLE pg_monitor; CREATE TABLE pg_catalog.t ()", "42501", (Unavailable, false), (Unavailable, false)),
    ];
    for (statement, code, outside, inside) in cases {
        let error = run(&mut connection, statement).await.expect_err(statement);
        let (given, class, made) = judged(error);
        assert_eq!((given.as_str(), made), (code, [outside, inside]), "{statement}: {class:?}");
        if code == "57014" {
            run(&mut connection, "RESET statement_timeout").await.expect("reset");
        }
    }
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_our_own_mistake() {
    let Some(options) = options().await else { return };
    let mut connection = connect(&options).await;
    let error = sqlx::query("SELECT $1::text").bind("a\0b").execute(&mut connection).await.expect_err("refused");
    assert_eq!(judged(error), ("22021".to_owned(), Class::Bug, [(Bug, false); 2]));
}

#[tokio::test]
async fn locks_deadlocks_and_overtaken_snapshots() {
    let Some(options) = options().await else { return };
    let (mut a, mut b) = (connect(&options).await, connect(&options).await);
    run(&mut a, "CREATE TABLE races (id int PRIMARY KEY, n int); INSERT INTO races VALUES (1, 0), (2, 0)")
        .await
        .expect("made");
    let conflict = (Class::Conflict, [(Unavailable, true), (TransactionAborted, true)]);

    run(&mut a, "BEGIN; UPDATE races SET n = 1 WHERE id = 1").await.expect("locked");
    let error = run(&mut b, "SET lock_timeout = 20; UPDATE races SET n = 2 WHERE id = 1").await.expect_err("locked");
    let locked = judged(error);
    assert_eq!(locked, ("55P03".to_owned(), Class::Locked, [(Unavailable, true), (TransactionAborted, true)]));

    run(&mut b, "RESET lock_timeout; BEGIN; UPDATE races SET n = 2 WHERE id = 2").await.expect("locked");
    let waiting = run(&mut b, "UPDATE races SET n = 2 WHERE id = 1");
    let crossing = run(&mut a, "UPDATE races SET n = 1 WHERE id = 2");
    let (one, other) = tokio::join!(waiting, crossing);
    let error = one.err().or(other.err()).expect("one of them was chosen");
    let (code, class, made) = judged(error);
    assert_eq!((code.as_str(), (class, made)), ("40P01", conflict));
    run(&mut a, "ROLLBACK").await.expect("ended");
    run(&mut b, "ROLLBACK").await.expect("ended");

    run(&mut b, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM races").await.expect("seen");
    run(&mut a, "UPDATE races SET n = 3").await.expect("changed");
    let error = run(&mut b, "UPDATE races SET n = 4").await.expect_err("overtaken");
    let (code, class, made) = judged(error);
    assert_eq!((code.as_str(), (class, made)), ("40001", conflict));
    run(&mut b, "ROLLBACK; DROP TABLE races").await.expect("ended");
}

#[tokio::test]
async fn a_plan_that_is_older_than_its_table_costs_the_connection_only() {
    let Some(options) = options().await else { return };
    let mut connection = connect(&options).await;
    run(&mut connection, "CREATE TEMP TABLE planned (a int)").await.expect("made");
    sqlx::query("SELECT * FROM planned").fetch_all(&mut connection).await.expect("planned");
    run(&mut connection, "ALTER TABLE planned ADD COLUMN b int").await.expect("changed");
    let error = sqlx::query("SELECT * FROM planned").fetch_all(&mut connection).await.expect_err("older");
    let (code, class, made) = judged(error);
    assert_eq!((code.as_str(), made[0]), ("0A000", (Unavailable, true)));
    assert!(matches!(class, Class::Connection(_)));
}

#[tokio::test]
async fn sessions_that_are_ended_leave_a_doubt() {
    let Some(options) = options().await else { return };
    let (mut a, mut b) = (connect(&options).await, connect(&options).await);
    let ended: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut b).await.expect("asked");
    let end = AssertSqlSafe(format!("SELECT pg_terminate_backend({ended}, 5000)"));
    sqlx::query(end).execute(&mut a).await.expect("ended");
    let error = run(&mut b, "SELECT 1").await.expect_err("ended");
    // Its last words, or nothing: who reads first decides.
    let failure = || match sqlstate(&error).as_deref() {
        Some("57P01") => Failure::Sql(sqlx::Error::Io(std::io::ErrorKind::BrokenPipe.into())),
        None => Failure::Sql(sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into())),
        Some(other) => panic!("{other}"),
    };
    assert!(matches!(Failure::Sql(run(&mut b, "SELECT 1").await.expect_err("gone")).class(), Class::Unknown(_)));
    assert_eq!(kinds(failure), [(Indeterminate, true), (TransactionAborted, true)]);
    for code in
        [code::ADMIN_SHUTDOWN, code::CRASH_SHUTDOWN, code::TRANSACTION_UNKNOWN, code::COMPLETION_UNKNOWN, "08006"]
    {
        assert!(matches!(of_code(code), Class::Unknown(_)), "{code}");
    }
}

#[tokio::test]
async fn connections_that_are_not_had_leave_none() {
    let Some(options) = options().await else { return };
    let mut connection = connect(&options).await;
    run(&mut connection, "DROP ROLE IF EXISTS crowded; CREATE ROLE crowded LOGIN PASSWORD 'p' CONNECTION LIMIT 0")
        .await
        .expect("made");
    let cases = [
        (options.clone().password("wrong"), "28P01", (Unavailable, false)),
        (options.clone().database("missing"), "3D000", (Unavailable, false)),
        (options.clone().username("crowded").password("p"), "53300", (Unavailable, true)),
        (options.clone().options([("lock_timeout", "soon")]), "22023", (Unsupported, false)),
        (options.clone().options([("no_such_setting", "1")]), "42704", (Unsupported, false)),
    ];
    for (options, code, kind) in cases {
        let error = PgConnection::connect_with(&options).await.expect_err(code);
        assert_eq!(sqlstate(&error).as_deref(), Some(code));
        let error = Failure::NoConnection(error).into_error();
        assert_eq!((error.kind(), error.is_retryable()), kind, "{code}: {error:?}");
    }
    let nobody = PgConnection::connect_with(&options.clone().port(1)).await.expect_err("nobody listens");
    assert!(matches!(Failure::NoConnection(nobody).class(), Class::Passing(_)));
    let (full, closed) = (sqlx::Error::PoolTimedOut, sqlx::Error::PoolClosed);
    assert_eq!(kinds(|| Failure::NoTime)[0], (Unavailable, true));
    assert!(matches!(Failure::NoConnection(full).class(), Class::Passing(_)));
    assert!(matches!(Failure::NoConnection(closed).class(), Class::Lasting(_)));
    run(&mut connection, "DROP ROLE crowded").await.expect("dropped");
    tokio::time::timeout(Duration::from_secs(5), connection.close()).await.expect("in time").expect("closed");
}
