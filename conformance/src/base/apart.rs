//! A second server of the same kind, for the trials that kill it.

use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell};

use super::Place;
use crate::harness::{Guard, HookError, Hooked};

/// A backend on a server of its own. It is started when a trial first asks for it, and trials have it one after the
/// other: a server for each of them would cost more time than waiting for one, and the shared one must not be killed
/// under the others.
pub(super) struct Apart<H> {
    backend: OnceCell<Arc<H>>,
    turn: Arc<Mutex<()>>,
}

impl<H> Default for Apart<H> {
    fn default() -> Apart<H> {
        Apart { backend: OnceCell::new(), turn: Arc::default() }
    }
}

impl<H> Apart<H> {
    /// Waits for its turn, and has the backend until the guard is dropped.
    pub(super) async fn take(&self, place: &Place, make: fn(Place) -> H) -> Hooked<(Guard, Arc<H>)> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let begin = || async { Ok(Arc::new(make(place.another().await?.ok_or(HookError::Unsupported)?))) };
        let backend = self.backend.get_or_try_init(begin).await?;
        Ok((Guard::of(turn), Arc::clone(backend)))
    }
}
