//! Requests that are delivered after something else has happened.

use idem_core::{Claimed, Identity};

use super::cut::{MOST, honest, past_the_end, warm};
use crate::fault::{Fault, Held, Line};
use crate::suite::call::Kind;
use crate::trial::{DEADLINE, LEASE, MARGIN, Outcome, SLACK, Stop, Trial, ensure, plus};

/// What has happened to the identity when the request arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    /// Somebody else runs it.
    TakenOver,
    /// Somebody else has finished it.
    Finished,
    /// Somebody else ran it, and gave it back.
    Released,
}

/// Delivers each request of this kind of call late.
pub(super) async fn at_every_round_trip(t: &Trial, kind: Kind) -> Outcome {
    let proxy = t.proxy().await?;
    let store = t.through(&proxy).await?;
    let mut delivered = 0;
    for meanwhile in [Meanwhile::TakenOver, Meanwhile::Finished, Meanwhile::Released] {
        for nth in 1..=MOST {
            t.goes_on_afresh();
            proxy.set(Line::Pass);
            warm(t, &proxy, &store, kind).await?;
            let call = kind.call(t).await?;
            let what = format!("a {} whose request {nth} arrives after it was {meanwhile:?}", kind.name());
            // The line is down meanwhile: a store that sends its call again would not be late.
            let window = proxy.arm(Fault::HoldRequest, nth, Line::Refuse);
            let sent = tokio::time::timeout(DEADLINE + SLACK, call.send(store.raw()));
            let cut = async |held: Held| {
                held.cut_client().await;
                held
            };
            let (answer, held) = window.during(sent, cut).await;
            let Some(held) = held else {
                past_the_end(t, &call, answer, nth, &what).await?;
                break;
            };
            match answer {
                Ok(Err(error)) => honest(&error, &what, false)?,
                Ok(Ok(answer)) => return Err(Stop::Fail(format!("{what} was answered {answer:?} before"))),
                Err(_) => return Err(Stop::Fail(format!("{what} does not end"))),
            }
            if !happens(t, call.identity(), meanwhile).await? {
                // The requests before hold a lock at the server, for as long as its session lives: nothing can overtake.
                ensure!(nth > 1, "{what}: nobody else could claim, although nothing had been sent");
                continue;
            }
            let before = t.record(call.identity()).await?;
            if !held.deliver(SLACK).await {
                return Err(Stop::Error(format!("{what}: the server did not answer it")));
            }
            delivered += 1;
            t.unchanged(&before, &what).await?;
        }
    }
    proxy.set(Line::Pass);
    if delivered == 0 {
        return Err(Stop::Error(format!("no {} could be delivered late", kind.name())));
    }
    Ok(())
}

/// Lets it happen, by another handle. Says whether it could.
async fn happens(t: &Trial, identity: &Identity, meanwhile: Meanwhile) -> Result<bool, Stop> {
    let other = t.second().await?;
    if t.row(identity).await?.is_some() {
        t.age(identity, plus(LEASE, MARGIN)).await?;
    }
    let lease = match other.claim(&t.usual(identity)?).await? {
        Claimed::Acquired(grant) => grant.lease,
        Claimed::InFlight { .. } => return Ok(false),
        answer => return Err(Stop::Fail(format!("a lapsed or free identity was answered {answer:?}"))),
    };
    match meanwhile {
        Meanwhile::TakenOver => {}
        Meanwhile::Finished => other.store_end(&lease, t.succeeded()).await?,
        Meanwhile::Released => other.give_back(&lease).await?,
    }
    Ok(true)
}
