//! A cache that lies: what it says is not believed, and the database decides.

use idem_core::{Claimed, Complete, End, Identity, Response, Store};
use idem_redis_guard::redis::AsyncCommands;

use crate::support::{Fixture, acquired, body, builder, claim, identity, own_server, secs};

/// A claim is granted although Redis holds this for it.
async fn is_granted(fixture: &Fixture, key: &Identity, lie: &[u8]) {
    fixture.put(key, lie).await;
    acquired(fixture.guard.claim(&claim(key)).await);
}

#[tokio::test]
async fn forged_damaged_and_foreign_entries() {
    let Some(fixture) = Fixture::new().await else { return };
    let done = identity("done");
    fixture.finished(&done, b"mine").await;
    let genuine = fixture.entry(&done).await.expect("copied");

    is_granted(&fixture, &identity("empty"), b"").await;
    is_granted(&fixture, &identity("text"), b"SUCCEEDED").await;
    is_granted(&fixture, &identity("swapped"), &genuine).await;
    let other = Fixture::on(&crate::support::server().await.expect("still there"), |builder| builder).await;
    let same_key = identity("another store's");
    other.finished(&same_key, b"theirs").await;
    is_granted(&fixture, &same_key, &other.entry(&same_key).await.expect("copied")).await;

    let mut damaged = genuine.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    fixture.put(&done, &damaged).await;
    assert_eq!(body(fixture.guard.claim(&claim(&done)).await), b"mine", "by the database");
    assert_eq!(fixture.guard.counters().rejected, 5);
}

#[tokio::test]
async fn a_lie_is_in_nobodys_way() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("blocked");
    // It claims to be newer than everything, for ever.
    let mut lie = vec![b'9'; 21];
    lie.extend([0; 200]);
    fixture.put(&key, &lie).await;
    fixture.finished(&key, b"x").await;
    body(fixture.guard.claim(&claim(&key)).await);
    fixture.guard.flush().await;
    let before = fixture.store.calls();
    assert_eq!(body(fixture.guard.claim(&claim(&key)).await), b"x");
    assert_eq!(fixture.store.calls(), before, "the copy took the lie's place");
    let _: () = fixture.redis().await.del(fixture.name(&key)).await.expect("deleted");
    let _: () = fixture.redis().await.lpush(fixture.name(&key), "of another type").await.expect("pushed");
    assert_eq!(body(fixture.guard.claim(&claim(&key)).await), b"x");
}

#[tokio::test]
async fn entries_of_an_earlier_life() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("again");
    let short = || builder(&key).lease(secs(60)).retention(secs(120)).build().expect("valid");
    let grant = acquired(fixture.guard.claim(&short()).await);
    fixture.guard.flush().await;
    let hint = fixture.entry(&key).await.expect("a hint");
    let end = |body: &str| End::Succeeded(Response::new(200).with_body(body.to_owned()).into());
    fixture.guard.complete(&Complete::new(grant.lease, end("first"))).await.expect("completed");
    fixture.guard.flush().await;
    let age = secs(86_400 * 400);
    assert!(fixture.guard.age(&key, age).await && fixture.store.store.age(&key, age));
    let copy = fixture.entry(&key).await.expect("still there");
    let grant = acquired(fixture.guard.claim(&short()).await);
    fixture.guard.complete(&Complete::new(grant.lease, end("second"))).await.expect("completed");
    fixture.guard.flush().await;
    // Redis comes back from a backup.
    for old in [copy, hint] {
        fixture.put(&key, &old).await;
        let answer = fixture.guard.claim(&claim(&key)).await.expect("an answer");
        match answer {
            Claimed::InFlight { retry_after } => {
                assert!(retry_after <= secs(1).as_duration(), "the declared staleness")
            }
            other => assert_eq!(body(Ok(other)), b"second"),
        }
        fixture.guard.flush().await;
    }
}

#[tokio::test]
async fn a_late_write_finds_the_newer_entry() {
    let Some(server) = own_server().await else { return };
    let fixture = Fixture::on(&server, |builder| builder).await;
    let key = identity("late");
    let slow = builder(&key).lease(secs(60)).build().expect("valid");
    let first = acquired(fixture.guard.claim(&slow).await);
    fixture.guard.flush().await;
    let hint = fixture.entry(&key).await.expect("a hint");
    assert!(fixture.guard.age(&key, secs(61)).await && fixture.store.store.age(&key, secs(61)));
    let second = acquired(fixture.guard.claim(&claim(&key)).await);
    let end = End::Succeeded(Response::new(200).with_body("second's").into());
    fixture.guard.complete(&Complete::new(second.lease, end.clone())).await.expect("completed");
    fixture.guard.flush().await;
    let newest = fixture.entry(&key).await.expect("a copy");
    // The first owner's hint arrives only now, by the very script that writes.
    let script = idem_redis_guard::redis::Script::new(include_str!("../../src/newer.lua"));
    let mut connection = fixture.redis().await;
    let kept: bool =
        script.key(fixture.name(&key)).arg(&hint[..]).arg(60_000).invoke_async(&mut connection).await.expect("ran");
    assert!(!kept);
    // And the first owner itself: the database says that it lost, and nothing is copied.
    fixture.guard.complete(&Complete::new(first.lease, end)).await.expect("an answer");
    fixture.guard.flush().await;
    assert_eq!(fixture.entry(&key).await, Some(newest));
}
