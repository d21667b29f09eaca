//! TX-006 and TX-010: others work on the record while a transaction is open.

use idem_core::{Claimed, Error, ErrorKind, Renew, Renewed, State};

use super::DEADLINE;
use crate::harness::{Entry, Hook, HookError, How, Isolation, Script, Scripted, pause};
use crate::trial::{Outcome, SLACK, Stage, Stop, Trial, ensure, ensure_eq};

const ROW: &str = "late";

/// The levels that work on a snapshot, as far as they are declared.
fn with_snapshots(t: &Trial) -> Vec<Isolation> {
    let levels = [Isolation::RepeatableRead, Isolation::Serializable];
    levels.into_iter().filter(|level| t.declaration().isolation_levels.contains(level)).collect()
}

/// A transaction takes its snapshot, and the record changes before it gets there.
pub(super) async fn snapshot(t: &Trial) -> Outcome {
    let levels = with_snapshots(t);
    if levels.is_empty() {
        return not_applicable(t).await;
    }
    for level in levels {
        settle_after_renewal(t, level).await?;
        once_after_a_claim(t, level).await?;
    }
    Ok(())
}

/// No level with a snapshot is declared: then no transaction runs at one.
async fn not_applicable(t: &Trial) -> Outcome {
    let (_, grant) = t.staged(Stage::Processing).await?;
    let entry = Entry::Settle { lease: grant.lease, end: t.succeeded() };
    let script = Script::new(entry).isolation(Isolation::Serializable);
    match t.harness().transaction(t.namespace(), script.pause_first(pause().1)).await {
        Err(HookError::Unsupported) => Err(Stop::NotApplicable(
            "no isolation level with snapshots is declared; probe: the harness lets nothing come before the entry"
                .into(),
        )),
        other => Err(Stop::Fail(format!("no isolation level is declared, and yet a transaction ran: {other:?}"))),
    }
}

async fn settle_after_renewal(t: &Trial, level: Isolation) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Processing).await?;
    let before = t.rows().await?.len();
    let entry = || Entry::Settle { lease: grant.lease.clone(), end: t.succeeded() };
    let played = interrupted(t, Script::new(entry()).row(ROW).isolation(level), async || {
        store.raw().renew(&Renew::new(grant.lease.clone())).await.map(|renewed| renewed == Renewed::Held)
    })
    .await?;
    let record = t.record(&identity).await?;
    let rows = t.rows().await?.len() - before;
    match played {
        Scripted::Committed => {
            ensure!(
                record.state == State::Succeeded && rows == 1,
                "{level:?}: committed, with {rows} rows and {record:?}"
            );
        }
        Scripted::Refused(error) => {
            aborted(&error, level)?;
            ensure!(
                record.state == State::Processing && rows == 0,
                "{level:?}: aborted, with {rows} rows and {record:?}"
            );
            let again = t.play(Script::new(entry()).row(ROW).isolation(level)).await?;
            ensure!(matches!(again, Scripted::Committed), "{level:?}: from its beginning again, it ended as {again:?}");
        }
        other => return Err(Stop::Fail(format!("{level:?}: settle after a renewal ended as {other:?}"))),
    }
    Ok(())
}

async fn once_after_a_claim(t: &Trial, level: Isolation) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let before = t.rows().await?;
    let script = Script::new(Entry::Once { claim: t.usual(&identity)?, end: t.succeeded() }).row(ROW).isolation(level);
    let theirs = t.usual(&identity)?;
    let played = interrupted(t, script, async || {
        store.raw().claim(&theirs).await.map(|answer| matches!(answer, Claimed::Acquired(_)))
    })
    .await?;
    match played {
        // The caller's own transaction may go on, with its row.
        Scripted::NotFirst { .. } => {}
        Scripted::Refused(error) => {
            aborted(&error, level)?;
            ensure_eq!(t.rows().await?, before, "the business rows after an aborted once");
        }
        other => {
            return Err(Stop::Fail(format!("{level:?}: once of a key that another has claimed ended as {other:?}")));
        }
    }
    ensure_eq!(t.record(&identity).await?.token, theirs.token(), "whose the record is");
    Ok(())
}

/// Plays a script, and does something between its snapshot and its entry, which must succeed.
async fn interrupted(
    t: &Trial,
    script: Script,
    between: impl AsyncFnOnce() -> Result<bool, Error>,
) -> Result<Scripted, Stop> {
    let (mut rule, first) = pause();
    let transaction = t.harness().transaction(t.namespace(), script.pause_first(first));
    let between = async {
        ensure!(rule.reached().await, "the transaction ended before its entry");
        let done = between().await;
        rule.go_on();
        match done {
            Ok(true) => Ok(()),
            other => Err(Stop::Error(format!("what was to come in between ended as {other:?}"))),
        }
    };
    let (played, between) = tokio::join!(transaction, between);
    between?;
    t.hooked(Hook::Transaction, played)
}

fn aborted(error: &Error, level: Isolation) -> Outcome {
    ensure!(
        error.kind() == ErrorKind::TransactionAborted && error.is_retryable(),
        "{level:?}: a conflict is {:?}, and not an aborted transaction: {error}",
        error.kind()
    );
    Ok(())
}

/// A renewal while a settle is open.
pub(super) async fn heartbeat(t: &Trial) -> Outcome {
    t.store().await?;
    let owner = t.open(&How::second().within(DEADLINE)).await?;
    let (identity, grant) = t.staged(Stage::Processing).await?;
    let (mut rule, paused) = pause();
    let mut script =
        Script::new(Entry::Settle { lease: grant.lease.clone(), end: t.succeeded() }).row(ROW).pause(paused);
    if t.declaration().isolation_levels.contains(&Isolation::ReadCommitted) {
        script = script.isolation(Isolation::ReadCommitted);
    }
    let transaction = t.harness().transaction(t.namespace(), script);
    let beat = async {
        ensure!(rule.reached().await, "the transaction ended before its pause");
        let renew = Renew::new(grant.lease.clone());
        let answer = tokio::time::timeout(DEADLINE + SLACK, owner.raw().renew(&renew)).await;
        rule.go_on();
        match answer {
            Ok(Ok(Renewed::Held)) => Ok(()),
            Ok(Err(error)) if error.is_retryable() => Ok(()),
            Ok(other) => Err(Stop::Fail(format!("a heartbeat that met a settle was answered {other:?}"))),
            Err(_) => Err(Stop::Fail("a heartbeat that met a settle did not end".into())),
        }
    };
    let (played, beat) = tokio::join!(transaction, beat);
    beat?;
    let played = t.hooked(Hook::Transaction, played)?;
    ensure!(matches!(played, Scripted::Committed), "a settle that met a heartbeat ended as {played:?}");
    ensure_eq!(t.record(&identity).await?.state, State::Succeeded, "the state after a settle that met a heartbeat");
    ensure_eq!(t.rows().await?, [ROW], "the business rows after a settle that met a heartbeat");
    Ok(())
}
