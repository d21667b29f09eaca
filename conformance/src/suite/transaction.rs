//! TX: the record joins the caller's own transaction.

mod conflict;
mod crash;
mod nested;
mod unanswered;

use std::time::{Duration, Instant};

use idem_core::{Claimed, Completed, State};

use crate::harness::{Entry, Finish, Hook, HookError, How, Isolation, Script, Scripted, pause};
use crate::rules::{Profile, Rule, run};
use crate::trial::{Outcome, Stage, Stop, Trial, ensure, ensure_eq};

const TRANSACTIONAL: Rule = Rule::of(Profile::Transactional);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "TX-001",
        slug: "settle_commits_rows_and_record_together",
        clause: "J1",
        text: "After settle and commit the business rows and the finished record are there.",
        why: "A crash between two commits loses one of them.",
        check: run!(settle_commits),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-002",
        slug: "settle_rolled_back_leaves_processing",
        clause: "J1",
        text: "After a rollback neither the business rows nor the end are there, and the record is PROCESSING as before.",
        why: "An end without its rows is replayed for ever.",
        check: run!(settle_rolls_back),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-003",
        slug: "lost_reply_of_commit_is_resolved",
        clause: "J1, X4",
        text: "A lost reply of COMMIT is resolved by reading the record: never half, never twice.",
        why: "The caller cannot know by itself which of the two happened.",
        check: run!(unanswered::commit),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-004",
        slug: "once_crashed_leaves_nothing",
        clause: "J2",
        text: "A crash inside a one-transaction claim leaves neither rows nor record, and the identity is free.",
        why: "A claim that outlives its transaction blocks the redelivery of the message.",
        check: run!(once_crashes),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-005",
        slug: "duplicate_leaves_the_transaction_usable",
        clause: "J3",
        text: "At READ COMMITTED a duplicate leaves the caller's transaction usable: its rows are committed.",
        why: "A unique violation poisons the whole transaction of a caller who did nothing wrong.",
        check: run!(usable_after_duplicate),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-006",
        slug: "serialization_failure_is_transaction_aborted",
        clause: "J3",
        text: "A transaction whose snapshot is out of date commits wholly, or is TransactionAborted and leaves nothing.",
        why: "The caller has to start again from its beginning, and has to be told so.",
        check: run!(conflict::snapshot),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-007",
        slug: "claimer_behind_an_open_claim_is_bounded",
        clause: "J4, C11",
        text: "A second claimer behind an open one-transaction claim is answered in time, is not granted, and sees its end afterwards.",
        why: "A silent client with an open transaction must not block everybody behind it.",
        check: run!(claimer_is_bounded),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-008",
        slug: "savepoints_are_respected",
        clause: "J3",
        text: "A rollback to a savepoint before the entry undoes the record with the rows.",
        why: "Frameworks nest transactions without saying so.",
        check: run!(nested::savepoint),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-009",
        slug: "rows_and_record_agree_after_any_crash",
        clause: "J1, J2",
        text: "Business rows and record agree after a crash at any point.",
        why: "This is what the joined transaction is for.",
        check: run!(crash::anywhere),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-010",
        slug: "heartbeats_do_not_deadlock_with_settle",
        clause: "J1",
        text: "At READ COMMITTED a heartbeat that meets a settle does not deadlock with it, and does not abort it.",
        why: "A long transaction is renewed in its middle; with snapshots it has to keep its heartbeats still meanwhile.",
        check: run!(conflict::heartbeat),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-011",
        slug: "settle_that_is_not_stored_commits_nothing",
        clause: "F5b",
        text: "Settle of an attempt that is finished already, or lost, commits no business row.",
        why: "Repeating a settle whose reply was lost must not commit the rows a second time.",
        check: run!(not_stored_commits_nothing),
        ..TRANSACTIONAL
    },
    Rule {
        id: "TX-012",
        slug: "once_runs_once",
        clause: "J2",
        text: "Once commits claim, rows and end together; a second delivery is not first, and its response is the first one's.",
        why: "Queues deliver twice.",
        check: run!(once_runs_once),
        ..TRANSACTIONAL
    },
];

