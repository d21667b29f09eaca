//! The contract: what every idempotency store promises, in numbered clauses.

use std::num::NonZeroU32;

use async_trait::async_trait;

use crate::{Claim, Claimed, Complete, Completed, Error, Identity, Purged, Record, Release, Released, Renew, Renewed};

/// An idempotency store: it decides who runs an operation, and remembers how it went.
///
/// Idempotency is *ownership of an execution*. A UNIQUE (scope, key) decides one winner; a lease, a token and a fence
/// decide everything after. These six operations are the whole trait, without default bodies, so that a wrapper that
/// forgets one does not compile. Comfort lives in [`Idem`](crate::Idem).
///
/// The decisions are one pure function, [`machine`](crate::machine); a store that restates it in SQL must agree with
/// it. Clauses are named in rules, tests and SQL by their number.
///
/// ```text
///  ABSENT ──claim──► PROCESSING ──complete──► SUCCEEDED   the effect happened; replayed
///     ▲               │   │   │  └─complete──► FAILED      a final refusal; replayed too
///     │               │   │   └────complete──► UNKNOWN     ended, effect not known; the response is evidence
///     │               │   └────────release───► RELEASED    nothing happened; free for any fingerprint
///     │               └──(lease over)────────► lapsed      crashed, killed or paused owner
///     │
///     │   UNKNOWN or lapsed + claim: TakeOver { within } → PROCESSING, next attempt, exactly one winner
///     │                              Hold                → Uncertain, until somebody decides
///     └── SUCCEEDED, FAILED, RELEASED after retention (purged or not), unless the store remembers longer: SPENT
/// ```
///
/// # Everywhere
/// - **T1** The store's clock alone decides. Callers pass durations; no instant of the application is bound into SQL.
///   (Memory and SQLite have the host's clock.)
/// - **T2** Times are exact to a microsecond, or to a stated resolution.
/// - **T3** The session's time zone moves nothing.
/// - **T4** Zero, negative and overflowing durations are typed refusals: [`Span`](crate::Span) cannot hold them.
/// - **T5** A holder's own idea of its deadline is its monotonic clock *before* it sent the claim, plus the lease, less
///   a margin.
/// - **X1** Every mutation after a claim carries token and fence, and checks them inside the statement that writes.
/// - **X2** No connection, lock or transaction is held between calls.
/// - **X3** A future dropped at any await leaves the record as if the call had happened wholly or not at all (the
///   store may still finish it), the pool sound and nothing locked.
/// - **X4** Errors have a [`kind`](Error::kind) and say whether they are [retryable](Error::is_retryable).
///   `Indeterminate` means "may have been applied": repeating with the same token is safe. Outcomes are values.
/// - **X5** A store that is down answers with a typed error inside its deadline, never with a guess. Callers fail
///   closed.
/// - **X6** Keys, scopes and responses appear in no error, no `Debug` and no log (the key at debug level only).
///
/// # What no store can promise
/// A paused owner (garbage collection, SIGSTOP, a migrating virtual machine) that wakes after a takeover may still
/// call the outside world once more: its late record changes nothing, its call does. Hence
/// [`Attempt::lost`](crate::Attempt::lost) and the local deadline before each outside call, the *same*
/// [`downstream_key`](crate::Attempt::downstream_key) on every attempt so that the provider refuses the second, the
/// fence so that the caller's own tables can refuse an older writer, and `Hold` where none of these exists. Nor does a
/// store promise anything across forward jumps of the database's clock, or for commits that a failover loses. A
/// monotonic clock may stand still while a machine is suspended.
#[async_trait]
pub trait Store: Send + Sync {
    /// Asks to run an operation; answers who runs it, or how it went.
    ///
    /// # Behavior
    /// The first row that matches:
    ///
    /// | | the record is | answer | effect |
    /// |---|---|---|---|
    /// | **C1** | absent; RELEASED; SUCCEEDED or FAILED over age and not remembered | `Acquired` | PROCESSING, this fingerprint and token, attempt 1, new fence |
    /// | **C2** | of another fingerprint, in any other state | `Mismatch` | none |
    /// | **C3** | PROCESSING with *this* token, lapsed or not | `Acquired`, the same fence and attempt | the lost reply of our own claim: lease end = max(old, now + lease) |
    /// | **C4** | SUCCEEDED or FAILED | `Replay` | none |
    /// | **C5** | PROCESSING, lease running | `InFlight`, 0 < retry_after ≤ what is left | none: never lengthens the lease |
    /// | **C6** | lapsed or UNKNOWN, both policies TakeOver, younger than both `within` | `Acquired`, attempt + 1, last checkpoint, how the last attempt ended | PROCESSING, new token and fence |
    /// | **C7** | lapsed or UNKNOWN otherwise | `Uncertain` | none |
    /// | **C8** | SPENT | `Spent` | none |
    ///
    /// - **C9** At most one token is current, and of any number of simultaneous claims exactly one is `Acquired` (none
    ///   only when all failed with errors), whatever the process, host, pool, isolation level or backend. The UNIQUE
    ///   constraint and row locks decide; never a read before a write.
    /// - **C10** `Acquired` is answered after the commit that makes it true, and nothing else ever is.
    /// - **C11** A claim never waits past its deadline for another client's open transaction: it answers `InFlight` or
    ///   a retryable error, in time.
    /// - **C12** If the row vanishes between a conflict and its reading, the claim starts again, a bounded number of
    ///   times; it never goes on unclaimed.
    /// - **C13** The only write that a claim does on its own is the INSERT that creates the record. Every other grant
    ///   is a second statement, conditional on the fence, token, state and lease end that *this* call has just read,
    ///   and on the same decision by its own clock ([`stands`](crate::machine::stands)). So a request that the network
    ///   delivers late, or twice, takes over and re-opens nothing.
    /// - **C14** A lapsed attempt that promised to announce itself (policy Hold) and never did ran nothing: it may be
    ///   taken over under Hold too. Nobody has to be woken because a reply was lost. (That a dropped claim's grant is
    ///   released is [`Idem`](crate::Idem)'s half of this clause.)
    /// - **C15** `retention < lease` is `InvalidInput`. The record keeps the policy of the claim that created it: a
    ///   record claimed with Hold is held for every later claimant, whatever theirs says. Only a
    ///   [resolving](crate::ClaimBuilder::resolving) claim takes it over.
    ///
    /// # Errors
    /// `Unavailable`, `Indeterminate`, `Schema`.
    ///
    /// # Cancel safety
    /// By X3: dropped, it happened wholly or not at all. Repeating it with the same token tells, and is safe.
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error>;

