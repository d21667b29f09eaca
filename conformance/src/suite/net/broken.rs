//! Lines that swallow everything, and replies that arrive when nobody waits for them.

use std::num::NonZeroU32;
use std::time::Instant;

use futures::future::{BoxFuture, join_all};
use idem_core::{Error, Identity, Recorded};

use super::cut::honest;
use crate::fault::{Fault, Held, Line, Proxy};
use crate::suite::call::{Kind, finish};
use crate::trial::{DEADLINE, Handle, Outcome, SLACK, Stage, Stop, Trial, ensure};

/// How often a look is repeated that ended with a retryable error.
const TRIES: usize = 10;

/// Every operation in a black hole ends by its deadline, and the handle goes on afterwards.
pub(super) async fn black_hole(t: &Trial) -> Outcome {
    let proxy = t.proxy().await?;
    let store = t.through(&proxy).await?;
    let kinds = [Kind::ClaimOfNothing, Kind::ClaimOfLapsed, Kind::Complete, Kind::Renew, Kind::Release];
    let mut calls = Vec::new();
    for kind in kinds {
        calls.push((kind.name(), kind.call(t).await?));
    }
    let identity = t.identity()?;
    // The connection is there, and in use, before the line falls silent.
    store.get(&identity).await?;
    proxy.quiet().await;
    let requests = proxy.requests();
    proxy.set(Line::Silent);
    let mut ends: Vec<(&str, BoxFuture<'_, Result<(), Error>>)> = Vec::new();
    for (name, call) in &calls {
        let store = store.clone();
        ends.push((name, Box::pin(async move { call.send(store.raw()).await.map(drop) })));
    }
    ends.push(("get", Box::pin(async { store.raw().get(&identity).await.map(drop) })));
    ends.push(("purge", Box::pin(async { store.raw().purge(NonZeroU32::MIN).await.map(drop) })));
    let ended = join_all(ends.into_iter().map(|(name, end)| async move {
        let began = Instant::now();
        (name, tokio::time::timeout(DEADLINE + SLACK, end).await, began.elapsed())
    }));
    for (name, answer, took) in ended.await {
        let what = format!("a {name} in a black hole");
        match answer {
            Err(_) => return Err(Stop::Fail(format!("{what} with a deadline of {DEADLINE:?} runs for {took:?}"))),
            Ok(Ok(())) => return Err(Stop::Fail(format!("{what} was answered"))),
            Ok(Err(error)) => honest(&error, &what, false)?,
        }
    }
    if proxy.requests() == requests {
        return Err(Stop::Error("nothing was sent into the black hole".into()));
    }
    proxy.set(Line::Pass);
    for (name, call) in &calls {
        finish(call, &store, &format!("a {name} after the black hole")).await?;
    }
    Ok(())
}

/// What becomes of the call that waits for a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    /// The connection is reset.
    Reset,
    /// It gives up by its deadline, and then the reply comes.
    GivesUp,
    /// Its caller drops it, and then the reply comes.
    Dropped,
}

/// After a call that got no reply, the next call on the same pool of one gets its own.
pub(super) async fn crossed_replies(t: &Trial) -> Outcome {
    let proxy = t.proxy().await?;
    let store = t.through(&proxy).await?;
    let (one, _) = t.staged(Stage::Succeeded).await?;
    let (other, _) = t.staged(Stage::Succeeded).await?;
    let expected = t.record(&other).await?.recorded;
    for waits in [Waits::Reset, Waits::GivesUp, Waits::Dropped] {
        store.get(&one).await?;
        proxy.quiet().await;
        left_without_reply(&proxy, &store, &one, waits).await?;
        let got = look(&store, &other, waits).await?;
        ensure!(got == expected, "after a reply that was not read ({waits:?}), a call got the reply of another call");
        // A claim that gets the reply of a look, or of another claim, is worse.
        let call = Kind::ClaimOfNothing.call(t).await?;
        finish(&call, &store, &format!("a claim after a reply that was not read ({waits:?})")).await?;
    }
    Ok(())
}

async fn left_without_reply(proxy: &Proxy, store: &Handle, identity: &Identity, waits: Waits) -> Outcome {
    let window = proxy.arm(Fault::HoldReply, 1, Line::Pass);
    let (leave, left) = tokio::sync::oneshot::channel::<()>();
    let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
    let call = async {
        tokio::select! {
            answer = tokio::time::timeout(DEADLINE + SLACK, store.raw().get(identity)) => drop(answer),
            _ = left => {}
        }
        // The call is gone from here on.
        drop(ended);
    };
    let meanwhile = async |held: Held| match waits {
        Waits::Reset => {
            drop(held);
            true
        }
        Waits::GivesUp => {
            let _ = has_ended.await;
            held.deliver(SLACK).await
        }
        Waits::Dropped => {
            drop(leave);
            let _ = has_ended.await;
            held.deliver(SLACK).await
        }
    };
    let ((), met) = window.during(call, meanwhile).await;
    // A store may have closed the connection by itself: then nothing can be delivered, and nothing can be crossed.
    met.map(drop).ok_or_else(|| Stop::Error(format!("{waits:?}: no reply was held")))
}

async fn look(store: &Handle, identity: &Identity, waits: Waits) -> Result<Option<Recorded>, Stop> {
    for _ in 0..TRIES {
        match tokio::time::timeout(DEADLINE + SLACK, store.raw().get(identity)).await {
            Err(_) => return Err(Stop::Fail(format!("a look after {waits:?} does not end"))),
            Ok(Ok(record)) => return Ok(record.and_then(|record| record.recorded)),
            Ok(Err(error)) if error.is_retryable() => {}
            Ok(Err(error)) => return Err(Stop::Fail(format!("a look after {waits:?}: {error}"))),
        }
    }
    Err(Stop::Fail(format!("a look after {waits:?} is not answered but by errors")))
}
