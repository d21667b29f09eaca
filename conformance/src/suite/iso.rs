//! ISO: what is somebody else's is left alone.

use std::time::{Duration, Instant};

use idem_core::State;

use crate::harness::{Entry, Finish, Script, pause};
use crate::rules::{Profile, Rule, run};
use crate::trial::{Outcome, Stop, Trial, ensure, ensure_eq};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "ISO-001",
        slug: "one_key_in_two_scopes_is_two",
        clause: "identity",
        text: "The same key in two scopes is independent through all of its life.",
        why: "Two tenants choose the same key every day.",
        check: run!(two_scopes),
        ..Rule::of(Profile::Core)
    },
    Rule {
        id: "ISO-002",
        slug: "held_transaction_blocks_no_other_key",
        clause: "C11, J2",
        text: "A caller's open transaction on one key does not block claims of other keys.",
        why: "One slow caller must not stop everybody: a global lock is not idempotency.",
        check: run!(other_keys),
        ..Rule::of(Profile::Networked)
    },
];

async fn two_scopes(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (one, two) = (t.named("tenant-1", "order-1")?, t.named("tenant-2", "order-1")?);
    let first = t.acquire(&one).await?;
    let second = store.acquire(&t.other_request(&two)?, "of the same key in another scope").await?;

    let before = t.record(&two).await?;
    store.store_end(&first.lease, t.succeeded()).await?;
    t.unchanged(&before, "the end of the same key in another scope").await?;

    let before = t.record(&one).await?;
    store.give_back(&second.lease).await?;
    t.unchanged(&before, "the release of the same key in another scope").await?;
    store.replay(&t.usual(&one)?, "of the finished key").await?;
    let again = store.acquire(&t.usual(&two)?, "of the released key in another scope").await?;
    ensure_eq!(again.lease.attempt, 1, "the attempt in the other scope");
    ensure_eq!(t.record(&one).await?.state, State::Succeeded, "the finished key, all along");
    Ok(())
}

async fn other_keys(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (held, free) = (t.identity()?, t.identity()?);
    let (mut rule, script) = pause();
    let entry = Entry::Once { claim: t.usual(&held)?, end: t.succeeded() };
    let script = Script::new(entry).row("held").pause(script).finish(Finish::Rollback);
    let transaction = t.harness().transaction(t.namespace(), script);
    let others = async {
        ensure!(rule.reached().await, "the transaction ended before its pause");
        let began = Instant::now();
        let grant = store.acquire(&t.usual(&free)?, "of another key, while a transaction is open").await;
        let took = began.elapsed();
        rule.go_on();
        store.store_end(&grant?.lease, t.succeeded()).await?;
        ensure!(took < Duration::from_secs(5), "a claim of another key took {took:?} while a transaction was open");
        Ok::<(), Stop>(())
    };
    let (played, others) = tokio::join!(transaction, others);
    t.hooked(crate::harness::Hook::Transaction, played)?;
    others
}
