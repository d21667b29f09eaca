//! Encrypted connections, to a server whose certificate is from an authority that only this test knows.
//!
//! On MySQL, which takes new certificates from a statement; MariaDB has them in its configuration only.

#![allow(clippy::expect_used)] // A test fails by panicking.

use conformance::drill::Authority;
use conformance::provider::{Endpoint, Kind, Server, Way, wanted};
use idem_core::{Claim, Claimed, Complete, Completed, End, ErrorKind, Fingerprint, Identity, Key, Operation, Response};
use idem_core::{Scope, Store};
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Conn, Opts, OptsBuilder, SslOpts};
use idem_mysql::{Builder, MySqlStore};

/// A server of its own that shows a certificate of this authority.
async fn encrypted(authority: &Authority) -> Option<(Server, Endpoint)> {
    let server = wanted(Kind::MySql).await?;
    if server.origin().way == Way::Url {
        eprintln!("not run: the certificates of a server that was given by URL are not ours to change");
        return None;
    }
    let endpoint = server.endpoint().database("encrypted");
    let host = endpoint.host().expect("a host");
    let mut admin = Conn::from_url(server.endpoint().database("").url()).await.expect("connected");
    let folder: Option<Option<String>> = admin.query_first("SELECT @@secure_file_priv").await.expect("read");
    let folder = folder.flatten().expect("the server may write files");
    let name = format!("idem-tls-{}", std::process::id());
    let (certificate, key) = authority.issue(host);
    for (kind, text) in [("ca", authority.certificate()), ("cert", certificate), ("key", key)] {
        // The server writes it, wherever it runs.
        let file = format!("{}/{name}-{kind}.pem", folder.trim_end_matches('/'));
        admin.query_drop(format!("SELECT '{text}' INTO DUMPFILE '{file}'")).await.expect("written");
        admin.query_drop(format!("SET GLOBAL ssl_{kind} = '{file}'")).await.expect("set");
    }
    admin.query_drop("ALTER INSTANCE RELOAD TLS").await.expect("taken");
    admin.query_drop("CREATE DATABASE encrypted").await.expect("made");
    admin.disconnect().await.expect("disconnected");
    Some((server, endpoint))
}

fn roots(authority: &Authority) -> SslOpts {
    SslOpts::default()
        .with_root_certs(vec![authority.certificate().into_bytes().into()])
        .with_disable_built_in_roots(true)
}

fn options(endpoint: &Endpoint, ssl: SslOpts) -> OptsBuilder {
    OptsBuilder::from_opts(Opts::from_url(endpoint.url()).expect("a URL")).ssl_opts(ssl)
}

fn claim() -> Claim {
    let operation = Operation::new("test").expect("valid");
    let fingerprint = Fingerprint::of(&operation).finish();
    let identity = Identity::new(Scope::global(), Key::new("k").expect("valid"));
    Claim::builder(identity, operation, fingerprint).build().expect("valid")
}

#[tokio::test]
async fn a_known_authority_is_trusted_and_an_unknown_one_or_another_host_is_not() {
    let ours = Authority::new();
    let Some((server, endpoint)) = encrypted(&ours).await else { return };
    let builder: fn(OptsBuilder) -> Builder = MySqlStore::builder;
    let trusting = options(&endpoint, roots(&ours));
    let store = builder(trusting.clone()).open().await.expect("trusted");
    let Claimed::Acquired(grant) = store.claim(&claim()).await.expect("claimed") else { panic!("a new key") };
    let complete = Complete::new(grant.lease, End::Succeeded(Response::new(201).into()));
    assert_eq!(store.complete(&complete).await.expect("completed"), Completed::Stored);
    assert!(matches!(store.claim(&claim()).await.expect("answered"), Claimed::Replay(_)));
    store.close().await;
    let mut connection = Conn::new(trusting).await.expect("connected");
    let cipher: Option<(String, String)> =
        connection.query_first("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await.expect("read");
    assert!(cipher.is_some_and(|(_, cipher)| !cipher.is_empty()), "such connections are encrypted");
    connection.disconnect().await.expect("disconnected");

    let unknown = roots(&Authority::new());
    let elsewhere = roots(&ours).with_danger_tls_hostname_override(Some("db.example"));
    for refused in [unknown, elsewhere] {
        let error = builder(options(&endpoint, refused)).open().await.expect_err("not trusted");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    server.close().await;
}
