//! TX-003: a COMMIT whose request or reply is lost.

use idem_core::{Completed, End, ErrorKind, Identity, State};

use crate::Profile;
use crate::fault::{Fault, Held, Line, Proxy};
use crate::harness::{Entry, Hook, Reach, Script, Scripted, pause};
use crate::probe;
use crate::trial::{Outcome, Stage, Stop, Trial, ensure, ensure_eq};

/// How often a transaction is played again that was not answered for certain.
const TRIES: usize = 10;

/// How the caller joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joins {
    Settle,
    Once,
}

/// One transaction of the caller's, which may be played again.
pub(super) struct Play<'a> {
    t: &'a Trial,
    identity: Identity,
    lease: Option<idem_core::Lease>,
    end: End,
    row: String,
    reach: Reach,
}

/// Everything that comes after the rows is cut, at each of its round trips: the end, and COMMIT.
pub(super) async fn commit(t: &Trial) -> Outcome {
    if !t.declaration().claims(Profile::Networked) {
        // Nothing lies between the caller and the database: there is no reply that could be lost.
        return Err(Stop::NotApplicable(probe::denial(t, Profile::Networked).await?));
    }
    t.store().await?;
    let proxy = t.proxy().await?;
    let mut effects = 0;
    for joins in [Joins::Settle, Joins::Once] {
        let round_trips = count(t, &proxy, joins).await?;
        for fault in [Fault::HoldRequest, Fault::HoldReply] {
            for nth in 1..=round_trips {
                effects += usize::from(cut(t, &proxy, joins, fault, nth).await?);
            }
        }
    }
    // One for each way to join: the reply of its COMMIT.
    if effects < 2 {
        return Err(Stop::Error(format!(
            "{effects} lost replies had a commit behind them, and there are two at least"
        )));
    }
    Ok(())
}

/// How many round trips come after the rows.
async fn count(t: &Trial, proxy: &Proxy, joins: Joins) -> Result<u64, Stop> {
    let play = Play::new(t, joins, Reach::Through(proxy.address())).await?;
    let mut before = 0;
    let played = play.paused(async || before = proxy.requests()).await?;
    let after = proxy.requests();
    ensure!(matches!(played, Scripted::Committed), "{joins:?} without a fault ended as {played:?}");
    if after == before {
        return Err(Stop::Error("the harness does not play transactions through the proxy's address".into()));
    }
    // The last words of connections that are closed are among them: a fault at those meets a transaction that is over.
    Ok(after - before)
}

/// Loses one request, or one reply. Says whether the commit was seen while its reply was on its way.
async fn cut(t: &Trial, proxy: &Proxy, joins: Joins, fault: Fault, nth: u64) -> Result<bool, Stop> {
    let play = Play::new(t, joins, Reach::Through(proxy.address())).await?;
    let what = format!("{joins:?}, {fault:?} {nth}");
    let mut window = None;
    let mut seen = false;
    // Armed in the pause, so that only what comes after the rows is counted.
    let (armed, is_armed) = tokio::sync::oneshot::channel();
    let call = play.paused(async || {
        let _ = armed.send(proxy.arm(fault, nth, Line::Pass));
    });
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    let call = async {
        let played = call.await;
        drop(over);
        played
    };
    let watch = async {
        let Ok(armed) = is_armed.await else { return Ok(()) };
        let meet = async |held: Held| {
            let row = t.row(&play.identity).await;
            held.cut();
            row
        };
        let (_, met) = armed.during(is_over, meet).await;
        window = met;
        Ok::<(), Stop>(())
    };
    let (played, watched) = tokio::join!(call, watch);
    watched?;
    let played = played?;
    if let Some(row) = window {
        seen = fault == Fault::HoldReply && row?.is_some_and(|row| row.recorded.as_ref() == play.end.recorded());
    } else {
        ensure!(matches!(played, Scripted::Committed), "{what}: met nothing, and ended as {played:?}");
    }
    match &played {
        Scripted::Committed => {}
        Scripted::Refused(error) => {
            let kind = error.kind();
            ensure!(error.is_retryable(), "{what}: is said not to be worth another try: {error}");
            ensure!(
                !seen || kind == ErrorKind::Indeterminate,
                "{what}: it was committed, and the caller was told {kind:?}"
            );
            // Who is told so starts again from its beginning, without a look.
            ensure!(
                kind != ErrorKind::TransactionAborted || play.rows().await? == 0,
                "{what}: the caller was told {kind:?}, and the rows are there"
            );
        }
        other => return Err(Stop::Fail(format!("{what}: ended as {other:?}"))),
    }
    play.to_the_end(played, &what).await?;
    Ok(seen)
}

