//! A replay is the first response: status, headers, bytes.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use idem_core::{Config, Recorded};
use idem_http::{HeaderFilter, Profile};

use crate::support::{guarded, guarded_by, identity, serve};

fn built(status: StatusCode, headers: &[(&'static str, &'static str)], body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    for (name, value) in headers {
        response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// A handler that passes on what was a replay elsewhere, or says so of itself.
#[tokio::test]
async fn what_has_just_been_run_is_no_replay() {
    let filters = [HeaderFilter::default(), HeaderFilter::default().allow(idem_http::IDEMPOTENT_REPLAYED)];
    for filter in filters {
        let guarded = guarded_by(Profile::ietf().replayed_headers(filter), Config::default(), |_| {
            ([("idempotent-replayed", "true")], "paid")
        });
        assert!(!guarded.pay("k").await.headers.contains_key("idempotent-replayed"));
        let second = guarded.pay("k").await;
        assert_eq!(second.headers.get_all("idempotent-replayed").iter().collect::<Vec<_>>(), ["true"]);
    }
}

#[tokio::test]
async fn bodies_byte_for_byte() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let bodies: [Bytes; 6] = [
        every_byte.into(),
        Bytes::from_static(b"\x00\xff\xfe\x80"),
        Bytes::from_static(b"{ \"b\" : 1 ,\n\"a\":1.0 }"),
        Bytes::from_static(b"\0"),
        Bytes::new(),
        Bytes::from(vec![7; 500_000]),
    ];
    for body in bodies {
        let said = body.clone();
        let guarded = guarded(move |_| said.clone());
        let first = guarded.pay("k").await;
        let second = guarded.pay("k").await;
        assert_eq!((&first.body, &second.body), (&body, &body));
        assert_eq!(first.headers.get("content-type"), second.headers.get("content-type"));
        assert!(second.is_replay() && guarded.runs.count() == 1);
    }
}

/// A body that comes in pieces is one body.
#[tokio::test]
async fn pieces_are_joined() {
    let guarded = guarded(|_| {
        let pieces = (0..100_u8).map(|n| Ok::<_, std::io::Error>(Bytes::from(vec![n; usize::from(n)])));
        Body::from_stream(futures::stream::iter(pieces))
    });
    let first = guarded.pay("k").await;
    assert_eq!(first.body.len(), 4_950);
    assert_eq!(guarded.pay("k").await.body, first.body);
}

#[tokio::test]
async fn headers_keep_order_and_repeats() {
    let guarded = guarded(|_| {
        let mut response = built(
            StatusCode::SEE_OTHER,
            &[
                ("x-z", "1"),
                ("location", "/payments/7"),
                ("x-a", "first"),
                ("x-z", "2"),
                ("x-a", ""),
                ("etag", "\"v\""),
            ],
            "see there",
        );
        response.headers_mut().append("x-bytes", HeaderValue::from_bytes(b"caf\xe9").expect("a value"));
        response
    });
    let first = guarded.pay("k").await;
    let mut second = guarded.pay("k").await;
    assert!(second.is_replay());
    second.headers.remove("idempotent-replayed");
    let listed = |headers: &http::HeaderMap| -> Vec<_> {
        headers.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec())).collect()
    };
    let mut sent = first.headers.clone();
    sent.remove("content-length");
    second.headers.remove("content-length");
    assert_eq!(listed(&sent), listed(&second.headers));
    assert_eq!(second.headers.get_all("x-z").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!((second.status, &*second.body), (StatusCode::SEE_OTHER, &b"see there"[..]));
}

const NEVER: &[(&str, &str)] = &[
    ("set-cookie", "session=1"),
    ("set-cookie2", "session=1"),
    ("connection", "close, X-Hop"),
    ("x-hop", "named by connection"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "keep-alive"),
    ("te", "trailers"),
    ("upgrade", "h2c"),
    ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
    ("idempotent-replayed", "from elsewhere"),
    ("www-authenticate", "Basic"),
    ("proxy-authenticate", "Basic"),
    ("authentication-info", "nextnonce=1"),
    ("proxy-authentication-info", "nextnonce=1"),
];

#[tokio::test]
async fn what_is_never_replayed() {
    let guarded = guarded(|_| {
        let mut response = built(StatusCode::OK, NEVER, "paid");
        response.headers_mut().insert("x-kept", HeaderValue::from_static("yes"));
        response
    });
    let first = guarded.pay("k").await;
    assert!(!first.headers.contains_key("idempotent-replayed"), "it is no replay, whoever said so");
    for (name, value) in NEVER.iter().filter(|(name, _)| *name != "idempotent-replayed") {
        assert_eq!(
            first.headers.get(*name).map(HeaderValue::as_bytes),
            Some(value.as_bytes()),
            "the first gets {name}"
        );
    }
    let second = guarded.pay("k").await;
    assert_eq!(second.header("x-kept"), Some("yes"));
    for (name, _) in NEVER.iter().filter(|(name, _)| *name != "idempotent-replayed") {
        assert!(!second.headers.contains_key(*name), "{name} was replayed");
    }
    assert_eq!(second.headers.get_all("idempotent-replayed").iter().collect::<Vec<_>>(), ["true"]);
}

