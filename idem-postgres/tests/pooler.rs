//! PgBouncer between the store and the server: what is safe works, what is not is refused with the remedy.
//!
//! `IDEM_PGBOUNCER` names the programs; else the one on this machine is taken, if there is one.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use common::*;
use conformance::provider::Tool;
use idem_core::{Claimed, Completed, ErrorKind, Store};
use idem_postgres::sqlx::Connection;
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use idem_postgres::{Builder, PostgresStore};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// From this version on it keeps track of prepared statements.
const TRACKING: (u32, u32) = (1, 21);

struct Pooler {
    program: PathBuf,
    version: (u32, u32),
}

impl Pooler {
    /// Every version that is here; none, said why, where there is none.
    async fn all() -> Vec<Pooler> {
        let mut poolers = Vec::new();
        for program in Tool::PgBouncer.wanted() {
            let output = Command::new(&program).arg("--version").output().await.expect("PgBouncer runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut numbers = text.split_whitespace().nth(1).expect("a version").split('.').map(|part| part.parse());
            let mut next = || numbers.next().expect("a number").expect("a number");
            poolers.push(Pooler { program, version: (next(), next()) });
        }
        poolers
    }

    fn tracks(&self) -> bool {
        self.version >= TRACKING
    }

    async fn run(&self, place: &Place, settings: &str) -> Running {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let (url, address) = (place.server.endpoint(), place.address());
        let options: PgConnectOptions = url.url().parse().expect("a URL");
        let password = url.url().split_once("://").and_then(|(_, rest)| rest.split_once('@'));
        let password = password.and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password).expect("said");
        let ini = format!(
            "[databases]\npooled = host={} port={} dbname={} user={} password={password}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             default_pool_size = 10\n{settings}\n",
            address.ip(),
            address.port(),
            options.get_database().expect("said"),
            options.get_username(),
        );
        let path = folder.path().join("pgbouncer.ini");
        std::fs::write(&path, ini).expect("written");
        let mut command = Command::new(&self.program);
        if std::fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0) {
            command.args(["-u", "nobody"]);
        }
        let child = command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.kill_on_drop(true).spawn().expect("started");
        let options = PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(port)
            .username(options.get_username())
            .database("pooled");
        let running = Running { options, schema: place.schema.clone(), _child: child, _folder: folder };
        let ready = async {
            while let Err(_down) = PgConnection::connect_with(&running.options.clone().extra_float_digits(None)).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), ready).await.expect("it listens");
        running
    }
}

struct Running {
    options: PgConnectOptions,
    schema: String,
    _child: Child,
    _folder: TempDir,
}

impl Running {
    fn builder(&self) -> Builder {
        PostgresStore::builder(self.options.clone()).schema(&self.schema)
    }
}

/// A server of its own, since the limits are set for its role.
async fn place() -> Option<Place> {
    let place = Place::on(own_server().await?).await;
    place.sql("ALTER ROLE CURRENT_USER SET lock_timeout = '2s'").await;
    place.sql("ALTER ROLE CURRENT_USER SET statement_timeout = '4s'").await;
    Some(place)
}

/// Two stores by the same pooler at once, so that their sessions are mixed if they can be.
async fn works(running: &Running) {
    let stores = [running.builder().limits_of_the_role(), running.builder().limits_of_the_role()];
    let [a, b] = stores.map(Builder::open);
    let stores = [a.await.expect("opened"), b.await.expect("opened")];
    let tasks = (0..32).map(|task| {
        let store = stores[task % 2].clone();
        tokio::spawn(async move {
            let mut grants = 0;
            for key in 0..50 {
                let key = format!("k{key}");
                match store.claim(&claim(&key)).await.expect("answered") {
                    Claimed::Acquired(grant) => {
                        let complete = idem_core::Complete::new(grant.lease, succeeded("done"));
                        assert_eq!(store.complete(&complete).await.expect("answered"), Completed::Stored);
                        grants += 1;
                    }
                    Claimed::InFlight { .. } | Claimed::Replay(_) => {}
                    other => panic!("{other:?}"),
                }
                let record = store.get(&identity(&key)).await.expect("answered").expect("there");
                assert_eq!(record.identity, identity(&key));
            }
            grants
        })
    });
    let grants: u32 = futures::future::join_all(tasks).await.into_iter().map(|grants| grants.expect("ran")).sum();
    assert_eq!(grants, 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_mode_works() {
    for pooler in Pooler::all().await {
        let Some(place) = place().await else { return };
        let running = pooler.run(&place, "pool_mode = session").await;
        works(&running).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_mode_works_where_statements_are_tracked_and_is_refused_where_not() {
    for pooler in Pooler::all().await {
        let Some(place) = place().await else { return };
        if pooler.tracks() {
            let running = pooler.run(&place, "pool_mode = transaction\nmax_prepared_statements = 200").await;
            works(&running).await;
            // Unnamed statements are tracked by no version.
            let bare = running.options.clone().extra_float_digits(None).statement_cache_capacity(0);
            let pool = PgPoolOptions::new().connect_lazy_with(bare);
            let error = PostgresStore::on_pool(pool).schema(&place.schema).open().await.expect_err("refused");
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false), "{error:?}");
        }
        let untracked = if pooler.tracks() { "max_prepared_statements = 0" } else { "" };
        let running = pooler.run(&place, &format!("pool_mode = transaction\n{untracked}")).await;
        for _ in 0..5 {
            let error = running.builder().limits_of_the_role().open().await.expect_err("refused");
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false), "{error:?}");
            assert!(error.message().contains("max_prepared_statements"), "{error}");
        }
    }
}

#[tokio::test]
async fn options_that_a_pooler_refuses_or_drops_are_missed() {
    for pooler in Pooler::all().await {
        let Some(server) = own_server().await else { return };
        let place = Place::on(server).await;
        let running = pooler.run(&place, "pool_mode = session").await;
        let error = running.builder().open().await.expect_err("refused by the pooler");
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false), "{error:?}");
        assert!(error.message().contains("limits_of_the_role"), "{error}");
        let running = pooler.run(&place, "pool_mode = session\nignore_startup_parameters = options").await;
        let error = running.builder().open().await.expect_err("dropped by the pooler");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.message().contains("lock_timeout"), "{error}");
    }
}
