//! How a response ends the record: the table, and who overrules it.

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use http::{Method, StatusCode};
use idem_core::{Config, Idem, MemoryStore, OnUncertain, Recorded, State, Store};
use idem_http::{Ends, GlobalScope, IdempotencyLayer, Profile};
use tower::ServiceExt;

use crate::support::{Runs, guarded, guarded_by, identity, pay, request, send};

/// What a later request with the key meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Later {
    Replay,
    RunsAlsoWithAnotherBody,
    OneTakesOver,
}

const TABLE: &[(u16, State, Later)] = &[
    (200, State::Succeeded, Later::Replay),
    (201, State::Succeeded, Later::Replay),
    (202, State::Succeeded, Later::Replay),
    (204, State::Succeeded, Later::Replay),
    (206, State::Succeeded, Later::Replay),
    (301, State::Succeeded, Later::Replay),
    (303, State::Succeeded, Later::Replay),
    (304, State::Succeeded, Later::Replay),
    (400, State::Released, Later::RunsAlsoWithAnotherBody),
    (401, State::Released, Later::RunsAlsoWithAnotherBody),
    (402, State::Failed, Later::Replay),
    (403, State::Released, Later::RunsAlsoWithAnotherBody),
    (404, State::Released, Later::RunsAlsoWithAnotherBody),
    (405, State::Released, Later::RunsAlsoWithAnotherBody),
    (406, State::Released, Later::RunsAlsoWithAnotherBody),
    (407, State::Failed, Later::Replay),
    (408, State::Unknown, Later::OneTakesOver),
    (409, State::Failed, Later::Replay),
    (410, State::Failed, Later::Replay),
    (411, State::Released, Later::RunsAlsoWithAnotherBody),
    (412, State::Failed, Later::Replay),
    (413, State::Released, Later::RunsAlsoWithAnotherBody),
    (414, State::Released, Later::RunsAlsoWithAnotherBody),
    (415, State::Released, Later::RunsAlsoWithAnotherBody),
    (416, State::Failed, Later::Replay),
    (417, State::Released, Later::RunsAlsoWithAnotherBody),
    (418, State::Failed, Later::Replay),
    (421, State::Failed, Later::Replay),
    (422, State::Released, Later::RunsAlsoWithAnotherBody),
    (423, State::Failed, Later::Replay),
    (424, State::Failed, Later::Replay),
    (425, State::Unknown, Later::OneTakesOver),
    (426, State::Failed, Later::Replay),
    (428, State::Released, Later::RunsAlsoWithAnotherBody),
    (429, State::Released, Later::RunsAlsoWithAnotherBody),
    (431, State::Released, Later::RunsAlsoWithAnotherBody),
    (451, State::Failed, Later::Replay),
    (499, State::Failed, Later::Replay),
    (500, State::Unknown, Later::OneTakesOver),
    (501, State::Unknown, Later::OneTakesOver),
    (502, State::Unknown, Later::OneTakesOver),
    (503, State::Unknown, Later::OneTakesOver),
    (504, State::Unknown, Later::OneTakesOver),
    (599, State::Unknown, Later::OneTakesOver),
    (999, State::Unknown, Later::OneTakesOver),
];

#[tokio::test]
async fn by_status() {
    for &(code, state, later) in TABLE {
        let status = StatusCode::from_u16(code).expect("a valid status");
        let guarded = guarded(move |attempt| (status, attempt.number().to_string()));
        let first = guarded.pay("k").await;
        assert_eq!((first.status, &*first.body), (status, &b"1"[..]), "the first client gets its answer: {code}");
        assert_eq!(guarded.state("k"), Some(state), "{code}");
        let corrected = send(&guarded.app, request(Method::POST, "/pay", "k", "{\"corrected\":true}")).await;
        if later == Later::RunsAlsoWithAnotherBody {
            assert_eq!((corrected.status, &*corrected.body, guarded.runs.count()), (status, &b"1"[..], 2), "{code}");
            continue;
        }
        assert_eq!((corrected.status, guarded.runs.count()), (StatusCode::UNPROCESSABLE_ENTITY, 1), "{code}");
        let again = guarded.pay("k").await;
        assert_eq!(again.status, status, "{code}");
        if later == Later::Replay {
            assert!(again.is_replay(), "{code}");
            assert_eq!((&*again.body, guarded.runs.count()), (&b"1"[..], 1), "{code}");
        } else {
            assert!(!again.is_replay(), "{code}");
            assert_eq!((&*again.body, guarded.runs.count()), (&b"2"[..], 2), "{code}");
        }
    }
}

