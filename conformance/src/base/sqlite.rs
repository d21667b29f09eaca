//! `idem-sqlite`, on real files.

mod files;
mod rows;
mod script;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{Identity, Record, Span, Store};
use idem_sqlite::SqliteStore;

use crate::Profile;
use crate::harness::{
    Aged, Declaration, Guard, Harness, HookError, Hooked, How, Implementation, Namespace, Obstacle, OpenError, Reach,
    Schema, Script, Scripted, Setting,
};

use files::Files;

/// The harness of `idem-sqlite`: one file for each namespace.
pub struct Sqlite {
    files: Files,
}

impl Sqlite {
    /// Keeps its files in this folder, or in a temporary one that is made when the first is needed.
    #[must_use]
    pub fn new(folder: Option<&str>) -> Sqlite {
        Sqlite { files: Files::new(folder.map(PathBuf::from)) }
    }

    async fn store(&self, namespace: &Namespace, how: &How) -> Result<SqliteStore, OpenError> {
        let path = self.files.path(namespace).map_err(OpenError::environment)?;
        let mut builder = SqliteStore::builder(path).rules(how.rules).deadline(how.deadline);
        if let Some(pool) = how.pool.and_then(|pool| std::num::NonZeroUsize::new(pool.get() as usize)) {
            builder = builder.readers(pool);
        }
        builder.open().await.map_err(OpenError::Refused)
    }
}

#[async_trait]
impl Harness for Sqlite {
    fn identity(&self) -> Implementation {
        let identity = Implementation::new("sqlite", env!("CARGO_PKG_VERSION"));
        match self.files.folder() {
            Some(folder) => identity.at(folder.display().to_string()),
            None => identity,
        }
    }

    fn declare(&self) -> Declaration {
        Declaration::core()
            .with(Profile::Shared)
            .with(Profile::Durable)
            .with(Profile::Maintained)
            .with(Profile::Transactional)
    }

    async fn open(&self, namespace: &Namespace, how: &How) -> Result<(Guard, Arc<dyn Store>), OpenError> {
        if how.reach != Reach::Direct || how.session_time_zone.is_some() || how.clock_off_by.is_some() {
            return Err(OpenError::Unsupported("SQLite has no server, no session and no clock of its own".into()));
        }
        let store = match how.schema {
            Schema::Current => self.store(namespace, how).await?,
            Schema::Newer => {
                // The file's version has moved on since, as after a deployment that was rolled back.
                self.store(namespace, how).await?.close().await;
                self.change(namespace, rows::MARK_AS_NEWER).await?;
                self.store(namespace, how).await?
            }
            Schema::Missing => {
                // Opening creates what is missing, so the tables go away under an open handle.
                let store = self.store(namespace, how).await?;
                self.change(namespace, rows::DROP).await?;
                store
            }
            _ => return Err(OpenError::Unsupported("there is no older version of the tables".into())),
        };
        Ok((Guard::none(), Arc::new(store)))
    }

    async fn clear(&self, namespace: &Namespace) {
        self.files.remove(namespace);
    }

    async fn age(&self, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
        let identity = identity.clone();
        let aged = self.files.with(namespace, move |connection| rows::age(connection, &identity, by)).await?;
        Ok(if aged == 0 { Aged::NoRecord } else { Aged::Older })
    }

    async fn peek(&self, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
        let identity = identity.clone();
        self.files.with(namespace, move |connection| rows::peek(connection, &identity)).await
    }

    async fn durability(&self) -> Hooked<Vec<Setting>> {
        let folder = tempfile::tempdir().map_err(HookError::failed)?;
        let store = SqliteStore::open(folder.path().join("settings.db")).await.map_err(HookError::failed)?;
        // The writer's own connection: `synchronous` belongs to the connection and not to the file.
        let read = store.transaction(|transaction| rows::settings(transaction)).await.map_err(HookError::failed);
        store.close().await;
        read
    }

    async fn obstruct(&self, namespace: &Namespace, obstacle: Obstacle) -> Hooked<()> {
        match obstacle {
            Obstacle::OtherConstraint => {
                self.files.with(namespace, |connection| connection.execute_batch(rows::REFUSE_INSERTS)).await
            }
        }
    }

    async fn transaction(&self, namespace: &Namespace, script: Script) -> Hooked<Scripted> {
        if script.isolation.is_some() {
            return Err(HookError::Unsupported); // There is only one: serialized behind one writer.
        }
        self.files.with(namespace, |connection| connection.execute_batch(rows::BUSINESS)).await?;
        let store = self.store(namespace, &How::usual()).await.map_err(HookError::failed)?;
        let played = script::play(&store, script).await;
        store.close().await;
        played
    }

    async fn business_rows(&self, namespace: &Namespace) -> Hooked<Vec<String>> {
        self.files.with(namespace, rows::business).await
    }
}

impl Sqlite {
    async fn change(&self, namespace: &Namespace, sql: &'static str) -> Result<(), OpenError> {
        let changed = self.files.with(namespace, move |connection| connection.execute_batch(sql)).await;
        changed.map_err(OpenError::from)
    }
}
