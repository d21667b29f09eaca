//! TX-009: the client is gone at any point of its transaction.

use idem_core::{Error, ErrorKind};

use crate::Profile;
use crate::fault::{Fault, Held, Line};
use crate::harness::{Finish, Reach, Scripted};
use crate::trial::{Outcome, Stop, Trial, ensure};

use super::unanswered::{Joins, Play};

/// The client's connection is cut at each round trip of the whole transaction, or where there is none, in its middle.
pub(super) async fn anywhere(t: &Trial) -> Outcome {
    t.store().await?;
    for joins in [Joins::Settle, Joins::Once] {
        let play = Play::new(t, joins, Reach::Direct).await?;
        let script = play.script()?.finish(Finish::Crash);
        let played = t.play(script).await?;
        play.agrees(&format!("{joins:?}, crashed in its middle")).await?;
        play.to_the_end(Scripted::Refused(gone()), &format!("{joins:?}, crashed: {played:?}")).await?;
    }
    if t.declaration().claims(Profile::Networked) {
        at_every_round_trip(t).await?;
    }
    Ok(())
}

async fn at_every_round_trip(t: &Trial) -> Outcome {
    let proxy = t.proxy().await?;
    let mut met = 0;
    for joins in [Joins::Settle, Joins::Once] {
        let play = Play::new(t, joins, Reach::Through(proxy.address())).await?;
        let before = proxy.requests();
        let script = play.script()?.reaching(Reach::Through(proxy.address()));
        let played = t.play(script).await?;
        ensure!(matches!(played, Scripted::Committed), "{joins:?} without a fault ended as {played:?}");
        let round_trips = proxy.requests() - before;
        for fault in [Fault::LoseRequest, Fault::HoldReply] {
            for nth in 1..=round_trips {
                let what = format!("{joins:?}, {fault:?} {nth} of {round_trips}");
                let play = Play::new(t, joins, Reach::Direct).await?;
                let script = play.script()?.reaching(Reach::Through(proxy.address()));
                let window = proxy.arm(fault, nth, Line::Pass);
                let call = t.harness().transaction(t.namespace(), script);
                let (played, opened) = window.during(call, async |held: Held| held.cut()).await;
                met += usize::from(opened.is_some());
                play.agrees(&what).await?;
                let told = match played {
                    Ok(told) => told,
                    // The application's own statement failed: it gave up.
                    Err(_) => Scripted::Refused(gone()),
                };
                play.to_the_end(told, &what).await?;
            }
        }
    }
    if met == 0 {
        return Err(Stop::Error("no fault met a request".into()));
    }
    Ok(())
}

fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the client is gone")
}
