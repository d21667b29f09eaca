use std::fmt;

use async_trait::async_trait;

use super::Endpoint;

/// What a way to get servers can do with one that it got. Runs on the runtime of [`host`](super::host) only.
#[async_trait]
pub(super) trait Backend: Send + Sync {
    /// Where it listens now. Only a start changes the answer.
    async fn endpoint(&self) -> Result<Endpoint, String>;

    /// Is its process there? Frozen counts as there.
    async fn alive(&self) -> Result<bool, String>;

    /// Its main process, as this machine numbers it.
    async fn pid(&self) -> Option<u32>;

    /// SIGKILL to all of it at one moment, and waits until it is gone.
    async fn kill(&self) -> Result<(), ControlError>;

    /// Stops all of it from running, without its knowing.
    async fn freeze(&self) -> Result<(), ControlError>;

    /// Lets it run on.
    async fn thaw(&self) -> Result<(), ControlError>;

    /// A graceful stop, and waits until it is gone.
    async fn stop(&self) -> Result<(), ControlError>;

    /// Starts one that is not there on the same data; does not wait until it answers.
    async fn start(&self) -> Result<(), ControlError>;

    /// Ends it in whatever state it is, with its data.
    async fn destroy(&self) -> Result<(), String>;

    /// The last lines of its log.
    async fn log(&self) -> String;
}

/// Why a server was not killed, frozen, stopped or started.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// It was given by URL: somebody else runs it.
    NotOurs,
    /// It was tried and failed, or the server was not in a state for it.
    Failed(String),
}

impl ControlError {
    pub(super) fn failed(reason: impl fmt::Display) -> ControlError {
        ControlError::Failed(reason.to_string())
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::NotOurs => f.write_str("a server that was given by URL is not ours to control"),
            ControlError::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ControlError {}
