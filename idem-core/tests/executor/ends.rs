//! What the work says decides how the record ends.

use std::sync::Arc;

use idem_core::{
    Complete, Completed, End, Ended, Fault, HowEnded, OnUncertain, Outcome, Response, State, Store, Token,
};

use crate::support::{Effects, Text, configured, idem, identity, request, virtual_store};

#[tokio::test(start_paused = true)]
async fn nothing_happened_frees_the_key() {
    let (store, effects) = (virtual_store(), Effects::default());
    let idem = idem(&store);
    let outcome: Text =
        idem.run(request("k"), |_| async { Err(Fault::NothingHappened("no stock".to_owned())) }).await.unwrap();
    assert_eq!(outcome, Outcome::Executed(Err(Fault::NothingHappened("no stock".into()))));
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Released);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
}

#[tokio::test(start_paused = true)]
async fn a_final_refusal_is_replayed() {
    let (idem, effects) = (idem(&virtual_store()), Effects::default());
    let outcome: Text = idem.run(request("k"), |_| async { Err(Fault::Final("declined".to_owned())) }).await.unwrap();
    assert_eq!(outcome, Outcome::Executed(Err(Fault::Final("declined".into()))));
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Err("declined".into())));
    assert_eq!(effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn unknown_and_panic_are_taken_over_by_the_next() {
    let idem = idem(&virtual_store());
    let outcome: Text = idem.run(request("a"), |_| async { Err(Fault::Unknown("timeout".to_owned())) }).await.unwrap();
    assert_eq!(outcome, Outcome::Executed(Err(Fault::Unknown("timeout".into()))));
    let outcome: Text = idem.run(request("b"), |_| async { panic!("on purpose") }).await.unwrap();
    assert_eq!(outcome, Outcome::Panicked);
    // Panics also while the future is being made.
    let making = |_: idem_core::Attempt| -> std::future::Ready<Result<String, Fault>> { panic!("on purpose") };
    assert_eq!(idem.run(request("c"), making).await.unwrap(), Outcome::Panicked);

    for key in ["a", "b", "c"] {
        let outcome: Text = idem
            .run(request(key), |attempt| async move {
                assert_eq!(attempt.number(), 2);
                assert_eq!(attempt.previous().unwrap().how, HowEnded::Unknown);
                Ok("paid".to_owned())
            })
            .await
            .unwrap();
        assert_eq!(outcome, Outcome::Executed(Ok("paid".into())));
    }
}

#[tokio::test(start_paused = true)]
async fn under_hold_unknown_waits_for_somebody_who_decides() {
    let (store, effects) = (virtual_store(), Effects::default());
    let idem = configured(Arc::clone(&store) as _, |config| config.on_uncertain = OnUncertain::Hold);
    let outcome: Text = idem.run(request("k"), |_| async { Err(Fault::Unknown("timeout".to_owned())) }).await.unwrap();
    assert!(matches!(outcome, Outcome::Executed(Err(Fault::Unknown(_)))));
    let Outcome::Uncertain(uncertain) = effects.pay(&idem, request("k")).await.unwrap() else { panic!("not held") };
    assert_eq!(uncertain.attempt, 1);
    assert_eq!(uncertain.evidence.unwrap().code(), 0);
    assert_eq!(effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn question_mark_on_an_error_is_unknown() {
    let idem = idem(&virtual_store());
    let outcome: Text = idem
        .run(request("k"), |_| async {
            let number: u32 = "not a number".parse()?;
            Ok(number.to_string())
        })
        .await
        .unwrap();
    assert!(matches!(outcome, Outcome::Executed(Err(Fault::Unknown(text))) if text.contains("invalid digit")));
}

/// A handler that finished the record itself, in a joint transaction, and then says something else.
#[tokio::test(start_paused = true)]
async fn a_settled_record_is_the_answer_whatever_the_work_says_after() {
    let says: [fn() -> Result<String, Fault>; 4] = [
        || Ok("other bytes".to_owned()),
        || Err(Fault::NothingHappened("not so".to_owned())),
        || Err(Fault::Unknown("not so".to_owned())),
        || panic!("on purpose"),
    ];
    for (at, say) in says.into_iter().enumerate() {
        let store = virtual_store();
        let idem = idem(&store);
        let settling = Arc::clone(&store);
        let outcome: Text = idem
            .run(request("k"), move |attempt| async move {
                let end = End::Succeeded(Response::new(0).with_body("settled").into());
                let stored = settling.complete(&Complete::new(attempt.lease().clone(), end)).await?;
                assert_eq!(stored, Completed::Stored);
                say()
            })
            .await
            .unwrap();
        assert_eq!(outcome, Outcome::Executed(Ok("settled".into())), "case {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn stepwise_ends_are_the_same() {
    let store = virtual_store();
    let idem = idem(&store);
    let idem_core::Begun::Granted(ticket) = idem.begin(request("k")).await.unwrap() else { panic!("not granted") };
    let running = ticket.start().await.unwrap().unwrap();
    assert!(running.attempt().check().is_ok());
    let end = End::Succeeded(Response::new(201).into());
    assert_eq!(running.end(Some(end)).await, Ended::AsSaid);
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Succeeded);

    let idem_core::Begun::Granted(ticket) = idem.begin(request("j")).await.unwrap() else { panic!("not granted") };
    let running = ticket.start().await.unwrap().unwrap();
    assert_eq!(running.end(None).await, Ended::AsSaid);
    assert_eq!(store.get(&identity("j")).await.unwrap().unwrap().state, State::Released);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stolen_lease_is_otherwise() {
    let store = virtual_store();
    let idem = idem(&store);
    let idem_core::Begun::Granted(ticket) = idem.begin(request("k")).await.unwrap() else { panic!("not granted") };
    let running = ticket.start().await.unwrap().unwrap();
    let mut forged = running.attempt().lease().clone();
    forged.token = Token::random();
    let end = End::Succeeded(Response::new(200).into());
    let refused = store.complete(&Complete::new(forged, end.clone())).await.unwrap();
    assert_eq!(refused, Completed::Lost);
    assert_eq!(running.end(Some(end)).await, Ended::AsSaid);
}