impl<'a> Play<'a> {
    pub(super) async fn new(t: &'a Trial, joins: Joins, reach: Reach) -> Result<Play<'a>, Stop> {
        let (identity, lease) = match joins {
            Joins::Settle => {
                let (identity, grant) = t.staged(Stage::Processing).await?;
                (identity, Some(grant.lease))
            }
            Joins::Once => (t.identity()?, None),
        };
        let row = format!("row of {}", identity.key.as_str());
        Ok(Play { t, identity, lease, end: t.succeeded(), row, reach })
    }

    pub(super) fn script(&self) -> Result<Script, Stop> {
        let end = self.end.clone();
        Ok(Script::new(match &self.lease {
            Some(lease) => Entry::Settle { lease: lease.clone(), end },
            None => Entry::Once { claim: self.t.usual(&self.identity)?, end },
        })
        .row(self.row.clone()))
    }

    /// Plays it through the proxy, and does something between the rows and the end.
    async fn paused(&self, between: impl AsyncFnOnce()) -> Result<Scripted, Stop> {
        let (mut rule, script) = pause();
        let script = self.script()?.pause(script).reaching(self.reach);
        let transaction = self.t.harness().transaction(self.t.namespace(), script);
        let between = async {
            let reached = rule.reached().await;
            if reached {
                between().await;
                rule.go_on();
            }
            reached
        };
        let (played, reached) = tokio::join!(transaction, between);
        let played = self.t.hooked(Hook::Transaction, played)?;
        ensure!(reached, "the transaction ended before its end, as {played:?}");
        Ok(played)
    }

    /// Whatever the caller was told, rows and record agree; and when it is played again they are there, once.
    pub(super) async fn to_the_end(&self, mut played: Scripted, what: &str) -> Outcome {
        let t = self.t;
        for _ in 0..TRIES {
            let there = self.rows().await?;
            let row = t.row(&self.identity).await?;
            let ended = row.as_ref().is_some_and(|row| row.state == State::Succeeded);
            let answered = matches!(
                played,
                Scripted::Committed
                    | Scripted::NotSettled(Completed::AlreadyStored)
                    | Scripted::NotFirst { .. }
                    | Scripted::Refused(_)
            );
            ensure!(answered, "{what}: played again it ended as {played:?}");
            if let Scripted::Refused(_) = played {
                // The server may still be at it: only that both are there, or neither, holds at each moment.
                let script = self.script()?;
                played = t.hooked(Hook::Transaction, t.harness().transaction(t.namespace(), script).await)?;
                continue;
            }
            if matches!(played, Scripted::NotFirst { .. }) && !ended {
                // The first is still open at the server.
                let script = self.script()?;
                played = t.hooked(Hook::Transaction, t.harness().transaction(t.namespace(), script).await)?;
                continue;
            }
            ensure!(ended, "{what}: it ended as {played:?}, and the record is {row:?}");
            ensure_eq!(there, 1, "{what}: how often its business row is there");
            let record = t.record(&self.identity).await?;
            ensure!(record.recorded.as_ref() == self.end.recorded(), "{what}: another response was recorded");
            return Ok(());
        }
        Err(Stop::Fail(format!("{what}: {TRIES} times played again, it never got to its end: {played:?}")))
    }

    /// By which way it reaches the server.
    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    /// The business row is there exactly when the record says that it ended. Both are read until they agree or it is clear
    /// that they never will: the server may be at the commit between the two readings.
    pub(super) async fn agrees(&self, what: &str) -> Outcome {
        let mut seen = (0, false);
        for _ in 0..TRIES {
            let before = self.rows().await?;
            let ended = self.t.row(&self.identity).await?.is_some_and(|row| row.state == State::Succeeded);
            seen = (self.rows().await?, ended);
            if seen.0 == before && (seen.0 == 1) == ended {
                return Ok(());
            }
        }
        Err(Stop::Fail(format!("{what}: {} business rows are there, and the record has ended: {}", seen.0, seen.1)))
    }

    async fn rows(&self) -> Result<usize, Stop> {
        Ok(self.t.rows().await?.iter().filter(|row| **row == self.row).count())
    }
}
