use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::{Kind, NotRun, Policy, Server, start};

/// Servers that trials share: each kind is started at most once, when it is first asked for.
///
/// For trials that kill or freeze their server, [`start`](super::start) gives one of their own.
#[derive(Debug)]
pub struct Servers {
    policy: Policy,
    cells: BTreeMap<Kind, OnceCell<Result<Server, Arc<NotRun>>>>,
}

impl Servers {
    /// None is started yet.
    #[must_use]
    pub fn new(policy: Policy) -> Servers {
        Servers { policy, cells: Kind::ALL.into_iter().map(|kind| (kind, OnceCell::new())).collect() }
    }

    /// The server of this kind.
    ///
    /// # Errors
    /// [`NotRun`], the same at every call.
    ///
    /// # Cancel safety
    /// A dropped call leaves the start to the next one.
    pub async fn get(&self, kind: Kind) -> Result<Server, Arc<NotRun>> {
        let begin = || async { start(kind, &self.policy).await.map_err(Arc::new) };
        match self.cells.get(&kind) {
            Some(cell) => cell.get_or_init(begin).await.clone(),
            None => begin().await,
        }
    }
}
