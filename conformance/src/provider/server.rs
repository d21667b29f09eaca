use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::backend::{Backend, ControlError};
use super::start::{Secrets, bring_up, ready_again};
use super::{Endpoint, Facts, Kind, Origin, Setting, Way, client, host};

/// A server that answers, with its controls.
///
/// A clone is the same server. When the last one is dropped the server is ended; the drop waits for that, also on a
/// runtime's thread. Where this would be in the way, [`close`](Server::close) does the same without blocking.
#[derive(Clone)]
pub struct Server {
    owned: Arc<Owned>,
}

struct Owned {
    number: u64,
    kind: Kind,
    origin: Origin,
    secrets: Option<Secrets>,
    backend: Arc<dyn Backend>,
    now: Mutex<(Endpoint, Facts)>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        host::release(self.number);
    }
}

impl Server {
    pub(super) fn new(
        kind: Kind,
        origin: Origin,
        secrets: Option<Secrets>,
        backend: Arc<dyn Backend>,
        endpoint: Endpoint,
        facts: Facts,
    ) -> Server {
        let number = host::enlist(Arc::clone(&backend));
        Server { owned: Arc::new(Owned { number, kind, origin, secrets, backend, now: Mutex::new((endpoint, facts)) }) }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.owned.kind
    }

    /// Where it came from, and what was tried before.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.owned.origin
    }

    /// Where it listens. A start may change it, so it is asked for again after each.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.owned.now.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// What it said about itself when it was last started.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.owned.now.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Its settings, read now.
    ///
    /// # Errors
    /// The server does not answer, or not all of them.
    pub async fn settings(&self) -> Result<Vec<Setting>, String> {
        let (kind, endpoint) = (self.kind(), self.endpoint());
        host::run(async move { client::settings(kind, &endpoint).await }).await
    }

    /// Asks it over a new connection, and checks that it is the server that was started.
    ///
    /// # Errors
    /// It does not answer within seconds, or it is another server.
    pub async fn ping(&self) -> Result<Facts, String> {
        let (kind, endpoint, before) = (self.kind(), self.endpoint(), self.facts());
        let facts = host::run(async move { client::facts(kind, &endpoint).await }).await?;
        if facts.nonce == before.nonce { Ok(facts) } else { Err("another server answers".to_owned()) }
    }

    /// The number of its main process on this machine. None when it is down, and for a server that was given by URL.
    pub async fn pid(&self) -> Option<u32> {
        let backend = self.backend();
        host::run(async move { backend.pid().await }).await
    }

    /// SIGKILL to all of its processes at one moment; returns when they are gone. Frozen ones too, except that a frozen
    /// container runs for an instant before.
    ///
    /// # Errors
    /// [`ControlError::NotOurs`], or it is not running.
    pub async fn sigkill(&self) -> Result<(), ControlError> {
        let backend = self.backend();
        host::run(async move { backend.kill().await }).await
    }

    /// Stops all of its processes from running, as a pause of the machine would: connections stay, nothing answers.
    ///
    /// # Errors
    /// [`ControlError::NotOurs`], or it is not running.
    pub async fn freeze(&self) -> Result<(), ControlError> {
        let backend = self.backend();
        host::run(async move { backend.freeze().await }).await
    }

    /// Lets a frozen one run on, and waits until it answers.
    ///
    /// # Errors
    /// [`ControlError::NotOurs`], or it is not frozen.
    pub async fn thaw(&self) -> Result<(), ControlError> {
        let (backend, kind, secrets) = (self.backend(), self.kind(), self.secrets()?);
        let now = host::run(async move {
            backend.thaw().await?;
            ready_again(kind, &*backend, &secrets).await
        });
        self.note(now.await?);
        Ok(())
    }

    /// A graceful stop; returns when it is gone. Its data stay.
    ///
    /// # Errors
    /// [`ControlError::NotOurs`], or it is not running, or frozen.
    pub async fn stop(&self) -> Result<(), ControlError> {
        let backend = self.backend();
        host::run(async move { backend.stop().await }).await
    }

    /// Starts it again on its data after [`sigkill`](Server::sigkill) or [`stop`](Server::stop), and waits until it
    /// answers. Its port may have changed.
    ///
    /// # Errors
    /// [`ControlError::NotOurs`], or it is running, or does not come back.
    pub async fn start(&self) -> Result<(), ControlError> {
        let (backend, kind, secrets) = (self.backend(), self.kind(), self.secrets()?);
        let now = host::run(async move {
            if backend.alive().await.map_err(ControlError::Failed)? {
                return Err(ControlError::failed("already running"));
            }
            match bring_up(kind, &*backend, &secrets).await {
                Err(error) => Err(ControlError::Failed(format!("{error}{}", backend.log().await))),
                now => now,
            }
        });
        self.note(now.await?);
        Ok(())
    }

    /// [`stop`](Server::stop) and [`start`](Server::start).
    ///
    /// # Errors
    /// Those of both.
    pub async fn restart(&self) -> Result<(), ControlError> {
        self.stop().await?;
        self.start().await
    }

    /// The last lines of its log, for a report of what went wrong. Empty for a server that was given by URL.
    pub async fn log(&self) -> String {
        let backend = self.backend();
        host::run(async move { backend.log().await }).await
    }

    /// Ends it, with its data, if this is the last clone.
    ///
    /// # Cancel safety
    /// The end goes on in the background.
    pub async fn close(self) {
        // The last clone must not be dropped on the servers' own thread, which would then not wait for the end.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.owned.backend)
    }

    fn secrets(&self) -> Result<Secrets, ControlError> {
        self.owned.secrets.clone().ok_or(ControlError::NotOurs)
    }

    fn note(&self, now: (Endpoint, Facts)) {
        *self.owned.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way: Way = self.owned.origin.way;
        f.debug_struct("Server")
            .field("kind", &self.owned.kind)
            .field("way", &way)
            .field("endpoint", &self.endpoint())
            .finish_non_exhaustive()
    }
}
