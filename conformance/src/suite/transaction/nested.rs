//! TX-008: the entry is nested in a transaction of the application's.

use idem_core::State;

use crate::harness::{Entry, Finish, HookError, OUTER, Script, Scripted};
use crate::trial::{Outcome, Stage, Stop, Trial, ensure, ensure_eq};

/// A rollback to the savepoint before the entry takes the entry back, and no more.
pub(super) async fn savepoint(t: &Trial) -> Outcome {
    let (identity, grant) = t.staged(Stage::Processing).await?;
    let before = t.record(&identity).await?;
    let entry = Entry::Settle { lease: grant.lease.clone(), end: t.succeeded() };
    let script = Script::new(entry).row("nested").finish(Finish::Unnest);
    if t.declaration().isolation_levels.is_empty() {
        return match t.harness().transaction(t.namespace(), script).await {
            Err(HookError::Unsupported) => Err(Stop::NotApplicable(
                "the transaction is the store's own; probe: the harness lets nothing come before the entry".into(),
            )),
            other => Err(Stop::Fail(format!("no isolation level is declared, and yet a transaction ran: {other:?}"))),
        };
    }
    let played = t.play(script).await?;
    ensure!(matches!(played, Scripted::Undone), "a settle that was taken back ended as {played:?}");
    ensure_eq!(t.rows().await?, [OUTER], "the business rows around a settle that was taken back");
    t.unchanged(&before, "a settle that was taken back").await?;
    t.store().await?.store_end(&grant.lease, t.succeeded()).await?;
    ensure_eq!(t.record(&identity).await?.state, State::Succeeded, "the state after all");

    let identity = t.identity()?;
    let entry = Entry::Once { claim: t.usual(&identity)?, end: t.succeeded() };
    let played = t.play(Script::new(entry).row("nested").finish(Finish::Unnest)).await?;
    // What was claimed is taken back, so there is nothing that could be ended.
    ensure!(matches!(played, Scripted::Refused(_)), "a claim that was taken back ended as {played:?}");
    ensure_eq!(t.rows().await?, [OUTER], "the business rows around a claim that was taken back");
    ensure_eq!(t.read(&identity).await?, None, "the record of a claim that was taken back");
    t.acquire(&identity).await?;
    Ok(())
}
