//! How the header is read.

use axum::body::Body;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use idem_core::Config;
use idem_http::{Demand, KeySyntax, Profile};

use crate::support::{Guarded, guarded_by, pay, send};

fn echoing(profile: Profile) -> Guarded {
    guarded_by(profile, Config::default(), |attempt| attempt.key().as_str().to_owned())
}

fn with(lines: &[&[u8]]) -> Request<Body> {
    let mut request = pay("replaced");
    request.headers_mut().remove("idempotency-key");
    for line in lines {
        request.headers_mut().append("idempotency-key", HeaderValue::from_bytes(line).expect("a header value"));
    }
    request
}

const UUID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

/// The value, then the key under lenient and under strict; None is malformed.
const TABLE: &[(&[u8], Option<&str>, Option<&str>)] = &[
    (b"\"k\"", Some("k"), Some("k")),
    (b"k", Some("k"), None),
    (b"8e03978e-40d5-43e8-bc93-6894a57f9324", Some(UUID), None),
    (b"\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", Some(UUID), Some(UUID)),
    (b"  \"k\"  ", Some("k"), Some("k")),
    (b"k   ", Some("k"), None),
    (b"two words", Some("two words"), None),
    (b"\" k \"", Some(" k "), Some(" k ")),
    (b"12345", Some("12345"), None),
    (b"4.5", Some("4.5"), None),
    (b"?1", Some("?1"), None),
    (b":aGk=:", Some(":aGk=:"), None),
    (b"@1659578233", Some("@1659578233"), None),
    (b"a/b+c=={}[]<>|~!#$%&'*^`", Some("a/b+c=={}[]<>|~!#$%&'*^`"), None),
    // Parameters are ignored behind quotes. Without quotes they might be a part of the key.
    (b"\"k\";a=1;b", Some("k"), Some("k")),
    (b"\"a;b\"", Some("a;b"), Some("a;b")),
    (b"\"k\";=1", None, None),
    (b"order;a17", None, None),
    (b"k;a=1;b", None, None),
    (b"k ;a=1", None, None),
    (b"k;=1", None, None),
    (b"k;", None, None),
    // Escapes.
    (b"\"a\\\"b\\\\c\"", Some("a\"b\\c"), Some("a\"b\\c")),
    (b"a\\b", Some("a\\b"), None),
    (b"\"a\\b\"", None, None),
    // Lists.
    (b"a, b", None, None),
    (b"a,b", None, None),
    (b"\"a\", \"b\"", None, None),
    (b"(a b)", None, None),
    (b"\"a,b\"", Some("a,b"), Some("a,b")),
    // Quotes that do not match.
    (b"\"k", None, None),
    (b"k\"", None, None),
    (b"k\"k", None, None),
    (b"\"", None, None),
    (b"\"k\"k", None, None),
    (b"\"k\" \"k\"", None, None),
    // Nothing.
    (b"", None, None),
    (b"   ", None, None),
    (b"\"\"", None, None),
    (b";a=1", None, None),
    // Outside of printable ASCII.
    (b"a\tb", None, None),
    (b"\"a\tb\"", None, None),
    (b"caf\xc3\xa9", None, None),
    (b"\"caf\xc3\xa9\"", None, None),
    (b"\xff", None, None),
    (b"%\"caf%c3%a9\"", None, None),
];

#[tokio::test]
async fn every_form() {
    let lenient = echoing(Profile::ietf());
    let strict = echoing(Profile::ietf().syntax(KeySyntax::Strict));
    for (value, leniently, strictly) in TABLE {
        for (app, expected) in [(&lenient, leniently), (&strict, strictly)] {
            let answer = send(&app.app, with(&[value])).await;
            match expected {
                Some(key) => assert_eq!((answer.status, &*answer.body), (StatusCode::OK, key.as_bytes()), "{value:?}"),
                None => assert_eq!(answer.problem(), "key-malformed", "{value:?}"),
            }
        }
    }
}

#[tokio::test]
async fn quoted_and_bare_are_the_same_key() {
    let guarded = echoing(Profile::ietf());
    assert!(!send(&guarded.app, with(&[b"k"])).await.is_replay());
    assert!(send(&guarded.app, with(&[b"\"k\""])).await.is_replay());
    assert!(send(&guarded.app, with(&[b"\"k\";version=2"])).await.is_replay());
    assert!(!send(&guarded.app, with(&[b"K"])).await.is_replay(), "case counts");
    assert_eq!(guarded.runs.count(), 2);
}

#[tokio::test]
async fn two_lines_are_malformed_even_when_they_are_equal() {
    let guarded = echoing(Profile::ietf());
    assert_eq!(send(&guarded.app, with(&[b"k", b"k"])).await.problem(), "key-malformed");
    assert_eq!(guarded.runs.count(), 0);
}

#[tokio::test]
async fn length_counts_without_quotes() {
    let guarded = echoing(Profile::ietf());
    let longest = "k".repeat(255);
    assert_eq!(guarded.pay(&format!("\"{longest}\"")).await.body, longest);
    assert_eq!(guarded.pay(&format!("{longest}k")).await.problem(), "key-malformed");
}

#[tokio::test]
async fn a_header_of_another_name() {
    let guarded = echoing(Profile::ietf().header(HeaderName::from_static("paypal-request-id")));
    assert_eq!(guarded.pay("k").await.problem(), "key-missing");
    let mut request = pay("ignored");
    request.headers_mut().insert("paypal-request-id", HeaderValue::from_static("mine"));
    assert_eq!(send(&guarded.app, request).await.body, "mine");
}

/// What is optional may be absent, and not wrong.
#[tokio::test]
async fn optional_is_not_sloppy() {
    let guarded = echoing(Profile::ietf().demand(Demand::Optional));
    assert_eq!(guarded.pay("a, b").await.problem(), "key-malformed");
}

#[tokio::test]
async fn problems_do_not_repeat_the_key() {
    let guarded = echoing(Profile::ietf());
    let answer = guarded.pay("\"secret-key").await;
    assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
}

#[tokio::test]
async fn nothing_shows_the_key_by_accident() {
    let guarded = guarded_by(Profile::ietf(), Config::default(), |attempt| format!("{attempt:?}"));
    let answer = guarded.pay("secret-key").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
}
