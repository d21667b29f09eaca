//! Who is granted what, wrongly.

use std::time::Duration;

use idem_core::machine::{self, Rewrite, Rules};
use idem_core::{Claim, Claimed, Fence, OnUncertain, Record, Span, State, StoreTime, Uncertain};

use crate::mutants::logic::{ClaimLogic, Decided, Logic, Write, claim as good};
use crate::mutants::{Kind, Mutant};

type Answer = Decided<Claimed>;

/// The claim gets the record by this rewrite, whatever stands against it.
fn seize(how: Rewrite, found: &Record, claim: &Claim, now: StoreTime) -> Answer {
    granted(machine::rewritten(how, found, claim, now), claim)
}

fn granted(record: Record, claim: &Claim) -> Answer {
    (Claimed::Acquired(machine::grant(&record, claim)), Some(record))
}

/// The record that was written, changed, with the grant that goes with it.
fn rewritten((answer, record): Answer, claim: &Claim, change: impl Fn(&mut Record)) -> Answer {
    match (answer, record) {
        (Claimed::Acquired(_), Some(mut record)) => {
            change(&mut record);
            granted(record, claim)
        }
        other => other,
    }
}

fn is_running(found: &Record, now: StoreTime) -> bool {
    found.state == State::Processing && now < found.lease_until
}

fn is_lapsed(found: &Record, now: StoreTime) -> bool {
    found.state == State::Processing && now >= found.lease_until
}

fn is_finished(found: &Record) -> bool {
    matches!(found.state, State::Succeeded | State::Failed)
}

/// A claim that grants by this rewrite where `when` says so, and is good elsewhere.
macro_rules! seizing {
    ($how:ident, |$found:ident, $claim:ident, $now:ident| $when:expr) => {
        |found, claim, now, rules| {
            let seized = found.filter(|$found| {
                let ($claim, $now) = (claim, now);
                let _ = ($claim, $now);
                $when
            });
            match seized {
                Some(found) => seize(Rewrite::$how, found, claim, now),
                None => good(found, claim, now, rules),
            }
        }
    };
}

