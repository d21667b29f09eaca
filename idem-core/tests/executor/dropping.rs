//! Callers that go away: before the claim is answered, before the work begins, and while it runs.

use std::sync::Arc;
use std::task::Poll;

use futures::poll;
use idem_core::{Begun, End, Fault, HowEnded, Idem, Outcome, Response, State, Store};
use tokio::sync::oneshot;

use crate::support::{Effects, Op, Text, Trouble, Troubled, idem, identity, request, settle_down, virtual_store};

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_during_the_claim_leaves_no_lease() {
    let (store, effects) = (virtual_store(), Effects::default());
    let troubled = Troubled::new(&store, [(Op::Claim, Trouble::Hang)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    {
        let mut run = Box::pin(effects.pay(&idem, request("k")));
        assert!(poll!(&mut run).is_pending());
        settle_down().await;
        assert!(poll!(&mut run).is_pending());
    } // dropped while the claim is under way
    troubled.gate.add_permits(1);
    settle_down().await;
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Released);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_claim_whose_reply_was_lost_is_found_and_released() {
    let store = virtual_store();
    let troubled = Troubled::new(&store, [(Op::Claim, Trouble::LoseReply)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    {
        let mut begin = Box::pin(idem.begin(request("k")));
        assert!(poll!(&mut begin).is_pending());
        settle_down().await; // the claim is applied, its reply lost
        assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Processing);
    }
    assert_eq!(idem.drain(std::time::Duration::from_secs(60)).await, 0);
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Released);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_ticket_releases_and_a_dropped_attempt_is_unknown() {
    let store = virtual_store();
    let idem = idem(&store);
    let Begun::Granted(ticket) = idem.begin(request("k")).await.unwrap() else { panic!("not granted") };
    drop(ticket);
    settle_down().await;
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Released);

    let Begun::Granted(ticket) = idem.begin(request("k")).await.unwrap() else { panic!("not granted") };
    assert_eq!(ticket.attempt().number(), 1);
    drop(ticket.start().await.unwrap());
    settle_down().await;
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Unknown);

    let Begun::Granted(ticket) = idem.begin(request("k")).await.unwrap() else { panic!("not granted") };
    assert_eq!(ticket.attempt().previous().unwrap().how, HowEnded::Unknown);
}

#[tokio::test(start_paused = true)]
async fn work_that_has_begun_goes_on_and_is_recorded() {
    let (store, effects) = (virtual_store(), Effects::default());
    let idem = idem(&store);
    let (started, running) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let counted = effects.clone();
    let caller = tokio::spawn({
        let idem = idem.clone();
        async move {
            let outcome: Text = idem
                .run(request("k"), |_| async move {
                    started.send(()).unwrap();
                    gone.await.unwrap();
                    Ok(format!("paid {}", counted.happen()))
                })
                .await
                .unwrap();
            outcome
        }
    });
    running.await.unwrap();
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert!(matches!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::InFlight { .. }));
    go.send(()).unwrap();
    settle_down().await;
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Ok("paid 1".into())));
    assert_eq!(effects.count(), 1);
}

/// Wherever `run` is dropped, the key is usable at once or recorded, and the work has run at most once.
#[tokio::test(start_paused = true)]
async fn dropped_at_every_poll() {
    for polls in 0.. {
        let (store, effects) = (virtual_store(), Effects::default());
        let idem = idem(&store);
        let done = {
            let mut run = Box::pin(effects.pay(&idem, request("k")));
            let mut done = false;
            for _ in 0..polls {
                done = matches!(poll!(&mut run), Poll::Ready(_));
                if done {
                    break;
                }
                tokio::task::yield_now().await;
            }
            done
        };
        settle_down().await;
        let ran = effects.count();
        match effects.pay(&idem, request("k")).await.unwrap() {
            Outcome::Executed(Ok(_)) => assert_eq!(ran, 0, "run twice after {polls} polls"),
            Outcome::Replayed(Ok(text)) => assert_eq!((ran, text.as_str()), (1, "paid 1"), "after {polls} polls"),
            other => panic!("after {polls} polls: {other:?}"),
        }
        assert_eq!(effects.count(), 1);
        assert_eq!(idem.running(), 0);
        if done {
            assert!(polls > 1, "the run was never dropped in between");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_end_goes_on_being_stored() {
    let store = virtual_store();
    let troubled = Troubled::new(&store, [(Op::Complete, Trouble::Hang)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    let Begun::Granted(ticket) = idem.begin(request("k")).await.unwrap() else { panic!("not granted") };
    let running = ticket.start().await.unwrap().unwrap();
    {
        let mut end = Box::pin(running.end(Some(End::Succeeded(Response::new(200).into()))));
        assert!(poll!(&mut end).is_pending());
        settle_down().await;
    }
    troubled.gate.add_permits(1);
    settle_down().await;
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_shuts_down_leaves_a_key_that_lapses() {
    let store = Arc::new(idem_core::MemoryStore::new());
    let shared = Arc::clone(&store);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let idem = idem(&shared);
            let (started, running) = oneshot::channel();
            tokio::spawn(async move {
                idem.run(request("k"), |_| async move {
                    started.send(()).unwrap();
                    std::future::pending::<Result<String, Fault>>().await
                })
                .await
            });
            running.await.unwrap();
        });
    })
    .join()
    .unwrap();
    assert_eq!(store.peek(&identity("k")).unwrap().state, State::Processing);
    store.age(&identity("k"), crate::support::span(31));
    let effects = Effects::default();
    assert_eq!(effects.pay(&idem(&store), request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_during_the_announcement_runs_nothing() {
    let (store, effects) = (virtual_store(), Effects::default());
    let troubled = Troubled::new(&store, [(Op::Renew, Trouble::Hang)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    {
        let hold = request("k").on_uncertain(idem_core::OnUncertain::Hold);
        let mut run = Box::pin(effects.pay(&idem, hold));
        assert!(poll!(&mut run).is_pending());
        settle_down().await;
        assert!(poll!(&mut run).is_pending());
        settle_down().await;
        assert_eq!(troubled.calls(Op::Renew), 1);
    }
    troubled.gate.add_permits(1);
    settle_down().await;
    assert_eq!(effects.count(), 0);
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Released);
}
