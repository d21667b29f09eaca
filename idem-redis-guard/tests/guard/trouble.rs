//! Redis in trouble: the database decides, and nobody waits long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::fault::Proxy;
use conformance::provider::Server;
use idem_core::Store;
use idem_redis_guard::redis;
use idem_redis_guard::{Breaker, RedisGuard};

use crate::support::{Counted, Fixture, Guard, acquired, body, claim, identity, own_server};

/// A whole life through a guard whose Redis is no help.
async fn works(guard: &Guard, key: &str) {
    let key = identity(key);
    let grant = acquired(guard.claim(&claim(&key)).await);
    let end = idem_core::End::Succeeded(idem_core::Response::new(200).with_body("x").into());
    guard.complete(&idem_core::Complete::new(grant.lease, end)).await.expect("completed");
    assert_eq!(body(guard.claim(&claim(&key)).await), b"x");
    guard.flush().await;
}

async fn in_front_of(url: &str, patience: Duration) -> (Guard, Arc<Counted>) {
    let store = Arc::<Counted>::default();
    let guard = RedisGuard::builder(Arc::clone(&store)).patience(patience).redis(url).expect("a URL");
    guard.ready().await.expect("the store answers");
    (guard, store)
}

#[tokio::test]
async fn a_server_that_was_never_there() {
    // The port of a listener that is gone.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("an address").port();
    let (guard, _) = in_front_of(&format!("redis://127.0.0.1:{port}"), Duration::from_millis(25)).await;
    for number in 0..20 {
        works(&guard, &format!("k{number}")).await;
    }
    assert_eq!(guard.breaker(), Breaker::Open);
    let counters = guard.counters();
    assert!(counters.failures < 20, "the breaker spares it: {counters:?}");
    assert!(counters.bypasses > 10, "{counters:?}");
    assert_eq!(guard.check().await.len(), 1);
}

#[tokio::test]
async fn a_bad_url_is_refused_without_showing_it() {
    let store = Arc::<Counted>::default();
    let error = RedisGuard::builder(store).redis("http://:secret@host").expect_err("refused");
    assert_eq!(error.kind(), idem_core::ErrorKind::InvalidInput);
    assert!(!format!("{error:?}").contains("secret"));
}

#[tokio::test]
async fn a_frozen_server_costs_its_patience_a_few_times() {
    let Some(server) = own_server().await else { return };
    let patience = Duration::from_millis(30);
    let (guard, _) = in_front_of(server.endpoint().url(), patience).await;
    works(&guard, "before").await;
    server.freeze().await.expect("frozen");
    let began = Instant::now();
    for number in 0..50 {
        works(&guard, &format!("k{number}")).await;
    }
    let took = began.elapsed();
    server.thaw().await.expect("thawed");
    assert!(guard.counters().failures > 0, "{:?}", guard.counters());
    // A hundred claims and their writes, each waiting, would take three times this.
    assert!(took < 100 * patience, "{took:?}");
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_empty() {
    let Some(server) = own_server().await else { return };
    // Without a pause every call asks whether Redis is back.
    let address = async || server.endpoint().address().await.expect("resolved").expect("an address");
    // It may come back at another port.
    let proxy = Proxy::before(address().await).await.expect("a port");
    let endpoint = server.endpoint().through(proxy.address());
    let fixture = Fixture::at(&endpoint, |builder| builder.breaker(2, Duration::ZERO)).await;
    let key = identity("kept");
    fixture.finished(&key, b"kept").await;
    assert_eq!(body(fixture.guard.claim(&claim(&key)).await), b"kept");
    server.sigkill().await.expect("killed");
    assert_eq!(body(fixture.guard.claim(&claim(&key)).await), b"kept");
    works(&fixture.guard, "meanwhile").await;
    server.start().await.expect("started");
    proxy.lead_to(address().await);
    let deadline = Instant::now() + Duration::from_secs(30);
    while fixture.guard.counters().replays < 2 {
        assert!(Instant::now() < deadline, "Redis is back, and not used: {:?}", fixture.guard.counters());
        assert_eq!(body(fixture.guard.claim(&claim(&key)).await), b"kept");
        fixture.guard.flush().await;
        tokio::task::yield_now().await;
    }
}

async fn config(server: &Server, settings: &[(&str, &str)]) {
    let client = redis::Client::open(server.endpoint().url()).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connected");
    for (name, value) in settings {
        let _: () =
            redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query_async(&mut connection).await.expect("set");
    }
}

#[tokio::test]
async fn a_server_that_evicts_and_is_flushed() {
    let Some(server) = own_server().await else { return };
    config(&server, &[("maxmemory", "2mb"), ("maxmemory-policy", "allkeys-lru")]).await;
    let fixture = Fixture::on(&server, |builder| builder).await;
    let large = [7; 20_000];
    for number in 0..200 {
        fixture.finished(&identity(&format!("k{number}")), &large).await;
        if number % 67 == 0 {
            let _: () = redis::cmd("FLUSHALL").query_async(&mut fixture.redis().await).await.expect("flushed");
        }
    }
    for number in 0..200 {
        assert_eq!(body(fixture.guard.claim(&claim(&identity(&format!("k{number}")))).await), large);
    }
    let counters = fixture.guard.counters();
    assert!(counters.misses > 200, "it evicted: {counters:?}");
    assert!(fixture.guard.check().await.iter().any(|finding| finding.what.contains("maxmemory")));
}

#[tokio::test]
async fn a_server_that_is_full_and_evicts_nothing() {
    let Some(server) = own_server().await else { return };
    let fixture = Fixture::on(&server, |builder| builder).await;
    config(&server, &[("maxmemory", "1"), ("maxmemory-policy", "noeviction")]).await;
    works(&fixture.guard, "full").await;
    assert!(fixture.guard.counters().failures > 0);
    assert_eq!(fixture.guard.check().await.len(), 3, "{:?}", fixture.guard.check().await);
}

#[tokio::test]
async fn a_read_only_replica() {
    let (Some(primary), Some(replica)) = (own_server().await, own_server().await) else { return };
    let of = primary.endpoint();
    let (host, port) = (of.host().expect("a host"), of.port().expect("a port").to_string());
    let client = redis::Client::open(replica.endpoint().url()).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connected");
    let _: () = redis::cmd("REPLICAOF").arg(host).arg(&port).query_async(&mut connection).await.expect("a replica");
    let fixture = Fixture::on(&replica, |builder| builder).await;
    works(&fixture.guard, "read only").await;
    assert!(fixture.guard.counters().failures > 0, "{:?}", fixture.guard.counters());
    let findings = fixture.guard.check().await;
    assert!(findings.iter().any(|finding| finding.what.contains("replica")), "{findings:?}");
}

#[tokio::test]
async fn nothing_but_the_store_grants() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("new");
    let before = fixture.store.calls();
    acquired(fixture.guard.claim(&claim(&key)).await);
    assert_eq!(fixture.store.calls(), before + 1);
}