const fn claiming(claim: ClaimLogic) -> Kind {
    Kind::Model(Logic { claim, ..Logic::GOOD })
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        id: "M-grant-without-a-record",
        kind: claiming(|found, claim, now, rules| match found {
            None => (good(found, claim, now, rules).0, None),
            Some(_) => good(found, claim, now, rules),
        }),
        kills: "CLAIM-001",
        because: "A first claim is granted, and nothing is written.",
        says: "an independent read finds no record",
    },
    Mutant {
        id: "M-every-claim-acquired",
        kind: claiming(seizing!(TakeOver, |_found, _claim, _now| true)),
        kills: "CLAIM-002",
        because: "Every claim is Acquired: no idempotency at all.",
        says: "was answered Acquired, expected InFlight",
    },
    Mutant {
        id: "M-replayed-for-ever",
        kind: claiming(|found, claim, now, rules| match found {
            Some(found) if is_finished(found) && found.fingerprint == *claim.fingerprint() => {
                let eternal = Record { expires_at: now.plus(Span::MAX), ..found.clone() };
                (good(Some(&eternal), claim, now, rules).0, None)
            }
            found => good(found, claim, now, rules),
        }),
        kills: "CLAIM-003",
        because: "Retention is ignored: a finished record is replayed for ever.",
        says: "after retention has ended was answered Replay",
    },
    Mutant {
        id: "M-fingerprint-ignored",
        kind: claiming(|found, claim, now, rules| {
            let same = found.map(|found| Record { fingerprint: *claim.fingerprint(), ..found.clone() });
            good(same.as_ref(), claim, now, rules)
        }),
        kills: "CLAIM-004",
        because: "The fingerprint is not compared at all.",
        says: "expected Mismatch",
    },
    Mutant {
        id: "M-fingerprint-of-finished-only",
        kind: claiming(|found, claim, now, rules| match found {
            Some(found) if !is_finished(found) => {
                let same = Record { fingerprint: *claim.fingerprint(), ..found.clone() };
                good(Some(&same), claim, now, rules)
            }
            found => good(found, claim, now, rules),
        }),
        kills: "CLAIM-004",
        because: "The fingerprint is compared on finished records only.",
        says: "that is Processing was answered InFlight, expected Mismatch",
    },
    Mutant {
        id: "M-refused-claim-lengthens",
        kind: claiming(|found, claim, now, rules| match (good(found, claim, now, rules), found) {
            ((answer @ Claimed::InFlight { .. }, _), Some(found)) => {
                let lease_until = found.lease_until.max(now.plus(claim.lease()));
                (answer, Some(Record { lease_until, ..found.clone() }))
            }
            (other, _) => other,
        }),
        kills: "CLAIM-005",
        because: "An upsert without a condition: a refused claim lengthens the lease.",
        says: "a refused claim changed the record",
    },
    Mutant {
        id: "M-same-worker-re-enters",
        kind: claiming(seizing!(TakeOver, |found, claim, now| {
            is_running(found, now) && claim.owner().is_some() && found.owner.as_ref() == claim.owner()
        })),
        kills: "CLAIM-006",
        because: "The owner is the worker and not the attempt.",
        says: "by the same worker with a new token was answered Acquired",
    },
    Mutant {
        id: "M-retry-after-zero",
        kind: claiming(|found, claim, now, rules| match good(found, claim, now, rules) {
            (Claimed::InFlight { .. }, record) => (Claimed::InFlight { retry_after: Duration::ZERO }, record),
            other => other,
        }),
        kills: "CLAIM-007",
        because: "`retry_after` is always zero.",
        says: "`retry_after` is zero",
    },
    Mutant {
        id: "M-retry-after-a-whole-lease",
        kind: claiming(|found, claim, now, rules| match good(found, claim, now, rules) {
            (Claimed::InFlight { .. }, record) => {
                (Claimed::InFlight { retry_after: claim.lease().as_duration() }, record)
            }
            other => other,
        }),
        kills: "CLAIM-007",
        because: "`retry_after` is the length of a lease and not what is left of it.",
        says: "of the lease is left",
    },
    Mutant {
        id: "M-own-claim-is-in-flight",
        kind: claiming(|found, claim, now, rules| match found {
            Some(found) if is_running(found, now) && found.token == claim.token() => {
                (Claimed::InFlight { retry_after: found.lease_until.since(now) }, None)
            }
            found => good(found, claim, now, rules),
        }),
        kills: "CLAIM-010",
        because: "An owner whose reply was lost is locked out by its own claim.",
        says: "with the same token and a shorter lease was answered InFlight",
    },
    Mutant {
        id: "M-own-claim-cuts-its-lease",
        kind: claiming(|found, claim, now, rules| match found {
            Some(found) if found.state == State::Processing && found.token == claim.token() => {
                rewritten(good(Some(found), claim, now, rules), claim, |record| {
                    record.lease_until = now.plus(claim.lease());
                })
            }
            found => good(found, claim, now, rules),
        }),
        kills: "CLAIM-010",
        because: "A late duplicate of the owner's claim cuts a lease that was renewed.",
        says: "the same claim with a shorter lease changed the record",
    },
    Mutant {
        id: "M-own-claim-is-another-attempt",
        kind: claiming(seizing!(TakeOver, |found, claim, _now| {
            found.state == State::Processing && found.token == claim.token()
        })),
        kills: "CLAIM-010",
        because: "The same claim again is granted a second time, with another fence.",
        says: "the fence of the same claim again",
    },
    Mutant {
        id: "M-unknown-runs-under-hold",
        kind: claiming(seizing!(TakeOver, |found, claim, _now| {
            found.state == State::Unknown && found.fingerprint == *claim.fingerprint()
        })),
        kills: "CLAIM-011",
        because: "UNKNOWN is run again, whatever the policy.",
        says: "of an UNKNOWN record under Hold was answered Acquired",
    },
    Mutant {
        id: "M-within-ignored",
        kind: claiming(|found, claim, now, rules| match found {
            Some(found) if found.on_uncertain != OnUncertain::Hold => {
                let (young, asked) =
                    (Record { created_at: now, ..found.clone() }, good(Some(found), claim, now, rules));
                match (asked, good(Some(&young), claim, now, rules)) {
                    ((Claimed::Uncertain(_), _), (Claimed::Acquired(_), _)) => {
                        seize(Rewrite::TakeOver, found, claim, now)
                    }
                    (asked, _) => asked,
                }
            }
            found => good(found, claim, now, rules),
        }),
        kills: "CLAIM-011",
        because: "The takeover goes on after the outside provider has forgotten the key.",
        says: "past `within` of the record's policy or the claimant's own was answered Acquired",
    },
    Mutant {
        id: "M-expiry-frees-processing",
        kind: claiming(seizing!(NewLife, |found, _claim, now| is_lapsed(found, now) && now >= found.expires_at)),
        kills: "CLAIM-012",
        because: "Retention frees a lapsed record: what may have happened is forgotten.",
        says: "Lapsed for three years was answered Acquired, expected Mismatch",
    },
    Mutant {
        id: "M-expiry-frees-unknown",
        kind: claiming(seizing!(NewLife, |found, _claim, now| found.state == State::Unknown && now >= found.expires_at)),
        kills: "CLAIM-012",
        because: "Retention frees an UNKNOWN record.",
        says: "Unknown for three years was answered Acquired, expected Mismatch",
    },
    Mutant {
        id: "M-token-before-state",
        kind: claiming(seizing!(Repeat, |found, claim, _now| {
            found.token == claim.token() && found.fingerprint == *claim.fingerprint() && is_finished(found)
        })),
        kills: "CLAIM-013",
        because: "The token is looked at before the state: a late duplicate runs a finished operation again.",
        says: "late duplicate of the finished attempt's was answered Acquired",
    },
    Mutant {
        id: "M-silent-attempt-is-held",
        kind: claiming(|found, claim, now, rules| {
            rewritten(good(found, claim, now, rules), claim, |record| record.ran_since = Some(1))
        }),
        kills: "CLAIM-014",
        because: "An attempt that never began needs a person, because a reply was lost.",
        says: "of a lapsed attempt that never announced itself was answered Uncertain",
    },
    Mutant {
        id: "M-later-policy-wins",
        kind: claiming(|found, claim, now, rules| {
            let theirs = found.map(|found| Record { on_uncertain: claim.on_uncertain(), ..found.clone() });
            match (good(theirs.as_ref(), claim, now, rules), found) {
                ((Claimed::Acquired(_), Some(record)), Some(found)) if record.attempt > 1 => {
                    granted(Record { on_uncertain: found.on_uncertain, ..record }, claim)
                }
                (other, _) => other,
            }
        }),
        kills: "CLAIM-015",
        because: "The claimant's policy decides, and not the record's.",
        says: "of a record that was claimed with Hold was answered Acquired",
    },
    Mutant {
        id: "M-impatient-takeover",
        kind: claiming(seizing!(TakeOver, |found, claim, now| {
            is_running(found, now)
                && found.token != claim.token()
                && found.fingerprint == *claim.fingerprint()
                && found.lease_until.since(now) < Duration::from_secs(90)
        })),
        kills: "LEASE-001",
        because: "A running lease is taken over near its end, \"for clock skew\".",
        says: "shortly before the lease ends was answered Acquired",
    },
    Mutant {
        id: "M-lapsed-never-taken-over",
        kind: claiming(|found, claim, now, rules| match found {
            Some(found) if is_lapsed(found, now) && found.token != claim.token() => {
                (Claimed::InFlight { retry_after: Duration::from_secs(1) }, None)
            }
            found => good(found, claim, now, rules),
        }),
        kills: "LEASE-002",
        because: "A lapsed record is in flight for ever.",
        says: "shortly after the lease has ended was answered InFlight",
    },
    Mutant {
        id: "M-check-yield-act",
        kind: Kind::Model(Logic { write: Write::ClaimAfterYielding, ..Logic::GOOD }),
        kills: "LEASE-003",
        because: "The takeover is decided, and written later without looking again: two winners.",
        says: "contenders took over one lapsed lease",
    },
    Mutant {
        id: "M-lease-end-frees-finished",
        kind: claiming(seizing!(NewLife, |found, _claim, now| is_finished(found) && now >= found.lease_until)),
        kills: "LEASE-004",
        because: "One time for lock and answer.",
        says: "of a finished record whose lease has ended was answered Acquired",
    },
    Mutant {
        id: "M-whole-seconds",
        kind: claiming(|found, claim, now, rules| {
            rewritten(good(found, claim, now, rules), claim, |record| {
                let micros = record.lease_until.as_micros();
                record.lease_until = StoreTime::from_micros(micros - micros % 1_000_000);
            })
        }),
        kills: "LEASE-005",
        because: "Times are cut to whole seconds.",
        says: "the declared resolution is",
    },
    Mutant {
        id: "M-huge-lease-overflows",
        kind: claiming(|found, claim, now, rules| {
            rewritten(good(found, claim, now, rules), claim, |record| {
                if claim.lease() == Span::MAX {
                    record.lease_until = StoreTime::from_micros(1);
                }
            })
        }),
        kills: "LEASE-006",
        because: "The longest lease overflows into the past.",
        says: "a lease of 3153600000s runs for",
    },
    Mutant {
        id: "M-lapsed-needs-a-person",
        kind: claiming(|found, claim, now, rules| match (good(found, claim, now, rules), found) {
            ((Claimed::Acquired(_), Some(record)), Some(found)) if record.attempt > found.attempt => {
                let since = found.lease_until;
                let (attempt, checkpoint, evidence) = (found.attempt, None, None);
                (Claimed::Uncertain(Uncertain { attempt, since, checkpoint, evidence }), None)
            }
            (other, _) => other,
        }),
        kills: "LEASE-007",
        because: "Every crash needs a person, under TakeOver too.",
        says: "of an identity whose owner died, after its lease was answered Uncertain",
    },
    Mutant {
        id: "M-age-frees-held",
        kind: claiming(seizing!(TakeOver, |found, claim, now| {
            is_lapsed(found, now)
                && found.fingerprint == *claim.fingerprint()
                && now.since(found.lease_until) > Duration::from_secs(365 * 86_400)
        })),
        kills: "LEASE-008",
        because: "A held record is run again once it is old enough.",
        says: "of a lapsed record under Hold was answered Acquired",
    },
    Mutant {
        id: "M-fence-starts-anew",
        kind: claiming(|found, claim, now, rules| match found {
            Some(found) if found.state == State::Released => {
                rewritten(good(Some(found), claim, now, rules), claim, |record| record.fence = Fence::new(1))
            }
            found => good(found, claim, now, rules),
        }),
        kills: "RELEASE-004",
        because: "The fence restarts with every life.",
        says: "is not above the one before",
    },
    Mutant {
        id: "M-fence-constant",
        kind: claiming(|found, claim, now, rules| {
            let old = found.map(|found| found.fence);
            rewritten(good(found, claim, now, rules), claim, |record| record.fence = old.unwrap_or(record.fence))
        }),
        kills: "FENCE-001",
        because: "A takeover keeps the fence.",
        says: "do not grow",
    },
    Mutant {
        id: "M-fence-from-coarse-clock",
        kind: claiming(|found, claim, now, rules| {
            rewritten(good(found, claim, now, rules), claim, |record| {
                if found.is_none_or(|found| found.token != record.token) {
                    record.fence = Fence::new(now.as_micros() / 3_600_000_000);
                }
            })
        }),
        kills: "FENCE-007",
        because: "The fence is the wall clock alone, so that two quick grants share one.",
        says: "two grants of one identity have fence",
    },
    Mutant {
        id: "M-takeover-loses-checkpoint",
        kind: claiming(|found, claim, now, rules| {
            rewritten(good(found, claim, now, rules), claim, |record| record.checkpoint = None)
        }),
        kills: "CHECKPOINT-001",
        because: "The next attempt does not learn how far the last one came.",
        says: "the next attempt was handed None",
    },
    Mutant {
        id: "M-spent-ignored",
        kind: claiming(|found, claim, now, rules| good(found, claim, now, &Rules { remember: None, ..*rules })),
        kills: "SPENT-001",
        because: "The remembered time is ignored.",
        says: "of a remembered record was answered Acquired, expected Spent",
    },
    Mutant {
        id: "M-spent-before-fingerprint",
        kind: claiming(|found, claim, now, rules| {
            let same = found.map(|found| Record { fingerprint: *claim.fingerprint(), ..found.clone() });
            match good(same.as_ref(), claim, now, rules) {
                answer @ (Claimed::Spent(_), _) => answer,
                _ => good(found, claim, now, rules),
            }
        }),
        kills: "SPENT-002",
        because: "A remembered record answers any request.",
        says: "of a remembered record was answered Spent, expected Mismatch",
    },
    Mutant {
        id: "M-spent-for-ever",
        kind: claiming(|found, claim, now, rules| {
            let remember = rules.remember.map(|_| Span::MAX);
            good(found, claim, now, &Rules { remember, ..*rules })
        }),
        kills: "SPENT-003",
        because: "What is remembered is never forgotten.",
        says: "after the remembered time was answered",
    },
    Mutant {
        id: "M-replay-counts",
        kind: claiming(|found, claim, now, rules| match (good(found, claim, now, rules), found) {
            ((answer @ Claimed::Replay(_), None), Some(found)) => {
                (answer, Some(Record { attempt: found.attempt + 1, ..found.clone() }))
            }
            (other, _) => other,
        }),
        kills: "REPLAY-004",
        because: "A replay writes into the record.",
        says: "a replay changed the record",
    },
];
