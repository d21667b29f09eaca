//! Requests and replies that are lost, at every round trip of a call.

use idem_core::{Error, ErrorKind};
use tokio::time::error::Elapsed;

use crate::fault::{Fault, Held, Line, Proxy};
use crate::suite::call::{Answer, Call, Kind, finish};
use crate::trial::{DEADLINE, Handle, Outcome, SLACK, Stage, Stop, Trial, ensure};

/// No call has more round trips.
pub(super) const MOST: u64 = 64;

/// What is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// The server never sees the request.
    Request,
    /// The server has answered, and nobody hears it.
    Reply,
}

/// What the line is like after the cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// Whole: a store that sends the call again finds out by itself.
    Whole,
    /// Down, until the store has given up.
    Down,
}

/// Cuts this kind of call at each of its round trips.
pub(super) async fn at_every_round_trip(t: &Trial, kind: Kind, lost: Lost) -> Outcome {
    let proxy = t.proxy().await?;
    let store = t.through(&proxy).await?;
    let effects = until_its_end(t, &proxy, &store, kind, lost, After::Whole).await?
        + until_its_end(t, &proxy, &store, kind, lost, After::Down).await?;
    seen(kind, lost, effects)
}

/// Every reply from some one on is lost: what is known then, and what a repeat tells (ERR-002).
pub(in crate::suite) async fn replies_lost_for_good(t: &Trial) -> Outcome {
    let proxy = t.proxy().await?;
    let store = t.through(&proxy).await?;
    replay(t, &proxy, &store).await?;
    for kind in [Kind::ClaimOfNothing, Kind::ClaimOfLapsed, Kind::Complete, Kind::Renew, Kind::Release] {
        let effects = until_its_end(t, &proxy, &store, kind, Lost::Reply, After::Down).await?;
        seen(kind, Lost::Reply, effects)?;
    }
    Ok(())
}

/// That no effect was ever seen would mean that no reply was lost that mattered.
fn seen(kind: Kind, lost: Lost, effects: usize) -> Outcome {
    if lost == Lost::Reply && effects == 0 {
        return Err(Stop::Error(format!("no lost reply of a {} had an effect behind it", kind.name())));
    }
    Ok(())
}

/// Cuts round trip after round trip, until the call has no more. Says how often an effect was seen behind a lost reply.
async fn until_its_end(
    t: &Trial,
    proxy: &Proxy,
    store: &Handle,
    kind: Kind,
    lost: Lost,
    after: After,
) -> Result<usize, Stop> {
    let mut effects = 0;
    for nth in 1..=MOST {
        match once(t, proxy, store, kind, lost, nth, after).await? {
            Cut::Met { effect } => effects += usize::from(effect),
            Cut::NotTheCalls => {
                t.takes(kind.name(), nth - 1);
                return Ok(effects);
            }
        }
    }
    Err(Stop::Error(format!("a {} has no end, after {MOST} round trips", kind.name())))
}

/// What a cut met.
enum Cut {
    /// A round trip of the call. Was its effect seen, while the reply was on its way?
    Met { effect: bool },
    /// The call has no such round trip.
    NotTheCalls,
}

/// Makes the connection warm, so that the next call has nothing to prepare.
pub(super) async fn warm(t: &Trial, proxy: &Proxy, store: &Handle, kind: Kind) -> Outcome {
    let call = kind.call(t).await?;
    finish(&call, store, "on a line without faults").await?;
    proxy.quiet().await;
    Ok(())
}