impl Trial {
    async fn play(&self, script: Script) -> Result<Scripted, Stop> {
        self.hooked(Hook::Transaction, self.harness().transaction(self.namespace(), script).await)
    }

    async fn rows(&self) -> Result<Vec<String>, Stop> {
        let mut rows = self.hooked(Hook::BusinessRows, self.harness().business_rows(self.namespace()).await)?;
        rows.sort();
        Ok(rows)
    }
}

async fn settle_commits(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for (end, state) in [(t.succeeded(), State::Succeeded), (t.failed(), State::Failed)] {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        let before = t.rows().await?.len();
        let entry = Entry::Settle { lease: grant.lease, end: end.clone() };
        let played = t.play(Script::new(entry).row("debit").row("credit")).await?;
        ensure!(matches!(played, Scripted::Committed), "settle and commit ended as {played:?}");
        ensure_eq!(t.rows().await?.len(), before + 2, "how many business rows are there after settle and commit");
        let record = t.record(&identity).await?;
        ensure_eq!(record.state, state, "the state after settle and commit");
        ensure!(record.recorded.as_ref() == end.recorded(), "settle recorded another response");
        store.replay(&t.usual(&identity)?, "after settle and commit").await?;
    }
    Ok(())
}

async fn settle_rolls_back(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for finish in [Finish::Rollback, Finish::Crash] {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        let before = t.record(&identity).await?;
        let entry = Entry::Settle { lease: grant.lease.clone(), end: t.succeeded() };
        let played = t.play(Script::new(entry).row("debit").finish(finish)).await?;
        ensure!(matches!(played, Scripted::Undone), "settle and {finish:?} ended as {played:?}");
        ensure_eq!(t.rows().await?, Vec::<String>::new(), "the business rows after settle and {finish:?}");
        t.unchanged(&before, "a settle that was not committed").await?;
        store.in_flight(&t.usual(&identity)?, "after a settle that was not committed").await?;
        store.store_end(&grant.lease, t.succeeded()).await?;
    }
    Ok(())
}

async fn once_crashes(t: &Trial) -> Outcome {
    for finish in [Finish::Crash, Finish::Rollback] {
        let identity = t.identity()?;
        let entry = Entry::Once { claim: t.usual(&identity)?, end: t.succeeded() };
        let played = t.play(Script::new(entry).row("received").finish(finish)).await?;
        ensure!(matches!(played, Scripted::Undone), "once and {finish:?} ended as {played:?}");
        ensure_eq!(t.rows().await?, Vec::<String>::new(), "the business rows after once and {finish:?}");
        ensure_eq!(t.read(&identity).await?, None, "the record after once and {finish:?}");
        t.acquire(&identity).await?;
    }
    Ok(())
}

async fn usable_after_duplicate(t: &Trial) -> Outcome {
    let (identity, _) = t.staged(Stage::Processing).await?;
    let entry = Entry::Once { claim: t.usual(&identity)?, end: t.succeeded() };
    let script = Script::new(entry).row("goes on").isolation(Isolation::ReadCommitted);
    if !t.declaration().isolation_levels.contains(&Isolation::ReadCommitted) {
        return match t.harness().transaction(t.namespace(), script).await {
            Err(HookError::Unsupported) => Err(Stop::NotApplicable(
                "READ COMMITTED is not declared; probe: the harness plays no transaction at this level".into(),
            )),
            other => Err(Stop::Fail(format!("READ COMMITTED is not declared, and yet a transaction ran: {other:?}"))),
        };
    }
    let before = t.record(&identity).await?;
    let played = t.play(script).await?;
    ensure!(
        matches!(played, Scripted::NotFirst { usable: true }),
        "once of a running attempt's key ended as {played:?}"
    );
    ensure_eq!(t.rows().await?, ["goes on"], "the business rows of a transaction that met a duplicate");
    t.unchanged(&before, "once of a running attempt's key").await
}

/// The deadline of a claim behind an open transaction, and how much longer a slow machine may take.
const DEADLINE: Duration = Duration::from_secs(2);
const SLACK: Duration = Duration::from_secs(8);

