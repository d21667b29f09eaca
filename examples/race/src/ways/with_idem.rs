//! idem: the execution is owned. The UNIQUE key decides the first owner, and a conditional UPDATE every later one.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, End, Fault, Fingerprint, Idem, Identity, Key, Operation, Outcome, Request, Scope, Span,
};

use super::{BoxError, Service, Start, Way};
use crate::database::Database;
use crate::provider::Provider;

pub(super) struct WithIdem;

#[async_trait]
impl Way for WithIdem {
    fn name(&self) -> &'static str {
        "idem"
    }

    fn starts(&self) -> &'static [Start] {
        &[Start::New, Start::Lapsed, Start::Failed]
    }

    fn is_idem(&self) -> bool {
        true
    }

    async fn service(&self, database: &Database, provider: Arc<Provider>) -> Result<Arc<dyn Service>, BoxError> {
        Ok(Arc::new(Payments { idem: Idem::new(Arc::clone(database.store())), provider }))
    }
}

struct Payments {
    idem: Idem,
    provider: Arc<Provider>,
}

#[async_trait]
impl Service for Payments {
    async fn prepare(&self, key: &str, start: Start) -> Result<(), BoxError> {
        if start == Start::New {
            return Ok(());
        }
        // An owner with the shortest lease there is: it is over before anybody asks.
        let request = request(key)?;
        let (identity, operation) = (request.identity().clone(), request.operation().clone());
        let claim = Claim::builder(identity, operation, *request.fingerprint()).lease(Span::MIN).build()?;
        let Claimed::Acquired(grant) = self.idem.store().claim(&claim).await? else {
            return Err("the key is not new".into());
        };
        if start == Start::Failed {
            self.idem.store().complete(&Complete::new(grant.lease, End::Unknown(None))).await?;
        }
        Ok(())
    }

    async fn pay(&self, key: &str) -> Result<(), BoxError> {
        let provider = Arc::clone(&self.provider);
        let outcome: Outcome<String> =
            self.idem.run(request(key)?, |_| async move { Ok::<_, Fault>(provider.charge().await) }).await?;
        match outcome {
            Outcome::Executed(Ok(_)) | Outcome::Replayed(Ok(_)) | Outcome::InFlight { .. } => Ok(()),
            other => Err(format!("unexpected: {other:?}").into()),
        }
    }
}

fn request(key: &str) -> Result<Request, BoxError> {
    let operation = Operation::new("pay")?;
    let fingerprint = Fingerprint::of(&operation).field("amount", b"10000").finish();
    Ok(Request::new(Identity::new(Scope::new("user-1")?, Key::new(key)?), operation, fingerprint))
}