/// One cut.
async fn once(
    t: &Trial,
    proxy: &Proxy,
    store: &Handle,
    kind: Kind,
    lost: Lost,
    nth: u64,
    after: After,
) -> Result<Cut, Stop> {
    t.goes_on_afresh();
    warm(t, proxy, store, kind).await?;
    let call = kind.call(t).await?;
    let before = t.row(call.identity()).await?;
    let fault = match lost {
        Lost::Request => Fault::HoldRequest,
        Lost::Reply => Fault::HoldReply,
    };
    let then = match after {
        After::Whole => Line::Pass,
        After::Down => Line::Refuse,
    };
    let seen = async |held: Held| {
        let row = t.row(call.identity()).await;
        held.cut();
        row
    };
    let sent = tokio::time::timeout(DEADLINE + SLACK, call.send(store.raw()));
    let (answer, seen) = proxy.arm(fault, nth, then).during(sent, seen).await;
    let what = format!("a {} that lost the {lost:?} of round trip {nth}", kind.name());
    let Some(seen) = seen else {
        proxy.set(Line::Pass);
        past_the_end(t, &call, answer, nth, &what).await?;
        return Ok(Cut::NotTheCalls);
    };
    let seen = call.is_in(seen?.as_ref()) && lost == Lost::Reply;
    let Ok(answer) = answer else { return Err(Stop::Fail(format!("{what} does not end"))) };
    let row = t.row(call.identity()).await?;
    match answer {
        Ok(answer) => {
            ensure!(call.is_right(&answer), "{what} was answered {answer:?}");
            ensure!(after == After::Whole, "{what} on a line that is down since was answered {answer:?}, by a guess");
            ensure!(call.is_in(row.as_ref()), "{what} was answered {answer:?}, and the record does not show it");
        }
        Err(error) => {
            honest(&error, &what, seen)?;
            if lost == Lost::Request && nth == 1 {
                ensure!(row == before, "{what} never got to the server, and the record changed");
            }
        }
    }
    proxy.set(Line::Pass);
    finish(&call, store, &format!("again, after {what}")).await?;
    let row = t.record(call.identity()).await?;
    ensure!(call.is_in(Some(&row)), "{what} was sent again and answered, and the record does not show it: {row:?}");
    if let Call::Claim(_) = call {
        let attempts = before.filter(|_| kind == Kind::ClaimOfLapsed).map_or(1, |before| before.attempt + 1);
        ensure!(row.attempt == attempts, "{what} and its repeats are attempt {}, expected {attempts}", row.attempt);
    }
    Ok(Cut::Met { effect: seen })
}

/// An error that says no more than is known.
pub(in crate::suite) fn honest(error: &Error, what: &str, applied: bool) -> Outcome {
    let kind = error.kind();
    ensure!(error.is_retryable(), "{what} is said not to be worth another try: {error}");
    match kind {
        ErrorKind::Indeterminate => Ok(()),
        ErrorKind::Unavailable if !applied => Ok(()),
        _ => Err(Stop::Fail(format!("{what} is {kind:?}, as if nothing had been applied: expected Indeterminate"))),
    }
}

/// The call ended without the round trip that was to be cut: it was answered, and is in the record.
pub(super) async fn past_the_end(
    t: &Trial,
    call: &Call,
    answer: Result<Result<Answer, Error>, Elapsed>,
    nth: u64,
    what: &str,
) -> Outcome {
    if nth == 1 {
        return Err(Stop::Error("the harness does not open handles through the proxy's address".into()));
    }
    match answer {
        Err(_) => Err(Stop::Fail(format!("{what} does not end"))),
        Ok(Err(error)) => Err(Stop::Inconclusive(format!("{what} ended before it was cut: {error}"))),
        Ok(Ok(answer)) => {
            ensure!(call.is_right(&answer), "{what} was answered {answer:?}");
            let row = t.row(call.identity()).await?;
            ensure!(call.is_in(row.as_ref()), "{what} was answered {answer:?}, and the record does not show it");
            Ok(())
        }
    }
}

/// How many round trips a replay takes, for the report.
async fn replay(t: &Trial, proxy: &Proxy, store: &Handle) -> Outcome {
    let (identity, _) = t.staged(Stage::Succeeded).await?;
    for nth in 1..=MOST {
        let claim = t.usual(&identity)?;
        store.replay(&claim, "of a finished identity").await?;
        proxy.quiet().await;
        let window = proxy.arm(Fault::HoldReply, nth, Line::Pass);
        let replayed = store.replay(&claim, "of a finished identity");
        let (replayed, met) = window.during(replayed, async |held: Held| held.deliver(SLACK).await).await;
        replayed?;
        if met.is_none() {
            t.takes("replay", nth - 1);
            return Ok(());
        }
    }
    Err(Stop::Error(format!("a replay has no end, after {MOST} round trips")))
}
