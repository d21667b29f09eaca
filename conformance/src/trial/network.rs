//! A proxy before the server, and handles that go through it.

use std::time::Duration;

use super::{Handle, Stop, Trial, lock};
use crate::fault::Proxy;
use crate::harness::{Hook, How, Reach};

/// How long one call of a handle behind a proxy may take: short, because some faults are found out by it alone.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

/// How much longer than its deadline a call may take on a slow machine.
pub(crate) const SLACK: Duration = Duration::from_secs(8);

impl Trial {
    /// A proxy before this trial's server.
    ///
    /// # Errors
    /// A gap when the harness does not say where the server is.
    pub async fn proxy(&self) -> Result<Proxy, Stop> {
        let server = self.hooked(Hook::Address, self.harness.address().await)?;
        Proxy::before(server).await.map_err(|error| Stop::Error(format!("there is no proxy: {error}")))
    }

    /// A handle with one connection through this proxy.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn through(&self, proxy: &Proxy) -> Result<Handle, Stop> {
        let rules = *lock(&self.rules);
        let how = How::usual().keeping(rules).alone().within(DEADLINE).reaching(Reach::Through(proxy.address()));
        self.open(&how).await
    }

    /// Notes how many round trips an operation takes on a warm connection: information for the report.
    pub fn takes(&self, operation: &'static str, round_trips: u64) {
        lock(&self.round_trips).insert(operation, round_trips);
    }
}
