//! Requests and replies that are lost, at every round trip of a call.

use idem_core::{Error, ErrorKind};

use crate::fault::{Fault, Held, Line, Proxy};
use crate::suite::call::{Call, Kind, finish};
use crate::trial::{Handle, Outcome, SLACK, Stage, Stop, Trial, ensure};

/// How many calls are measured.
const MEASURED: usize = 4;

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
    let mut effects = 0;
    for after in [After::Whole, After::Down] {
        let round_trips = measure(t, &proxy, &store, kind).await?;
        t.takes(kind.name(), round_trips);
        for nth in 1..=round_trips {
            effects += usize::from(once(t, &proxy, &store, kind, lost, nth, after).await?);
        }
    }
    // That nothing of it was ever seen would mean that no reply was lost that mattered.
    if lost == Lost::Reply && effects == 0 {
        return Err(Stop::Error(format!("no lost reply of a {} had an effect behind it", kind.name())));
    }
    Ok(())
}

/// How many round trips this kind of call takes on a warm connection: the fewest of some, since a new connection logs in
/// and prepares its statements, and a driver tests a connection that it takes back.
pub(super) async fn measure(t: &Trial, proxy: &Proxy, store: &Handle, kind: Kind) -> Result<u64, Stop> {
    let mut fewest = u64::MAX;
    for _ in 0..MEASURED {
        let call = kind.call(t).await?;
        proxy.quiet().await;
        let before = proxy.requests();
        finish(&call, store, "on a line without faults").await?;
        fewest = fewest.min(proxy.requests() - before);
    }
    match fewest {
        0 => Err(Stop::Error("the harness does not open handles through the proxy's address".into())),
        round_trips => Ok(round_trips),
    }
}

/// Makes the connection warm, so that the next call has nothing to prepare.
pub(super) async fn warm(t: &Trial, proxy: &Proxy, store: &Handle, kind: Kind) -> Outcome {
    let call = kind.call(t).await?;
    finish(&call, store, "on a line without faults").await?;
    proxy.quiet().await;
    Ok(())
}

/// One cut. Says whether the effect was seen while the reply was on its way.
async fn once(
    t: &Trial,
    proxy: &Proxy,
    store: &Handle,
    kind: Kind,
    lost: Lost,
    nth: u64,
    after: After,
) -> Result<bool, Stop> {
    warm(t, proxy, store, kind).await?;
    let call = kind.call(t).await?;
    let before = t.row(call.identity()).await?;
    let fault = match lost {
        Lost::Request => Fault::LoseRequest,
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
    let sent = tokio::time::timeout(crate::trial::DEADLINE + SLACK, call.send(store.raw()));
    let (answer, seen) = proxy.arm(fault, nth, then).during(sent, seen).await;
    let what = format!("a {} that lost the {lost:?} of round trip {nth}", kind.name());
    let Some(seen) = seen else {
        return Err(Stop::Error(format!("{what} did not: the fault met nothing")));
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
    Ok(seen)
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

/// Every reply from this one on is lost: what is known then, and what a repeat tells (ERR-002).
pub(in crate::suite) async fn replies_lost_for_good(t: &Trial) -> Outcome {
    let proxy = t.proxy().await?;
    let store = t.through(&proxy).await?;
    replay(t, &proxy, &store).await?;
    for kind in [Kind::ClaimOfNothing, Kind::ClaimOfLapsed, Kind::Complete, Kind::Renew, Kind::Release] {
        let last = measure(t, &proxy, &store, kind).await?;
        let mut seen = false;
        for _ in 0..MEASURED {
            // What a driver says between two calls may take the place of the call's own request.
            seen = seen || once(t, &proxy, &store, kind, Lost::Reply, last, After::Down).await?;
        }
        if !seen {
            let what = kind.name();
            return Err(Stop::Error(format!("the last reply of a {what} was lost, and its effect is never there")));
        }
    }
    Ok(())
}

/// How many round trips a replay takes, for the report.
async fn replay(t: &Trial, proxy: &Proxy, store: &Handle) -> Outcome {
    let (identity, _) = t.staged(Stage::Succeeded).await?;
    let mut fewest = u64::MAX;
    for _ in 0..MEASURED {
        proxy.quiet().await;
        let before = proxy.requests();
        store.replay(&t.usual(&identity)?, "of a finished identity").await?;
        fewest = fewest.min(proxy.requests() - before);
    }
    t.takes("replay", fewest);
    Ok(())
}