    /// Keeps a lease running, and may leave a checkpoint.
    ///
    /// # Behavior
    /// - **R1** Only the current token of a PROCESSING record. **R2** Never shortens the lease; counts from now.
    /// - **R3** A lapsed lease that nobody took over is still held. **R4** Nothing is revived after complete, release
    ///   or takeover.
    /// - **R5** A checkpoint replaces an older one only, survives the owner, and is handed to whoever takes over.
    ///
    /// # Errors
    /// `Unavailable`, `Indeterminate`, `Schema`. An error is not a lost lease: only `Lost` is.
    ///
    /// # Cancel safety
    /// By X3; repeating it is safe.
    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error>;

    /// Ends an attempt and records its response.
    ///
    /// # Behavior
    /// - **F1** Only the current token of a PROCESSING record, lapsed or not: a takeover changes who is current.
    /// - **F2** The same token again on the record that it finished: `AlreadyStored`; the first stays, whatever the
    ///   second says.
    /// - **F3** After takeover, purge or release: `Lost`; nothing is created, nothing overwritten.
    /// - **F4** `Stored` is answered after commit. **F5** Exactly one record changes.
    /// - **F5b** After `AlreadyStored` or `Lost` inside a caller's transaction, the caller can only roll back.
    /// - **F6** Code, meta and body come back byte for byte: empty ≠ absent, NUL, invalid UTF-8, up to the limit.
    /// - **F6b** A finished record stays replayable for at least the store's floor after its completion, even when the
    ///   attempt used up the retention.
    /// - **F7** A response over the store's limit is `TooLarge`, before anything changed.
    ///
    /// # Errors
    /// `TooLarge`, `Unavailable`, `Indeterminate`, `Schema`.
    ///
    /// # Cancel safety
    /// By X3; repeating it answers `AlreadyStored` when the first had been applied.
    async fn complete(&self, complete: &Complete) -> Result<Completed, Error>;

    /// Says that nothing happened.
    ///
    /// # Behavior
    /// - **L1** Only the current token of a PROCESSING record. When no earlier attempt may have run, the identity is
    ///   free at once, for any fingerprint; the row stays as RELEASED, with its fence, until purge. Otherwise release
    ///   undoes only its own grant: the record is UNKNOWN again. A resolver's
    ///   [`of_every_attempt`](Release::of_every_attempt) frees it in either case.
    /// - **L2** Repeating is harmless and never frees the next owner. **L3** Never on a finished record.
    ///
    /// # Errors
    /// `Unavailable`, `Indeterminate`, `Schema`.
    ///
    /// # Cancel safety
    /// By X3; repeating it is safe.
    async fn release(&self, release: &Release) -> Result<Released, Error>;

    /// Looks at a record, for audit and for waiting; never to decide a claim.
    ///
    /// # Behavior
    /// - **G1** Changes nothing. A record over age is none; a remembered one is SPENT.
    ///
    /// # Errors
    /// `Unavailable`, `Schema`.
    ///
    /// # Cancel safety
    /// Always.
    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error>;

    /// Deletes what has become free, and drops the responses of records that are only remembered.
    ///
    /// # Behavior
    /// - **P1** Never a running lease. **P2** Never inside retention, nor inside remembered time (there only the
    ///   response goes).
    /// - **P3** At most `limit` rows a call; true counts. **P4** Does not block claims: skips locked rows, small
    ///   transactions.
    /// - **P5** Lapsed and UNKNOWN records are evidence: they stay for the store's evidence time, and those under Hold
    ///   until somebody decides. Until then no age makes them free.
    /// - **P6** A claim racing with purge never yields two owners.
    /// - **P7** A row is deleted only a quarantine after it became free, so that a late statement of an earlier life
    ///   meets a newer fence, and a clock that steps back cannot repeat one.
    ///
    /// # Errors
    /// `Unavailable`, `Indeterminate`, `Schema`.
    ///
    /// # Cancel safety
    /// By X3; repeating it is safe.
    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error>;
}
