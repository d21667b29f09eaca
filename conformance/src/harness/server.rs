//! Control over the store's server.

use async_trait::async_trait;

use super::Hooked;

/// A server that the suite may stop and start. All but `kill` answer when it is done.
#[async_trait]
pub trait Server: Send + Sync {
    /// Kills it without a warning (SIGKILL), and waits until it is gone.
    async fn kill(&self) -> Hooked<()>;
    /// Starts it again on what it left, and waits until it answers.
    async fn start(&self) -> Hooked<()>;
    /// Stops it in the middle of everything (SIGSTOP), without closing a connection.
    async fn freeze(&self) -> Hooked<()>;
    /// Lets it go on.
    async fn thaw(&self) -> Hooked<()>;
}
