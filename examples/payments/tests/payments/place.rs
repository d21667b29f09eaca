//! Where a test's program keeps what it writes: a folder, and a database of the test's own.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use conformance::provider::{Kind, Policy, Server, Servers};
use idem_mysql::mysql_async;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_postgres::sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tempfile::TempDir;
use tokio::sync::OnceCell;

static SERVERS: OnceCell<Servers> = OnceCell::const_new();

/// Empty when it is made, and the same for every program that is started with it.
pub(crate) struct Place {
    folder: TempDir,
    store: String,
}

impl Place {
    /// A file.
    pub(crate) fn sqlite() -> Place {
        let folder = TempDir::new().unwrap();
        let store = format!("sqlite:{}", folder.path().join("payments.db").display());
        Place { folder, store }
    }

    /// A database on a server; none, said why, where there is no such server, and an error where it is required.
    pub(crate) async fn on(kind: Kind) -> Option<Place> {
        let servers = SERVERS.get_or_init(|| async { Servers::new(Policy::from_env().unwrap()) }).await;
        let server = servers.wanted(kind).await?;
        Some(Place { folder: TempDir::new().unwrap(), store: database(&server).await })
    }

    /// What `--store` is told.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// A folder for what is not in the store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// The URL of a new database.
async fn database(server: &Server) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("payments_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let create = format!("CREATE DATABASE {name}");
    match server.kind() {
        Kind::Postgres => {
            let mut admin = PgConnection::connect(server.endpoint().url()).await.unwrap();
            admin.execute(AssertSqlSafe(create)).await.unwrap();
            admin.close().await.unwrap();
        }
        _ => {
            let mut admin = mysql_async::Conn::from_url(server.endpoint().database("").url()).await.unwrap();
            admin.query_drop(create).await.unwrap();
            admin.disconnect().await.unwrap();
        }
    }
    server.endpoint().database(&name).url().to_owned()
}

/// Makes each of these functions a test on every store.
macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use conformance::provider::Kind;

            use crate::place::Place;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$name(&Place::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                let Some(place) = Place::on(Kind::Postgres).await else { return };
                super::$name(&place).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mysql() {
                let Some(place) = Place::on(Kind::MySql).await else { return };
                super::$name(&place).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb() {
                let Some(place) = Place::on(Kind::MariaDb).await else { return };
                super::$name(&place).await;
            }
        })*
    };
}
pub(crate) use on_every_store;
