//! What callers get.

use std::sync::Arc;

use idem_core::{ErrorKind, Fault, Idem, Json, MemoryStore, Outcome, Reply, Response, Store, Wait};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::support::{Effects, Text, idem, request, request_of, secs, virtual_store};

#[tokio::test(start_paused = true)]
async fn the_first_call_runs_and_every_other_is_replayed() {
    let (idem, effects) = (idem(&virtual_store()), Effects::default());
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
    for _ in 0..5 {
        assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Ok("paid 1".into())));
    }
    assert_eq!(effects.pay(&idem, request("other")).await.unwrap(), Outcome::Executed(Ok("paid 2".into())));
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_refused_while_running_and_after() {
    let (idem, effects) = (idem(&virtual_store()), Effects::default());
    let (started, running) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let first = tokio::spawn({
        let idem = idem.clone();
        async move {
            idem.run(request_of("k", "1000"), |_| async move {
                started.send(()).unwrap();
                gone.await.unwrap();
                Ok::<_, Fault>("paid".to_owned())
            })
            .await
        }
    });
    running.await.unwrap();
    assert_eq!(effects.pay(&idem, request_of("k", "50000")).await.unwrap(), Outcome::Mismatch);
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(effects.pay(&idem, request_of("k", "50000")).await.unwrap(), Outcome::Mismatch);
    assert_eq!(effects.count(), 0);
}

/// Work that ends only when all its rivals have been answered.
async fn contend(wait: Wait, expect_replays: bool) {
    const RIVALS: usize = 63;
    let (idem, effects) = (idem(&virtual_store()), Effects::default());
    let (answered, mut answers) = tokio::sync::mpsc::channel::<()>(RIVALS);
    let (started, running) = tokio::sync::oneshot::channel();
    let first = tokio::spawn({
        let (idem, effects) = (idem.clone(), effects.clone());
        async move {
            idem.run(request("k"), move |_| async move {
                started.send(()).unwrap();
                for _ in 0..if expect_replays { 0 } else { RIVALS } {
                    answers.recv().await.unwrap();
                }
                tokio::time::sleep(secs(2)).await;
                Ok::<_, Fault>(format!("paid {}", effects.happen()))
            })
            .await
        }
    });
    running.await.unwrap();
    let mut rivals = JoinSet::new();
    for _ in 0..RIVALS {
        let (idem, effects, answered) = (idem.clone(), effects.clone(), answered.clone());
        rivals.spawn(async move {
            let outcome = effects.pay(&idem, request("k").wait(wait)).await.unwrap();
            let _ = answered.send(()).await;
            outcome
        });
    }
    for outcome in rivals.join_all().await {
        match outcome {
            Outcome::InFlight { retry_after } if !expect_replays => assert!(!retry_after.is_zero()),
            Outcome::Replayed(Ok(text)) if expect_replays => assert_eq!(text, "paid 1"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(first.await.unwrap().unwrap(), Outcome::<String>::Executed(Ok("paid 1".into())));
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn rivals_are_told_that_it_is_in_flight() {
    contend(Wait::Reject, false).await;
}

#[tokio::test(start_paused = true)]
async fn rivals_that_wait_get_the_answer() {
    contend(Wait::UpTo(secs(20)), true).await;
}

#[tokio::test(start_paused = true)]
async fn patience_ends_with_its_budget() {
    let store = virtual_store();
    let idem = idem(&store);
    let held = idem.begin(request("k")).await.unwrap();
    let before = tokio::time::Instant::now();
    let outcome: Text = Effects::default().pay(&idem, request("k").wait(Wait::UpTo(secs(5)))).await.unwrap();
    assert!(matches!(outcome, Outcome::InFlight { .. }));
    assert!(before.elapsed() <= secs(5));
    drop(held);
}

/// The same work on a real multi-threaded runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_threads_runs() {
    let (idem, effects) = (Idem::new(Arc::new(MemoryStore::new()) as Arc<dyn Store>), Effects::default());
    for round in 0..50 {
        let mut rivals = JoinSet::new();
        for _ in 0..16 {
            let (idem, effects) = (idem.clone(), effects.clone());
            rivals.spawn(async move { effects.pay(&idem, request(&format!("k{round}"))).await.unwrap() });
        }
        let executed = rivals.join_all().await.into_iter().filter(|outcome| matches!(outcome, Outcome::Executed(_)));
        assert_eq!(executed.count(), 1);
    }
    assert_eq!(effects.count(), 50);
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Receipt {
    amount: u64,
}

#[tokio::test(start_paused = true)]
async fn json_is_replayed_and_a_renamed_type_never_runs_again() {
    let idem = idem(&virtual_store());
    let run = |request| idem.run(request, |_| async { Ok::<_, Fault>(Json(Receipt { amount: 1000 })) });
    assert_eq!(run(request("k")).await.unwrap(), Outcome::Executed(Ok(Json(Receipt { amount: 1000 }))));
    assert_eq!(run(request("k")).await.unwrap(), Outcome::Replayed(Ok(Json(Receipt { amount: 1000 }))));

    let effects = Effects::default();
    let counted = effects.clone();
    let error = idem
        .run(request("k"), |_| async move {
            counted.happen();
            Ok::<_, Fault>(Json(vec![1, 2, 3]))
        })
        .await
        .unwrap_err();
    assert_eq!((error.kind(), effects.count()), (ErrorKind::Schema, 0));
}

#[tokio::test(start_paused = true)]
async fn bytes_come_back_as_they_were() {
    let idem = idem(&virtual_store());
    let all: Vec<u8> = (0..=255).collect();
    for (key, response) in [
        ("bytes", Response::new(201).with_meta(all.clone()).with_body(all.clone())),
        ("empty", Response::new(200).with_body(Vec::new())),
        ("absent", Response::new(204)),
        ("invalid UTF-8", Response::new(200).with_body(vec![0x00, 0xff, 0xfe, 0x80])),
    ] {
        for _ in 0..2 {
            let said = response.clone();
            let outcome = idem.run(request(key), |_| async move { Ok::<_, Fault>(said) }).await.unwrap();
            let (Outcome::Executed(Ok(got)) | Outcome::Replayed(Ok(got))) = outcome else { panic!("{outcome:?}") };
            assert_eq!(got, response);
        }
    }
}

#[derive(Clone, Copy)]
enum Unwritable {
    SaysSo,
    Panics,
}

impl Reply for Unwritable {
    fn record(&self) -> Result<idem_core::Recorded, idem_core::CodecError> {
        match self {
            Unwritable::SaysSo => Err("no bytes for this".into()),
            Unwritable::Panics => panic!("on purpose"),
        }
    }

    fn replay(_: Response) -> Result<Unwritable, idem_core::CodecError> {
        Err("never written".into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_written_down_leaves_a_tombstone() {
    for (key, value) in [("a", Unwritable::SaysSo), ("b", Unwritable::Panics)] {
        let idem = idem(&virtual_store());
        let run = || idem.run(request(key), move |_| async move { Ok::<_, Fault>(value) });
        assert!(matches!(run().await.unwrap(), Outcome::Executed(Ok(_))));
        assert!(matches!(run().await.unwrap(), Outcome::NotKept { code: 0, .. }));
    }
}