/// A claim behind an open one-transaction claim is bounded; afterwards it is as the transaction left it.
pub(super) async fn behind_an_open_claim(t: &Trial, finish: Finish) -> Outcome {
    t.store().await?;
    let claimer = t.open(&How::second().within(DEADLINE)).await?;
    let identity = t.identity()?;
    let (mut rule, script) = pause();
    let entry = Entry::Once { claim: t.usual(&identity)?, end: t.succeeded() };
    let script = Script::new(entry).row("received").pause(script).finish(finish);
    let transaction = t.harness().transaction(t.namespace(), script);
    let asked = t.usual(&identity)?;
    let behind = async {
        ensure!(rule.reached().await, "the transaction ended before its pause");
        let began = Instant::now();
        let answer = tokio::time::timeout(DEADLINE + SLACK, claimer.raw().claim(&asked)).await;
        let took = began.elapsed();
        rule.go_on();
        match answer {
            Ok(Ok(Claimed::InFlight { .. })) => Ok(t.usual(&identity)?),
            // What it sent may arrive yet: only the same token tells (clause X4).
            Ok(Err(error)) if error.is_retryable() => Ok(asked.clone()),
            Ok(other) => Err(Stop::Fail(format!("a claim behind an open claim was answered {other:?}"))),
            Err(_) => Err(Stop::Fail(format!("a claim behind an open claim did not end, after {took:?}"))),
        }
    };
    let (played, behind) = tokio::join!(transaction, behind);
    t.hooked(Hook::Transaction, played)?;
    let claim = behind?;
    match finish {
        Finish::Commit => claimer.replay(&claim, "after the open claim was committed").await.map(|_| ()),
        Finish::Rollback | Finish::Crash | Finish::Unnest => {
            claimer.acquire(&claim, "after the open claim was undone").await.map(|_| ())
        }
    }
}

async fn claimer_is_bounded(t: &Trial) -> Outcome {
    behind_an_open_claim(t, Finish::Commit).await
}

async fn not_stored_commits_nothing(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Succeeded, Stage::Released, Stage::Lapsed] {
        let (identity, grant) = t.staged(stage).await?;
        if stage == Stage::Lapsed {
            store.acquire(&t.usual(&identity)?, "of a lapsed record").await?;
        }
        let before = t.record(&identity).await?;
        let entry = Entry::Settle { lease: grant.lease, end: t.succeeded() };
        let played = t.play(Script::new(entry).row("twice")).await?;
        let expected = if stage == Stage::Succeeded { Completed::AlreadyStored } else { Completed::Lost };
        ensure!(
            matches!(played, Scripted::NotSettled(answer) if answer == expected),
            "settle of an attempt that is {stage:?} ended as {played:?}, expected {expected:?}"
        );
        ensure_eq!(t.rows().await?, Vec::<String>::new(), "the business rows of a settle that was not stored");
        t.unchanged(&before, "a settle that was not stored").await?;
    }
    Ok(())
}

async fn once_runs_once(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let end = t.succeeded();
    let script = |row: &str| -> Result<Script, Stop> {
        Ok(Script::new(Entry::Once { claim: t.usual(&identity)?, end: end.clone() }).row(row))
    };
    let played = t.play(script("first")?).await?;
    ensure!(matches!(played, Scripted::Committed), "the first delivery ended as {played:?}");
    let before = t.record(&identity).await?;
    ensure_eq!(before.state, State::Succeeded, "the state after once");
    let played = t.play(script("second")?).await?;
    ensure!(matches!(played, Scripted::NotFirst { .. }), "the second delivery ended as {played:?}");
    let rows = t.rows().await?;
    ensure!(rows.iter().filter(|row| *row == "first").count() == 1, "the first delivery's rows are {rows:?}");
    t.unchanged(&before, "the second delivery").await?;
    let replay = store.replay(&t.usual(&identity)?, "after once").await?;
    ensure!(Some(&replay.recorded) == end.recorded(), "once recorded another response");
    Ok(())
}