/// Framing is the server's: a recorded length or encoding would contradict the message that carries the replay.
#[test]
fn framing_is_not_recorded() {
    let response = built(StatusCode::OK, NEVER, Body::empty()).map(|_| "paid");
    let (mut parts, body) = response.into_parts();
    for (name, value) in [("content-length", "4"), ("transfer-encoding", "chunked")] {
        parts.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let Recorded::Response(response) = idem_http::record(&Response::from_parts(parts, body)) else {
        panic!("a tombstone")
    };
    assert_eq!(&*response.meta, b"\x01", "a version and no headers");
}

#[tokio::test]
async fn a_filter_of_ones_own() {
    let name = HeaderName::from_static;
    let filters = [
        (HeaderFilter::default().allow(name("set-cookie")).deny(name("x-a")), true, false, true),
        (HeaderFilter::only([name("x-a")]), false, true, false),
        (HeaderFilter::only([name("x-a"), name("x-b")]).deny(name("x-b")).allow(name("set-cookie")), true, true, false),
    ];
    for (filter, cookie, a, b) in filters {
        let guarded = guarded_by(Profile::ietf().replayed_headers(filter), Config::default(), |_| {
            built(StatusCode::OK, &[("set-cookie", "theme=dark"), ("x-a", "1"), ("x-b", "1")], "")
        });
        guarded.pay("k").await;
        let second = guarded.pay("k").await;
        let has = |name: &str| second.headers.contains_key(name);
        assert_eq!((has("set-cookie"), has("x-a"), has("x-b")), (cookie, a, b));
    }
}

/// Over a socket, where the server writes framing of its own.
#[tokio::test]
async fn statuses_without_a_body_over_a_socket() {
    for (status, body) in [(204, ""), (304, ""), (205, ""), (200, ""), (200, "text")] {
        let status = StatusCode::from_u16(status).expect("valid");
        let guarded = guarded(move |_| built(status, &[("etag", "\"v\"")], body));
        let url = format!("http://{}/pay", serve(guarded.app.clone()).await);
        let client = reqwest::Client::new();
        for replay in [false, true] {
            let answer = client.post(&url).header("idempotency-key", "k").send().await.expect("answered");
            assert_eq!((answer.status(), answer.headers().contains_key("idempotent-replayed")), (status, replay));
            assert_eq!(answer.headers()["etag"], "\"v\"");
            let length = answer.headers().get_all("content-length").iter().count();
            assert!(if status == 204 || status == 304 { length == 0 } else { length == 1 }, "{status}: {length}");
            assert!(answer.headers().get_all("date").iter().count() == 1, "the server's own");
            assert_eq!(answer.text().await.expect("a body"), body);
        }
        assert_eq!(guarded.runs.count(), 1);
    }
}

/// The form outlives a deployment: what this test shows in bytes, a record in production has.
#[tokio::test]
async fn the_recorded_form_is_frozen() {
    let guarded = guarded(|_| built(StatusCode::CREATED, &[("x-a", "1"), ("x-a", "22")], Body::empty()));
    guarded.pay("k").await;
    let recorded = guarded.store.peek(&identity("k")).and_then(|record| record.recorded);
    let Some(Recorded::Response(response)) = recorded else { panic!("no response") };
    assert_eq!(response.code, 201);
    assert_eq!(&*response.meta, b"\x01\x03\0x-a\x01\0\0\x001\x03\0x-a\x02\0\0\x0022");
    assert_eq!(response.body.as_deref(), Some(&b""[..]));
    // And what `record` makes of the same response is the same.
    let same = http::Response::builder().status(201).header("x-a", "1").header("x-a", "22").body("").expect("valid");
    assert_eq!(idem_http::record(&same), Recorded::Response(response.clone()));
    let back = idem_http::replay(response).expect("readable");
    assert_eq!((back.status(), back.headers(), &**back.body()), (same.status(), same.headers(), &b""[..]));
}

#[test]
fn what_is_no_record_is_an_error() {
    let whole = b"\x01\x03\0x-a\x01\0\0\x001";
    for end in 0..whole.len() {
        let readable = idem_http::replay(idem_core::Response::new(200).with_meta(whole[..end].to_vec())).is_ok();
        assert_eq!(readable, end == 1, "cut at {end}"); // One byte is a version and no headers.
    }
    for meta in [&b"\x02"[..], b"\x01\x01\0 \x01\0\0\x001", b"\x01\x01\0a\x01\0\0\0\n", b"\x01\x01\0a\xff\xff\xff\xff1"]
    {
        assert!(idem_http::replay(idem_core::Response::new(200).with_meta(meta)).is_err(), "{meta:?}");
    }
    assert!(idem_http::replay(idem_core::Response::new(99).with_meta(&b"\x01"[..])).is_err());
}
