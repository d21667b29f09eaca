//! How attempts are kept and ended, wrongly.

use bytes::Bytes;
use idem_core::machine::{self, Rules};
use idem_core::{
    Claim, Complete, Completed, End, Lease, Record, Recorded, Release, Released, Renewed, Response, Span, State,
    StoreTime,
};

use crate::mutants::logic::{CompleteLogic, Logic, ReleaseLogic, RenewLogic};
use crate::mutants::{Kind, Mutant};

const fn completing(complete: CompleteLogic) -> Kind {
    Kind::Model(Logic { complete, ..Logic::GOOD })
}

const fn renewing(renew: RenewLogic) -> Kind {
    Kind::Model(Logic { renew, ..Logic::GOOD })
}

const fn releasing(release: ReleaseLogic) -> Kind {
    Kind::Model(Logic { release, ..Logic::GOOD })
}

/// The record's own lease: what a store that does not check is as good as given.
fn lease_of(record: &Record) -> Lease {
    let length = Span::try_from(record.lease_until.since(record.claimed_at)).unwrap_or(Span::MIN);
    Lease {
        identity: record.identity.clone(),
        token: record.token,
        fence: record.fence,
        attempt: record.attempt,
        length,
    }
}

/// Completes with the record's own lease.
fn unchecked(found: &Record, complete: &Complete, now: StoreTime, rules: &Rules) -> (Completed, Option<Record>) {
    machine::complete(Some(found), &Complete::new(lease_of(found), complete.end().clone()), now, rules)
}

/// The same completion, with another response.
fn with_response(complete: &Complete, change: impl Fn(&Response) -> Recorded) -> Complete {
    let changed = |recorded: &Recorded| match recorded {
        Recorded::Response(response) => change(response),
        tombstone => tombstone.clone(),
    };
    let end = match complete.end() {
        End::Succeeded(recorded) => End::Succeeded(changed(recorded)),
        End::Failed(recorded) => End::Failed(changed(recorded)),
        End::Unknown(recorded) => End::Unknown(recorded.as_ref().map(changed)),
    };
    Complete::new(complete.lease().clone(), end)
}

