//! One file for each namespace, and connections to it that are not the store's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use idem_sqlite::rusqlite::{self, Connection};
use tempfile::TempDir;

use crate::harness::{HookError, Hooked, Namespace};

/// Where the files of a run are.
pub(super) struct Files {
    given: Option<PathBuf>,
    // Made late: whoever only lists trials leaves no folder behind.
    made: OnceLock<TempDir>,
}

impl Files {
    pub(super) fn new(given: Option<PathBuf>) -> Files {
        Files { given, made: OnceLock::new() }
    }

    /// The folder that was given.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.given.as_deref()
    }

    /// The file of this namespace; its folder is there.
    pub(super) fn path(&self, namespace: &Namespace) -> io::Result<PathBuf> {
        let folder = match (&self.given, self.made.get()) {
            (Some(folder), _) => {
                std::fs::create_dir_all(folder)?;
                folder.as_path()
            }
            (None, Some(made)) => made.path(),
            (None, None) => {
                let made = tempfile::Builder::new().prefix("idem-conformance-").tempdir()?;
                // When two come at once, the second one's folder is removed again.
                self.made.get_or_init(|| made).path()
            }
        };
        Ok(folder.join(format!("{namespace}.db")))
    }

    /// Removes the file of this namespace and what belongs to it.
    pub(super) fn remove(&self, namespace: &Namespace) {
        let Ok(path) = self.path(namespace) else { return };
        for suffix in ["", "-wal", "-shm"] {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            // A file that was never made cannot be removed.
            let _ = std::fs::remove_file(PathBuf::from(name));
        }
    }

    /// Works on the file of this namespace over a connection of its own.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        namespace: &Namespace,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Hooked<T> {
        let path = self.path(namespace).map_err(HookError::failed)?;
        let worked = tokio::task::spawn_blocking(move || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(20))?;
            work(&connection)
        });
        worked.await.map_err(HookError::failed)?.map_err(HookError::failed)
    }
}
