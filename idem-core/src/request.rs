//! What is asked of a store. Each type carries its preconditions, so a store never sees a bad request.

use bytes::Bytes;

use crate::config::defaults;
use crate::{
    Checkpoint, Error, Fingerprint, Identity, Lease, MAX_CHECKPOINT, OnUncertain, Operation, Owner, Recorded, Span,
    Token,
};

/// A claim: "let me run this, or tell me how it went". Made by [`Claim::builder`].
#[derive(Clone, Debug)]
pub struct Claim {
    parts: ClaimBuilder,
    token: Token,
}

impl Claim {
    /// Starts a claim; what is not said is as in [`defaults`].
    pub fn builder(identity: Identity, operation: Operation, fingerprint: Fingerprint) -> ClaimBuilder {
        ClaimBuilder {
            identity,
            operation,
            fingerprint,
            token: None,
            lease: defaults::LEASE,
            retention: defaults::RETENTION,
            on_uncertain: defaults::ON_UNCERTAIN,
            owner: None,
            resolving: false,
        }
    }

    /// Whose key, and which.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.parts.identity
    }

    /// What is run.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.parts.operation
    }

    /// What makes two requests the same.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.parts.fingerprint
    }

    /// Names the attempt that this claim asks for.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// How long the lease is to run.
    #[must_use]
    pub fn lease(&self) -> Span {
        self.parts.lease
    }

    /// How long the finished record is to be replayable, from now on. Never below the lease (clause C15).
    #[must_use]
    pub fn retention(&self) -> Span {
        self.parts.retention
    }

    /// What is to happen to an uncertain record.
    #[must_use]
    pub fn on_uncertain(&self) -> OnUncertain {
        self.parts.on_uncertain
    }

    /// Who asks.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.parts.owner.as_ref()
    }

    /// Is this the explicit decision that takes over a held record?
    #[must_use]
    pub fn is_resolving(&self) -> bool {
        self.parts.resolving
    }

    /// Does the claimant promise to renew before its work starts (clause C14)? Holders do; a resolver has decided.
    #[must_use]
    pub fn announces(&self) -> bool {
        self.parts.on_uncertain == OnUncertain::Hold && !self.parts.resolving
    }
}

/// Collects a [`Claim`].
#[derive(Clone, Debug)]
#[must_use = "a claim is made by `build`"]
pub struct ClaimBuilder {
    identity: Identity,
    operation: Operation,
    fingerprint: Fingerprint,
    token: Option<Token>,
    lease: Span,
    retention: Span,
    on_uncertain: OnUncertain,
    owner: Option<Owner>,
    resolving: bool,
}

impl ClaimBuilder {
    /// The token of the attempt. Without one, every `build` draws a fresh token.
    pub fn token(mut self, token: Token) -> ClaimBuilder {
        self.token = Some(token);
        self
    }

    /// How long the lease is to run.
    pub fn lease(mut self, lease: Span) -> ClaimBuilder {
        self.lease = lease;
        self
    }

    /// How long the finished record is to be replayable.
    pub fn retention(mut self, retention: Span) -> ClaimBuilder {
        self.retention = retention;
        self
    }

    /// What is to happen to an uncertain record.
    pub fn on_uncertain(mut self, on_uncertain: OnUncertain) -> ClaimBuilder {
        self.on_uncertain = on_uncertain;
        self
    }

    /// Who asks.
    pub fn owner(mut self, owner: Owner) -> ClaimBuilder {
        self.owner = Some(owner);
        self
    }

    /// Makes this the explicit decision of a person or reconciler: it takes over an uncertain record under either
    /// policy, and so fences its owner *before* anything is decided (clause C15). A running lease it leaves alone.
    pub fn resolving(mut self) -> ClaimBuilder {
        self.resolving = true;
        self
    }

    /// The claim.
    ///
    /// # Errors
    /// `InvalidInput` when the retention is below the lease (clause C15).
    pub fn build(self) -> Result<Claim, Error> {
        if self.retention < self.lease {
            return Err(Error::invalid_input("the retention is shorter than the lease"));
        }
        let token = self.token.unwrap_or_else(Token::random);
        Ok(Claim { parts: self, token })
    }
}