/// A completion that keeps another response than it was given.
macro_rules! keeping {
    (|$response:ident| $kept:expr) => {
        completing(|found, complete, now, rules| {
            machine::complete(found, &with_response(complete, |$response| $kept), now, rules)
        })
    };
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        id: "M-body-dropped",
        kind: keeping!(|response| Recorded::Tombstone { code: response.code }),
        kills: "COMPLETE-001",
        because: "The outcome is kept and the response dropped.",
        says: "the record has another response than the completion",
    },
    Mutant {
        id: "M-failed-is-free",
        kind: completing(|found, complete, now, rules| {
            let (answer, record) = machine::complete(found, complete, now, rules);
            let freed = |mut record: Record| {
                if record.state == State::Failed {
                    record.state = State::Released;
                }
                record
            };
            (answer, record.map(freed))
        }),
        kills: "COMPLETE-002",
        because: "FAILED is stored as absent, so that the retry runs again.",
        says: "of a FAILED record was answered Acquired",
    },
    Mutant {
        id: "M-repeat-is-lost",
        kind: completing(|found, complete, now, rules| match machine::complete(found, complete, now, rules) {
            (Completed::AlreadyStored, record) => (Completed::Lost, record),
            other => other,
        }),
        kills: "COMPLETE-003",
        because: "An owner whose reply was lost is told that it lost.",
        says: "the same completion again: Lost",
    },
    Mutant {
        id: "M-second-end-overwrites",
        kind: completing(|found, complete, now, rules| match (machine::complete(found, complete, now, rules), found) {
            ((Completed::AlreadyStored, _), Some(found)) if found.recorded.as_ref() != complete.end().recorded() => {
                let running = Record { state: State::Processing, ..found.clone() };
                (Completed::AlreadyStored, machine::complete(Some(&running), complete, now, rules).1)
            }
            (other, _) => other,
        }),
        kills: "COMPLETE-004",
        because: "The second end overwrites the first.",
        says: "another completion with the same token changed the record",
    },
    Mutant {
        id: "M-complete-ignores-token",
        kind: completing(|found, complete, now, rules| match found {
            Some(found) => unchecked(found, complete, now, rules),
            None => (Completed::Lost, None),
        }),
        kills: "COMPLETE-005",
        because: "Anybody can end an attempt.",
        says: "with a token that nobody was granted: Stored",
    },
    Mutant {
        id: "M-complete-ignores-fence",
        kind: completing(|found, complete, now, rules| match found {
            Some(found) if found.token == complete.lease().token => unchecked(found, complete, now, rules),
            _ => (Completed::Lost, None),
        }),
        kills: "CLAIM-009",
        because: "Only the token is checked, and not the fence.",
        says: "complete with the right token with another fence: Stored",
    },
    Mutant {
        id: "M-complete-creates",
        kind: completing(|found, complete, now, rules| match found {
            None => {
                let lease = complete.lease();
                let claim = idem_core::Operation::new("made up").ok().and_then(|operation| {
                    let fingerprint = idem_core::Fingerprint::from_bytes([0; 32]);
                    Claim::builder(lease.identity.clone(), operation, fingerprint).token(lease.token).build().ok()
                });
                let record = claim.map(|claim| Record { fence: lease.fence, ..machine::created(&claim, now) });
                machine::complete(record.as_ref(), complete, now, rules)
            }
            found => machine::complete(found, complete, now, rules),
        }),
        kills: "FENCE-006",
        because: "A completion after purge resurrects the row.",
        says: "complete with the lease of a purged record: Stored",
    },
    Mutant {
        id: "M-lapsed-cannot-complete",
        kind: completing(|found, complete, now, rules| match found {
            Some(found) if found.state == State::Processing && now >= found.lease_until => (Completed::Lost, None),
            found => machine::complete(found, complete, now, rules),
        }),
        kills: "COMPLETE-007",
        because: "An effect that happened is not recorded, because its owner was slow.",
        says: "the owner completed its attempt: Lost",
    },
    Mutant {
        id: "M-limit-less-one",
        kind: Kind::Model(Logic { response_limit: |limit| limit - 1, ..Logic::GOOD }),
        kills: "COMPLETE-009",
        because: "The declared limit is one byte more than is kept.",
        says: "complete was answered with an error",
    },
    Mutant {
        id: "M-no-limit",
        kind: Kind::Model(Logic { response_limit: |limit| limit * 2, ..Logic::GOOD }),
        kills: "COMPLETE-009",
        because: "The declared limit is not enforced.",
        says: "a response over the limit was answered Stored",
    },
    Mutant {
        id: "M-tombstone-as-response",
        kind: completing(|found, complete, now, rules| {
            let end = match complete.end() {
                End::Succeeded(Recorded::Tombstone { code }) => End::Succeeded(Response::new(*code).into()),
                other => other.clone(),
            };
            machine::complete(found, &Complete::new(complete.lease().clone(), end), now, rules)
        }),
        kills: "COMPLETE-010",
        because: "A tombstone becomes an empty response.",
        says: "a tombstone was replayed as Response",
    },
    Mutant {
        id: "M-no-floor",
        kind: completing(|found, complete, now, rules| {
            machine::complete(found, complete, now, &Rules { floor: Span::MIN, ..*rules })
        }),
        kills: "COMPLETE-011",
        because: "A long operation's first retry runs it again.",
        says: "right after an end that came after the retention was answered Acquired",
    },
    Mutant {
        id: "M-retention-from-completion",
        kind: completing(|found, complete, now, rules| {
            let (answer, record) = machine::complete(found, complete, now, rules);
            let moved = |record: Record| {
                let kept = record.expires_at.since(record.created_at);
                let expires_at = Span::try_from(kept).map_or(record.expires_at, |kept| now.plus(kept));
                Record { expires_at, ..record }
            };
            (answer, record.map(moved))
        }),
        kills: "TIME-002",
        because: "Retention counts from the completion.",
        says: "after retention, counted from the claim",
    },
    Mutant {
        id: "M-body-as-text",
        kind: keeping!(|response| {
            let text = |body: &Bytes| Bytes::from(String::from_utf8_lossy(body).into_owned());
            Recorded::Response(Response { body: response.body.as_ref().map(text), ..response.clone() })
        }),
        kills: "REPLAY-001",
        because: "The body is decoded as UTF-8, with replacement.",
        says: "a body of all 256 values did not come back",
    },
    Mutant {
        id: "M-absent-is-empty",
        kind: keeping!(|response| {
            Recorded::Response(Response { body: Some(response.body.clone().unwrap_or_default()), ..response.clone() })
        }),
        kills: "REPLAY-002",
        because: "An absent body becomes an empty one.",
        says: "an absent body did not come back",
    },
    Mutant {
        id: "M-empty-is-absent",
        kind: keeping!(|response| {
            let body = response.body.clone().filter(|body| !body.is_empty());
            Recorded::Response(Response { body, ..response.clone() })
        }),
        kills: "REPLAY-002",
        because: "An empty body becomes an absent one.",
        says: "an empty body did not come back",
    },
    Mutant {
        id: "M-headers-sorted",
        kind: keeping!(|response| {
            let mut lines: Vec<&[u8]> = response.meta.split_inclusive(|byte| *byte == b'\n').collect();
            lines.sort_unstable();
            lines.dedup();
            Recorded::Response(Response { meta: lines.concat().into(), ..response.clone() })
        }),
        kills: "REPLAY-003",
        because: "Headers go through a map.",
        says: "repeated headers in an order did not come back",
    },
    Mutant {
        id: "M-code-is-signed",
        kind: keeping!(|response| {
            Recorded::Response(Response { code: response.code & 0x7fff, ..response.clone() })
        }),
        kills: "REPLAY-003",
        because: "The code is kept in a signed 16-bit column.",
        says: "code 32768 did not come back",
    },
    Mutant {
        id: "M-stale-complete-stored",
        kind: completing(|found, complete, now, rules| match found {
            Some(found) if found.state == State::Processing && complete.lease().attempt < found.attempt => {
                unchecked(found, complete, now, rules)
            }
            found => machine::complete(found, complete, now, rules),
        }),
        kills: "FENCE-002",
        because: "A paused owner's end is stored over the new owner's attempt.",
        says: "the stale owner's completion: Stored",
    },
    Mutant {
        id: "M-stale-complete-overwrites",
        kind: completing(|found, complete, now, rules| match found {
            Some(found) if found.state == State::Succeeded && complete.lease().attempt < found.attempt => {
                let running = Record { state: State::Processing, ..found.clone() };
                unchecked(&running, complete, now, rules)
            }
            found => machine::complete(found, complete, now, rules),
        }),
        kills: "FENCE-005",
        because: "A paused owner's end overwrites the answer that clients have read.",
        says: "complete with the stale owner's lease, after the new owner's end: Stored",
    },
    Mutant {
        id: "M-renew-ignores-token",
        kind: renewing(|found, renew, now| match found {
            Some(found) if found.state == State::Processing => {
                let lease_until = found.lease_until.max(now.plus(renew.length()));
                (Renewed::Held, Some(Record { lease_until, ..found.clone() }))
            }
            found => machine::renew(found, renew, now),
        }),
        kills: "FENCE-003",
        because: "A stale heartbeat is told that it holds the lease.",
        says: "the stale owner's renewal: Held",
    },
    Mutant {
        id: "M-renew-does-nothing",
        kind: renewing(|found, renew, now| (machine::renew(found, renew, now).0, None)),
        kills: "RENEW-001",
        because: "A renewal is answered, and nothing is written.",
        says: "the lease runs until",
    },
    Mutant {
        id: "M-renew-adds",
        kind: renewing(|found, renew, now| {
            let (answer, record) = machine::renew(found, renew, now);
            let old = found.map(|found| found.lease_until);
            let added = |record: Record| {
                let lease_until = old.map_or(record.lease_until, |old| old.plus(renew.length()));
                Record { lease_until, ..record }
            };
            (answer, record.map(added))
        }),
        kills: "RENEW-001",
        because: "A renewal adds to the old end, so that many make a lease without end.",
        says: "the lease runs until",
    },
    Mutant {
        id: "M-renew-revives",
        kind: renewing(|found, renew, now| match found {
            Some(found) if found.token == renew.lease().token && found.state != State::Processing => {
                let lease_until = now.plus(renew.length());
                (Renewed::Held, Some(Record { state: State::Processing, lease_until, ..found.clone() }))
            }
            found => machine::renew(found, renew, now),
        }),
        kills: "RENEW-002",
        because: "A late heartbeat makes a finished record PROCESSING again.",
        says: "a renewal of a record that is Succeeded: Held",
    },
    Mutant {
        id: "M-renew-shortens",
        kind: renewing(|found, renew, now| {
            let (answer, record) = machine::renew(found, renew, now);
            (answer, record.map(|record| Record { lease_until: now.plus(renew.length()), ..record }))
        }),
        kills: "RENEW-003",
        because: "Two heartbeats that overtake each other end the lease.",
        says: "the end of the lease after a shorter renewal",
    },
    Mutant {
        id: "M-lapsed-cannot-renew",
        kind: renewing(|found, renew, now| match found {
            Some(found) if now >= found.lease_until => (Renewed::Lost, None),
            found => machine::renew(found, renew, now),
        }),
        kills: "RENEW-004",
        because: "A slow heartbeat is taken for a lost lease.",
        says: "the owner renewed its lease: Lost",
    },
    Mutant {
        id: "M-checkpoint-goes-back",
        kind: renewing(|found, renew, now| {
            let (answer, record) = machine::renew(found, renew, now);
            let checkpoint = renew.checkpoint_left().cloned();
            let back =
                |record: Record| Record { checkpoint: checkpoint.clone().or(record.checkpoint.clone()), ..record };
            (answer, record.map(back))
        }),
        kills: "CHECKPOINT-002",
        because: "A heartbeat that was overtaken undoes progress.",
        says: "the checkpoint after number 3 was left",
    },
    Mutant {
        id: "M-release-waits",
        kind: releasing(|found, release, now| (machine::release(found, release, now).0, None)),
        kills: "RELEASE-001",
        because: "A release is answered, and the key stays locked until the lease ends.",
        says: "the state after a release: Processing",
    },
    Mutant {
        id: "M-release-frees-finished",
        kind: releasing(|found, release, now| match found {
            Some(found) if found.token == release.lease().token && found.state != State::Processing => {
                (Released::Released, Some(Record { state: State::Released, recorded: None, ..found.clone() }))
            }
            found => machine::release(found, release, now),
        }),
        kills: "RELEASE-002",
        because: "A release on drop, after the effect, frees the finished record.",
        says: "a release of a record that is Succeeded: Released",
    },
    Mutant {
        id: "M-release-by-identity",
        kind: releasing(|found, release, now| match found {
            Some(found) if found.state == State::Processing && found.attempt == release.lease().attempt => {
                machine::release(Some(found), &Release::new(lease_of(found)), now)
            }
            found => machine::release(found, release, now),
        }),
        kills: "RELEASE-003",
        because: "A repeated release frees the next owner, because only the identity is looked at.",
        says: "the same release, after the next owner's claim: Released",
    },
    Mutant {
        id: "M-stale-release-frees",
        kind: releasing(|found, release, now| match found {
            Some(found) if found.state == State::Processing && release.lease().attempt < found.attempt => {
                machine::release(Some(found), &Release::of_every_attempt(lease_of(found)), now)
            }
            found => machine::release(found, release, now),
        }),
        kills: "FENCE-004",
        because: "A stale unlock lets a third owner in beside the second.",
        says: "the stale owner's release: Released",
    },
    Mutant {
        id: "M-later-release-frees",
        kind: releasing(|found, release, now| {
            machine::release(found, &Release::of_every_attempt(release.lease().clone()), now)
        }),
        kills: "RELEASE-005",
        because: "Releasing a later attempt forgets what the earlier one may have done.",
        says: "the state after a later attempt was released: Released",
    },
];
