//! What the tests share: a store in a file of its own, and hands that move time through the data.

#![allow(clippy::expect_used)] // A test fails by panicking.
#![allow(dead_code)] // Each test binary uses its own part of it.

use std::path::{Path, PathBuf};

use idem_core::{
    Claim, ClaimBuilder, Claimed, Complete, Completed, End, Fingerprint, Grant, Identity, Key, Operation, Record,
    Response, Scope, Span, Store,
};
use idem_sqlite::rusqlite::{Connection, params};
use idem_sqlite::{Builder, SqliteStore};
use tempfile::TempDir;

/// A directory with one database file, and a store on it.
pub(crate) struct Fixture {
    pub(crate) store: SqliteStore,
    pub(crate) path: PathBuf,
    pub(crate) dir: TempDir,
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        Fixture::with(|builder| builder).await
    }

    pub(crate) async fn with(configure: impl FnOnce(Builder) -> Builder) -> Fixture {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("idem.db");
        let store = configure(SqliteStore::builder(&path)).open().await.expect("opened");
        Fixture { store, path, dir }
    }

    /// A connection of the test's own.
    pub(crate) fn connection(&self) -> Connection {
        connection(&self.path)
    }

    /// Makes one record older.
    pub(crate) fn age(&self, identity: &Identity, by: Span) {
        let by = i64::try_from(by.as_micros()).expect("fits");
        let changed = self
            .connection()
            .execute(
                "UPDATE idem_records SET created_us = created_us - ?3, claimed_us = claimed_us - ?3,
                        lease_until_us = lease_until_us - ?3, ended_us = ended_us - ?3, expires_us = expires_us - ?3
                  WHERE scope = ?1 AND key = ?2",
                params![identity.scope.as_str(), identity.key.as_str(), by],
            )
            .expect("aged");
        assert_eq!(changed, 1, "there is no record to make older");
    }

    pub(crate) fn rows(&self) -> i64 {
        self.connection().query_row("SELECT count(*) FROM idem_records", (), |row| row.get(0)).expect("counted")
    }

    pub(crate) async fn get(&self, identity: &Identity) -> Option<Record> {
        self.store.get(identity).await.expect("read")
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Claimed {
        self.store.claim(claim).await.expect("claimed")
    }

    /// Claims, and is the one.
    pub(crate) async fn acquire(&self, claim: &Claim) -> Grant {
        acquired(self.claim(claim).await)
    }

    pub(crate) async fn complete(&self, grant: &Grant, end: End) -> Completed {
        self.store.complete(&Complete::new(grant.lease.clone(), end)).await.expect("completed")
    }
}

pub(crate) fn connection(path: &Path) -> Connection {
    Connection::open(path).expect("a connection of the test's own")
}

pub(crate) fn identity(key: &str) -> Identity {
    Identity::new(Scope::global(), Key::new(key).expect("valid"))
}

pub(crate) fn operation() -> Operation {
    Operation::new("test").expect("valid")
}

pub(crate) fn fingerprint(body: &str) -> Fingerprint {
    Fingerprint::of(&operation()).field("body", body.as_bytes()).finish()
}

/// A claim of this key for the body "a".
pub(crate) fn claiming(key: &str) -> ClaimBuilder {
    Claim::builder(identity(key), operation(), fingerprint("a"))
}

pub(crate) fn claim(key: &str) -> Claim {
    claiming(key).build().expect("valid")
}

pub(crate) fn acquired(claimed: Claimed) -> Grant {
    match claimed {
        Claimed::Acquired(grant) => grant,
        other => panic!("not acquired: {other:?}"),
    }
}

pub(crate) fn succeeded(body: &'static str) -> End {
    End::Succeeded(response(body).into())
}

pub(crate) fn response(body: &'static str) -> Response {
    Response::new(201).with_body(body.as_bytes())
}

pub(crate) fn secs(secs: u64) -> Span {
    Span::saturating_secs(secs)
}
