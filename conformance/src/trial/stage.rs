//! Bringing an identity into a state.

use idem_core::{Grant, Identity, Renew, Span};

use super::{LEASE, MARGIN, Outcome, RETENTION, Stop, Trial};

/// A state that an identity can be brought into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// An attempt's lease is running.
    Processing,
    /// The lease is over, and nobody took over.
    Lapsed,
    /// The attempt succeeded.
    Succeeded,
    /// The attempt was refused for good.
    Failed,
    /// The attempt ended, and its effect is not known.
    Unknown,
    /// The attempt said that nothing happened.
    Released,
    /// It succeeded, and its retention is over. Only a store that remembers shows it as spent.
    OverAge,
}

impl Stage {
    /// The states in which a record is some attempt's, or its result.
    pub const KEPT: [Stage; 5] = [Stage::Processing, Stage::Lapsed, Stage::Succeeded, Stage::Failed, Stage::Unknown];
}

impl Trial {
    /// A fresh identity in this state, and the grant that brought it there.
    ///
    /// # Errors
    /// When the store does not follow.
    pub async fn staged(&self, stage: Stage) -> Result<(Identity, Grant), Stop> {
        let identity = self.identity()?;
        let grant = self.acquire(&identity).await?;
        self.bring(&grant, stage).await?;
        Ok((identity, grant))
    }

    /// The same for a record whose claimant said Hold, and announced the start of its work.
    ///
    /// # Errors
    /// When the store does not follow.
    pub async fn staged_held(&self, stage: Stage) -> Result<(Identity, Grant), Stop> {
        let identity = self.identity()?;
        let store = self.store().await?;
        let grant = store.acquire(&self.holding(&identity)?, "of a free identity").await?;
        store.hold(&Renew::new(grant.lease.clone())).await?;
        self.bring(&grant, stage).await?;
        Ok((identity, grant))
    }

    async fn bring(&self, grant: &Grant, stage: Stage) -> Outcome {
        let store = self.store().await?;
        let lease = &grant.lease;
        match stage {
            Stage::Processing => Ok(()),
            Stage::Lapsed => self.age(&lease.identity, plus(LEASE, MARGIN)).await,
            Stage::Succeeded => store.store_end(lease, self.succeeded()).await,
            Stage::Failed => store.store_end(lease, self.failed()).await,
            Stage::Unknown => store.store_end(lease, self.unknown()).await,
            Stage::Released => store.give_back(lease).await,
            Stage::OverAge => {
                store.store_end(lease, self.succeeded()).await?;
                self.age(&lease.identity, plus(RETENTION, MARGIN)).await
            }
        }
    }
}

/// Both spans after each other.
pub(crate) fn plus(one: Span, other: Span) -> Span {
    Span::micros(one.as_micros().saturating_add(other.as_micros())).unwrap_or(Span::MAX)
}

/// The first span less the second.
pub(crate) fn minus(one: Span, other: Span) -> Span {
    Span::micros(one.as_micros().saturating_sub(other.as_micros())).unwrap_or(Span::MIN)
}