/// A renewal: "I am still at it". Counts from now, and may leave a checkpoint.
#[derive(Clone, Debug)]
pub struct Renew {
    lease: Lease,
    length: Span,
    checkpoint: Option<Checkpoint>,
}

impl Renew {
    /// Renews for as long as the lease was granted.
    #[must_use]
    pub fn new(lease: Lease) -> Renew {
        let length = lease.length;
        Renew { lease, length, checkpoint: None }
    }

    /// Renews for another length.
    #[must_use]
    pub fn lasting(mut self, length: Span) -> Renew {
        self.length = length;
        self
    }

    /// Leaves a checkpoint, too. It replaces one with a lower number only (clause R5).
    ///
    /// # Errors
    /// `TooLarge` when it has more than [`MAX_CHECKPOINT`] bytes; nothing was sent. `InvalidInput` for a number that
    /// does not fit a signed 64-bit column.
    pub fn checkpoint(mut self, sequence: u64, bytes: impl Into<Bytes>) -> Result<Renew, Error> {
        let bytes = bytes.into();
        if bytes.len() > MAX_CHECKPOINT {
            let message = format!("the checkpoint has {} bytes, at most {MAX_CHECKPOINT} are kept", bytes.len());
            return Err(Error::new(crate::ErrorKind::TooLarge, message));
        }
        if i64::try_from(sequence).is_err() {
            return Err(Error::invalid_input("the checkpoint's number does not fit 63 bits"));
        }
        self.checkpoint = Some(Checkpoint { sequence, bytes });
        Ok(self)
    }

    /// Whose lease.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// For how long, from now.
    #[must_use]
    pub fn length(&self) -> Span {
        self.length
    }

    /// What is left for the next attempt.
    #[must_use]
    pub fn checkpoint_left(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }
}

/// How an attempt ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The effect happened; the response is replayed.
    Succeeded(Recorded),
    /// A final refusal; the response is replayed.
    Failed(Recorded),
    /// The effect is not known. The response, when there is one, is evidence for whoever decides.
    Unknown(Option<Recorded>),
}

impl End {
    /// What is to be kept.
    #[must_use]
    pub fn recorded(&self) -> Option<&Recorded> {
        match self {
            End::Succeeded(recorded) | End::Failed(recorded) => Some(recorded),
            End::Unknown(recorded) => recorded.as_ref(),
        }
    }

    /// The same end with a tombstone instead of its response.
    #[must_use]
    pub fn without_response(&self) -> End {
        let tombstone = |recorded: &Recorded| Recorded::Tombstone { code: recorded.code() };
        match self {
            End::Succeeded(recorded) => End::Succeeded(tombstone(recorded)),
            End::Failed(recorded) => End::Failed(tombstone(recorded)),
            End::Unknown(recorded) => End::Unknown(recorded.as_ref().map(tombstone)),
        }
    }
}

/// A completion: "this is how it ended".
#[derive(Clone, Debug)]
pub struct Complete {
    lease: Lease,
    end: End,
}

impl Complete {
    /// Ends the lease's attempt so.
    #[must_use]
    pub fn new(lease: Lease, end: End) -> Complete {
        Complete { lease, end }
    }

    /// Whose lease.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// How it ended.
    #[must_use]
    pub fn end(&self) -> &End {
        &self.end
    }
}

/// What "nothing happened" speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// This attempt. What earlier attempts did stays unknown (clause L1).
    ThisAttempt,
    /// Every attempt of this record: the word of a person or reconciler who has looked.
    EveryAttempt,
}

/// A release: "nothing happened".
#[derive(Clone, Debug)]
pub struct Release {
    lease: Lease,
    reach: Reach,
}

impl Release {
    /// Nothing happened in this attempt.
    #[must_use]
    pub fn new(lease: Lease) -> Release {
        Release { lease, reach: Reach::ThisAttempt }
    }

    /// Nothing happened in any attempt: frees the identity also after a takeover. For resolving.
    #[must_use]
    pub fn of_every_attempt(lease: Lease) -> Release {
        Release { lease, reach: Reach::EveryAttempt }
    }

    /// Whose lease.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What it speaks of.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.reach
    }
}
