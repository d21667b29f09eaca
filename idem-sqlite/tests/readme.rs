//! The code in the workspace's README does what its comments say.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on has failed

use std::sync::Arc;

use idem_core::{Error, Fault, Fingerprint, Idem, Identity, Key, Operation, Outcome, Request, Scope};
use idem_sqlite::SqliteStore;

mod provider {
    pub(crate) async fn charge(key: &str, _: &[u8]) -> Result<String, std::io::Error> {
        Ok(format!("charge under {key}"))
    }
}

async fn pay(idem: &Idem, user: &str, key: &str, body: Vec<u8>) -> Result<Outcome<String>, Error> {
    let operation = Operation::new("POST /payments")?;
    let fingerprint = Fingerprint::of(&operation).field("body", &body).finish();
    let identity = Identity::new(Scope::new(user)?, Key::new(key)?);
    idem.run(Request::new(identity, operation, fingerprint), |attempt| async move {
        // The provider gets the same key on every attempt, so that it refuses a second charge too.
        let charge = provider::charge(&attempt.downstream_key("charge"), &body).await?;
        Ok::<_, Fault>(charge)
    })
    .await
}

#[tokio::test]
async fn it_does_what_its_comments_say() {
    let folder = tempfile::tempdir().unwrap();
    let idem = Idem::new(Arc::new(SqliteStore::open(folder.path().join("app.db")).await.unwrap()));
    let ask = |user, body: &[u8]| pay(&idem, user, "k-1", body.to_vec());
    let Outcome::Executed(Ok(first)) = ask("alice", b"1000").await.unwrap() else { panic!("not executed") };
    assert_eq!(ask("alice", b"1000").await.unwrap(), Outcome::Replayed(Ok(first.clone())));
    assert_eq!(ask("alice", b"9999").await.unwrap(), Outcome::Mismatch);
    let Outcome::Executed(Ok(other)) = ask("bob", b"1000").await.unwrap() else { panic!("not executed") };
    assert_ne!(first, other);
}

#[test]
fn the_readme_shows_this_very_function() {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("```rust\n").unwrap();
    let (block, _) = rest.split_once("```\n").unwrap();
    let this_file = include_str!("readme.rs");
    for part in block.split("\n\n") {
        assert!(this_file.contains(part.trim_end()), "not tested here:\n{part}");
    }
}
