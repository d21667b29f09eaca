//! Encrypted connections, to a server whose certificate is from an authority that only this test knows.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use common::*;
use conformance::drill::Authority;
use conformance::provider::Way;
use idem_core::{Claimed, Completed, ErrorKind, Store};
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgSslMode};

/// A server of its own that speaks TLS.
async fn encrypted(authority: &Authority) -> Option<Place> {
    let server = own_server().await?;
    if server.origin().way == Way::Url {
        eprintln!("not run: the certificates of a server that was given by URL are not ours to change");
        return None;
    }
    let place = Place::on(server).await;
    let (certificate, key) = authority.issue(&place.address().ip().to_string());
    for (file, text) in [("idem-test.crt", certificate), ("idem-test.key", key)] {
        // The server writes it, wherever it runs: into its data, readable for itself alone.
        let encoded = format!("translate(encode(convert_to('{text}', 'UTF8'), 'base64'), E'\\n', '')");
        let program = format!("umask 077; base64 -d >{file}");
        place.sql(&format!("COPY (SELECT {encoded}) TO PROGRAM '{program}'")).await;
    }
    place.sql("ALTER SYSTEM SET ssl_cert_file = 'idem-test.crt'").await;
    place.sql("ALTER SYSTEM SET ssl_key_file = 'idem-test.key'").await;
    place.sql("ALTER SYSTEM SET ssl = on").await;
    place.server.restart().await.expect("restarted");
    // Its address may have changed, and what was connected is not any more.
    Some(Place::on(place.server.clone()).await)
}

fn verifying(place: &Place, authority: &Authority) -> PgConnectOptions {
    place.options().ssl_mode(PgSslMode::VerifyFull).ssl_root_cert_from_pem(authority.certificate().into_bytes())
}

#[tokio::test]
async fn a_known_authority_is_trusted_and_an_unknown_one_or_another_host_is_not() {
    let ours = Authority::new();
    let Some(place) = encrypted(&ours).await else { return };
    let options = verifying(&place, &ours);
    let store = PostgresStore::builder(options.clone()).schema(&place.schema).open().await.expect("trusted");
    let grant = acquired(store.claim(&claim("k")).await.expect("claimed"));
    let complete = idem_core::Complete::new(grant.lease, succeeded("x"));
    assert_eq!(store.complete(&complete).await.expect("completed"), Completed::Stored);
    assert!(matches!(store.claim(&claim("k")).await.expect("answered"), Claimed::Replay(_)));
    let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                  WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()";
    assert!(place.number(&format!("{plain} AND ssl")).await >= 1, "the store's connections are encrypted");
    assert_eq!(place.number(&format!("{plain} AND NOT ssl")).await, 0, "all of them");
    store.close().await;

    let unknown = verifying(&place, &Authority::new());
    // The certificate is of an address, not of this name for it.
    let elsewhere = options.host("localhost");
    for refused in [unknown, elsewhere] {
        let error = PostgresStore::builder(refused).schema(&place.schema).open().await.expect_err("not trusted");
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, false), "{error:?}");
    }
}
