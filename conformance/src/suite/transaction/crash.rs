//! TX-009: the client is gone at any point of its transaction.

use idem_core::{Error, ErrorKind};
use tokio::sync::oneshot;

use crate::Profile;
use crate::fault::{Fault, Held, Line};
use crate::harness::{Finish, Hooked, Reach, Scripted, pause};
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
        let mut before = 0;
        let (played, ()) = begun(t, &play, async |_| before = proxy.requests()).await?;
        ensure!(matches!(played, Ok(Scripted::Committed)), "{joins:?} without a fault ended as {played:?}");
        let round_trips = proxy.requests() - before;
        for fault in [Fault::HoldRequest, Fault::HoldReply] {
            for nth in 1..=round_trips {
                t.goes_on_afresh();
                let what = format!("{joins:?}, {fault:?} {nth} of {round_trips}");
                let play = Play::new(t, joins, Reach::Through(proxy.address())).await?;
                let (played, opened) = begun(t, &play, async |over| {
                    proxy.arm(fault, nth, Line::Pass).during(over, async |held: Held| held.cut()).await.1
                })
                .await?;
                met += usize::from(opened.is_some());
                play.agrees(&what).await?;
                // When the application's own statement failed, it gave up.
                play.to_the_end(played.unwrap_or_else(|_| Scripted::Refused(gone())), &what).await?;
            }
        }
    }
    if met == 0 {
        return Err(Stop::Error("no fault met a request".into()));
    }
    Ok(())
}

/// Plays it, and does something from its first statement on until it is over.
async fn begun<M>(
    t: &Trial,
    play: &Play<'_>,
    meanwhile: impl AsyncFnOnce(oneshot::Receiver<()>) -> M,
) -> Result<(Hooked<Scripted>, M), Stop> {
    let (mut rule, first) = pause();
    let script = play.script()?.reaching(play.reach()).pause_first(first);
    let (over, is_over) = oneshot::channel();
    let call = async {
        let played = t.harness().transaction(t.namespace(), script).await;
        drop(over);
        played
    };
    let meanwhile = async {
        ensure!(rule.reached().await, "the transaction ended before its entry");
        let work = meanwhile(is_over);
        let (met, ()) = tokio::join!(work, async { rule.go_on() });
        Ok(met)
    };
    let (played, met) = tokio::join!(call, meanwhile);
    Ok((played, met?))
}

fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the client is gone")
}
