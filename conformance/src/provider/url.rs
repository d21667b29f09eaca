//! A server that somebody else runs.

use async_trait::async_trait;

use super::backend::{Backend, ControlError};
use super::{Endpoint, Kind, client};

pub(super) struct Given {
    endpoint: Endpoint,
}

impl Given {
    /// Takes the server that the variable names.
    pub(super) async fn find(kind: Kind) -> Result<(Given, String), String> {
        let variable = kind.spec().url_variable;
        let text = std::env::var(variable).map_err(|_| format!("{variable} is not set"))?;
        Given::at(kind, &text).await.map_err(|reason| format!("{variable}: {reason}"))
    }

    /// Takes the server that this URL names, when it is one server, of the right kind.
    pub(super) async fn at(kind: Kind, url: &str) -> Result<(Given, String), String> {
        let endpoint = Endpoint::parse(url)?;
        let first = client::facts(kind, &endpoint).await.map_err(|reason| format!("{endpoint}: {reason}"))?;
        let second = client::facts(kind, &endpoint).await.map_err(|reason| format!("{endpoint}: {reason}"))?;
        if first.kind != kind {
            return Err(format!("{endpoint} is {} {}, not {kind}", first.kind, first.version));
        }
        // Behind an address that spreads connections, what one of them wrote another would not find.
        if first.identity != second.identity {
            return Err(format!("two connections to {endpoint} reached two servers"));
        }
        let what = endpoint.to_string();
        Ok((Given { endpoint }, what))
    }
}

#[async_trait]
impl Backend for Given {
    async fn endpoint(&self) -> Result<Endpoint, String> {
        Ok(self.endpoint.clone())
    }

    async fn alive(&self) -> Result<bool, String> {
        Ok(true)
    }

    async fn pid(&self) -> Option<u32> {
        None
    }

    async fn kill(&self) -> Result<(), ControlError> {
        Err(ControlError::NotOurs)
    }

    async fn freeze(&self) -> Result<(), ControlError> {
        Err(ControlError::NotOurs)
    }

    async fn thaw(&self) -> Result<(), ControlError> {
        Err(ControlError::NotOurs)
    }

    async fn stop(&self) -> Result<(), ControlError> {
        Err(ControlError::NotOurs)
    }

    async fn start(&self) -> Result<(), ControlError> {
        Err(ControlError::NotOurs)
    }

    async fn destroy(&self) -> Result<(), String> {
        Ok(())
    }

    async fn log(&self) -> String {
        String::new()
    }
}
