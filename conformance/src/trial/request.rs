//! The requests of a trial, with what no rule cares about filled in.

use idem_core::{
    Claim, ClaimBuilder, End, Fingerprint, Grant, Identity, OnUncertain, Operation, Response, Span, Token,
};

use super::{LEASE, RETENTION, Stop, Trial};

/// Long enough that no trial's ageing reaches it by accident: ten years.
const TAKE_OVER: OnUncertain = OnUncertain::TakeOver { within: Span::saturating_secs(10 * 365 * 86_400) };

impl Trial {
    /// A claim of this identity, for the trial's one request, that takes over what is uncertain.
    ///
    /// # Errors
    /// None that a suite without a defect gives.
    pub fn claim(&self, identity: &Identity) -> Result<ClaimBuilder, Stop> {
        self.claim_for(identity, "a request")
    }

    /// The same for another request.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub fn claim_for(&self, identity: &Identity, request: &str) -> Result<ClaimBuilder, Stop> {
        let operation =
            Operation::new("conformance").map_err(|error| Stop::Error(format!("the suite's operation: {error}")))?;
        let fingerprint = Fingerprint::of(&operation).field("request", request.as_bytes()).finish();
        Ok(Claim::builder(identity.clone(), operation, fingerprint)
            .token(self.token())
            .lease(LEASE)
            .retention(RETENTION)
            .on_uncertain(TAKE_OVER))
    }

    /// A usual claim, built.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub fn usual(&self, identity: &Identity) -> Result<Claim, Stop> {
        built(self.claim(identity)?)
    }

    /// A usual claim that is held when it is uncertain, built.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub fn holding(&self, identity: &Identity) -> Result<Claim, Stop> {
        built(self.claim(identity)?.on_uncertain(OnUncertain::Hold))
    }

    /// A usual claim for another request, built.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub fn other_request(&self, identity: &Identity) -> Result<Claim, Stop> {
        built(self.claim_for(identity, "another request")?)
    }

    /// A fresh token from this trial's seed.
    #[must_use]
    pub fn token(&self) -> Token {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.bytes(16));
        Token::from_bytes(bytes)
    }

    /// Claims an identity as usual, and has to get it.
    ///
    /// # Errors
    /// When it is not granted.
    pub async fn acquire(&self, identity: &Identity) -> Result<Grant, Stop> {
        let claim = self.usual(identity)?;
        self.store().await?.acquire(&claim, "of a free identity").await
    }

    /// A response that nobody else's is equal to.
    #[must_use]
    pub fn response(&self, code: u16) -> Response {
        Response::new(code).with_meta(self.bytes(24)).with_body(self.bytes(200))
    }

    /// The end of an attempt that succeeded.
    #[must_use]
    pub fn succeeded(&self) -> End {
        End::Succeeded(self.response(201).into())
    }

    /// The end of an attempt that was refused for good.
    #[must_use]
    pub fn failed(&self) -> End {
        End::Failed(self.response(402).into())
    }

    /// The end of an attempt whose effect is not known.
    #[must_use]
    pub fn unknown(&self) -> End {
        End::Unknown(Some(self.response(503).into()))
    }
}

/// The claim that a rule has put together.
pub(crate) fn built(builder: ClaimBuilder) -> Result<Claim, Stop> {
    builder.build().map_err(|error| Stop::Error(format!("the suite made a bad claim: {error}")))
}
