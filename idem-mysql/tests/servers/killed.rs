//! The server is killed under load, again and again.

use conformance::drill::killed_twenty_times;
use conformance::fault::Proxy;
use conformance::provider::{Policy, Way, start};
use idem_mysql::MySqlStore;
use idem_mysql::mysql_async::Conn;
use idem_mysql::mysql_async::prelude::Queryable;

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![twenty_kills_lose_nothing_that_was_answered];

async fn twenty_kills_lose_nothing_that_was_answered(fixture: Fixture) {
    if fixture.way == Way::Url {
        eprintln!("not run: a server that was given by URL is not ours to kill");
        return;
    }
    // One of its own: the others' trials go on meanwhile.
    let server = start(fixture.kind, &Policy::default().only(fixture.way)).await.expect("started");
    let mut admin = Conn::from_url(server.endpoint().database("").url()).await.expect("connected");
    admin.query_drop("CREATE DATABASE killed").await.expect("made");
    admin.disconnect().await.expect("disconnected");
    let proxy = Proxy::before(server.endpoint().address().await.expect("resolved").expect("an address"));
    let proxy = proxy.await.expect("a port");
    let endpoint = server.endpoint().database("killed").through(proxy.address());
    let store = MySqlStore::open(endpoint.url()).await.expect("opened");
    killed_twenty_times(&server, &proxy, &store).await;
    store.close().await;
    server.close().await;
}