const ALL: [(Ends, State); 4] = [
    (Ends::Succeeded, State::Succeeded),
    (Ends::Failed, State::Failed),
    (Ends::Unknown, State::Unknown),
    (Ends::NothingHappened, State::Released),
];

#[tokio::test]
async fn the_handler_overrules_the_status() {
    for status in [StatusCode::OK, StatusCode::UNPROCESSABLE_ENTITY, StatusCode::BAD_GATEWAY] {
        for (ends, state) in ALL {
            let by_attempt = guarded(move |attempt| {
                attempt.ends(ends);
                status
            });
            let by_response = guarded(move |_| (status, ends, "said"));
            for guarded in [by_attempt, by_response] {
                assert_eq!(guarded.pay("k").await.status, status);
                assert_eq!(guarded.state("k"), Some(state), "{status} {ends:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_response_has_the_last_word() {
    let guarded = guarded(|attempt| {
        attempt.ends(Ends::Failed);
        (StatusCode::OK, Ends::NothingHappened, "said")
    });
    guarded.pay("k").await;
    assert_eq!(guarded.state("k"), Some(State::Released));
}

#[tokio::test]
async fn the_profile_overrules_the_table_and_the_handler_the_profile() {
    let profile =
        || Profile::ietf().ends(StatusCode::BAD_GATEWAY, Ends::Unknown).ends(StatusCode::BAD_GATEWAY, Ends::Failed);
    let plain = guarded_by(profile(), Config::default(), |_| StatusCode::BAD_GATEWAY);
    plain.pay("k").await;
    assert!(plain.pay("k").await.is_replay());
    assert_eq!((plain.state("k"), plain.runs.count()), (Some(State::Failed), 1));
    let said = guarded_by(profile(), Config::default(), |_| (StatusCode::BAD_GATEWAY, Ends::NothingHappened, ""));
    said.pay("k").await;
    assert_eq!(said.state("k"), Some(State::Released));
}

/// A handler that has an effect, asks another guarded service in this process, and passes its answer on: what that
/// service's handler said of *its* attempt says nothing of this one's.
#[tokio::test]
async fn what_another_services_handler_said_is_not_said_of_this_one() {
    let inner = guarded(|_| (StatusCode::BAD_GATEWAY, Ends::NothingHappened, idem_http::Unkept, "closed")).app;
    let identifying = Router::new()
        .route("/pay", post(async || (StatusCode::BAD_GATEWAY, Ends::NothingHappened, idem_http::Unkept, "closed")))
        .layer(IdempotencyLayer::identify_only(GlobalScope));
    for inner in [inner, identifying] {
        let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
        let handler = {
            let (inner, runs) = (inner.clone(), runs.clone());
            async move || {
                runs.one_more();
                inner.oneshot(pay("inner")).await.expect("infallible")
            }
        };
        let mut config = Config::default();
        config.on_uncertain = OnUncertain::Hold;
        let idem = Idem::with_config(Arc::clone(&store) as Arc<dyn Store>, config);
        let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem, GlobalScope));
        assert_eq!(send(&app, pay("outer")).await.body, "closed");
        let record = store.peek(&identity("outer")).expect("there");
        assert_eq!(record.state, State::Unknown, "a 502");
        assert!(matches!(record.recorded, Some(Recorded::Response(_))), "Unkept was not said of it either");
        assert_eq!(send(&app, pay("outer")).await.problem(), "uncertain");
        assert_eq!(runs.count(), 1);
    }
}

/// Not in what the layer's own client is told, and not behind a tunnel either.
#[tokio::test]
async fn what_a_response_says_stays_inside_the_layer() {
    for status in [StatusCode::OK, StatusCode::SWITCHING_PROTOCOLS] {
        let guarded = guarded(move |_| (status, Ends::Succeeded, idem_http::Unkept, "said"));
        let answer = guarded.app.oneshot(pay("k")).await.expect("infallible");
        assert_eq!(answer.status(), status);
        let said = answer.extensions();
        assert!(said.get::<Ends>().is_none() && said.get::<idem_http::Unkept>().is_none(), "{status}");
    }
}

/// "Nothing happened" speaks of this attempt only: after a takeover the key stays uncertain.
#[tokio::test]
async fn a_refusal_after_a_takeover_frees_nothing() {
    let mut config = Config::default();
    config.on_uncertain = OnUncertain::TakeOver { within: idem_core::Span::saturating_secs(3_600) };
    let guarded = guarded_by(Profile::ietf(), config, |attempt| match attempt.number() {
        2 => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    });
    guarded.pay("k").await;
    assert_eq!(guarded.pay("k").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(guarded.state("k"), Some(State::Unknown));
    let other = send(&guarded.app, request(Method::POST, "/pay", "k", "{\"other\":1}")).await;
    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY);
}
