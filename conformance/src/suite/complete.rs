//! COMPLETE: how an attempt ends, once.

use idem_core::{Completed, End, ErrorKind, Fence, Final, Recorded, Response, Span, State};

use crate::rules::{Profile, Rule, run};
use crate::trial::{
    Handle, LEASE, MARGIN, Outcome, RETENTION, Stage, Stop, Trial, built, ensure, ensure_eq, minus, plus,
};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "COMPLETE-001",
        slug: "end_is_seen_by_an_independent_read",
        clause: "F4, F6",
        text: "After Succeeded, Failed and Unknown an independent read shows that state with the response.",
        why: "An end that nobody can read did not happen for the next claimant.",
        check: run!(end_is_read),
        ..CORE
    },
    Rule {
        id: "COMPLETE-002",
        slug: "failed_is_replayed_and_unknown_is_not",
        clause: "C4, C7, P5",
        text: "Failed is replayed; Unknown is never replayed and never forgotten.",
        why: "A declined card stays declined; a 503 is not an answer to give again.",
        check: run!(failed_and_unknown),
        ..CORE
    },
    Rule {
        id: "COMPLETE-003",
        slug: "repeated_completion_is_already_stored",
        clause: "F2",
        text: "The same completion again is AlreadyStored, and changes nothing.",
        why: "A completion whose reply was lost has to be repeatable.",
        check: run!(repeated),
        ..CORE
    },
    Rule {
        id: "COMPLETE-004",
        slug: "first_completion_stays",
        clause: "F2",
        text: "The same token with another end or body is AlreadyStored too, and the first stays.",
        why: "A client that has read the first answer must never read another one.",
        check: run!(first_stays),
        ..CORE
    },
    Rule {
        id: "COMPLETE-005",
        slug: "forged_token_is_lost",
        clause: "F1, F3",
        text: "A completion with an unknown token is Lost, and creates and changes nothing.",
        why: "Only the attempt that ran knows how it ended.",
        check: run!(forged),
        ..CORE
    },
    Rule {
        id: "COMPLETE-006",
        slug: "exactly_one_record_changes",
        clause: "F5",
        text: "A completion changes exactly one record: no neighbour in scope or key.",
        why: "An UPDATE with half of the key ends other people's operations.",
        check: run!(one_record),
        ..CORE
    },
    Rule {
        id: "COMPLETE-007",
        slug: "lapsed_attempt_may_complete",
        clause: "F1",
        text: "A lapsed attempt that nobody took over completes as Stored, and the next claim agrees.",
        why: "The effect has happened: refusing its record makes somebody run it again.",
        check: run!(lapsed),
        ..CORE
    },
    Rule {
        id: "COMPLETE-008",
        slug: "stored_is_seen_by_another_handle",
        clause: "F4",
        text: "Stored is answered only after commit: a second handle replays it at once.",
        why: "A client that was told of an end that then vanishes is charged twice.",
        check: run!(stored_is_committed),
        ..Rule::of(Profile::Shared)
    },
    Rule {
        id: "COMPLETE-009",
        slug: "response_over_the_limit_is_too_large",
        clause: "F7",
        text: "A response of the declared limit is kept; one byte more, in meta or body, is TooLarge, and the record can still be completed.",
        why: "An operation must not run again because its answer was long.",
        check: run!(too_large),
        ..CORE
    },
    Rule {
        id: "COMPLETE-010",
        slug: "tombstone_is_replayed_as_such",
        clause: "F7",
        text: "A tombstone is replayed as \"done, response not kept\", with its code.",
        why: "A replay that invents an empty response lies to the client.",
        check: run!(tombstone),
        ..CORE
    },
    Rule {
        id: "COMPLETE-011",
        slug: "late_end_is_replayable_for_the_floor",
        clause: "F6b",
        text: "A record that is finished after its retention is used up stays replayable for the floor, and no longer.",
        why: "Otherwise a long operation's first retry runs it again.",
        check: run!(floor),
        ..CORE
    },
];

async fn end_is_read(t: &Trial) -> Outcome {
    t.reads_independently().await?;
    let store = t.store().await?;
    for (end, state) in [
        (t.succeeded(), State::Succeeded),
        (t.failed(), State::Failed),
        (t.unknown(), State::Unknown),
        (End::Unknown(None), State::Unknown),
    ] {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        let before = t.record(&identity).await?;
        store.store_end(&grant.lease, end.clone()).await?;
        let after = t.record(&identity).await?;
        ensure_eq!(after.state, state, "the state after the end");
        ensure!(after.recorded.as_ref() == end.recorded(), "the record has another response than the completion");
        ensure!(after.ended_at.is_some_and(|at| at >= before.claimed_at), "the record does not say when it ended");
        ensure_eq!((after.token, after.fence), (before.token, before.fence), "whose record it is, after its end");
        ensure_eq!(after.expires_at, before.expires_at, "until when it is kept: fixed by the claim");
    }
    Ok(())
}

async fn failed_and_unknown(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, _) = t.staged(Stage::Failed).await?;
    let replay = store.replay(&t.usual(&identity)?, "of a FAILED record").await?;
    ensure_eq!(replay.end, Final::Failed, "how the replayed record ended");

    let (identity, _) = t.staged_held(Stage::Unknown).await?;
    t.age(&identity, Span::saturating_secs(3 * 365 * 86_400)).await?;
    let before = t.record(&identity).await?;
    if t.declaration().claims(Profile::Maintained) {
        store.purge_all(100).await?;
        t.unchanged(&before, "purge, of an UNKNOWN record under Hold,").await?;
    }
    let uncertain = store.uncertain(&t.usual(&identity)?, "of an UNKNOWN record, three years later").await?;
    ensure_eq!(uncertain.evidence, before.recorded, "the evidence, three years later");
    t.unchanged(&before, "a claim of an UNKNOWN record").await
}

async fn repeated(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for end in [t.succeeded(), t.failed(), t.unknown()] {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        store.store_end(&grant.lease, end.clone()).await?;
        let before = t.record(&identity).await?;
        for _ in 0..2 {
            let again = store.complete(&grant.lease, end.clone()).await?;
            ensure_eq!(again, Completed::AlreadyStored, "the same completion again");
            t.unchanged(&before, "the same completion again").await?;
        }
    }
    Ok(())
}

async fn first_stays(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let ends = || [t.succeeded(), t.failed(), t.unknown(), End::Succeeded(Recorded::Tombstone { code: 200 })];
    for first in ends() {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        store.store_end(&grant.lease, first).await?;
        let before = t.record(&identity).await?;
        for second in ends() {
            let again = store.complete(&grant.lease, second).await?;
            ensure_eq!(again, Completed::AlreadyStored, "another completion with the same token");
            t.unchanged(&before, "another completion with the same token").await?;
        }
    }
    Ok(())
}

async fn forged(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Processing, Stage::Lapsed, Stage::Succeeded, Stage::Unknown, Stage::Released] {
        let (identity, grant) = t.staged(stage).await?;
        let before = t.record(&identity).await?;
        let mut forged = grant.lease.clone();
        forged.token = t.token();
        lost(&store, &forged, t.failed(), "with a token that nobody was granted").await?;
        t.unchanged(&before, "a completion with a forged token").await?;
        forged = grant.lease;
        forged.fence = Fence::new(forged.fence.get() + 1);
        lost(&store, &forged, t.failed(), "with a fence that nobody was granted").await?;
        t.unchanged(&before, "a completion with a forged fence").await?;
    }
    let (_, grant) = t.staged(Stage::Processing).await?;
    let mut absent = grant.lease;
    absent.identity = t.identity()?;
    lost(&store, &absent, t.succeeded(), "of an identity that was never claimed").await?;
    ensure_eq!(t.read(&absent.identity).await?, None, "the record after a completion of an absent identity");
    Ok(())
}

async fn lost(store: &Handle, lease: &idem_core::Lease, end: End, what: &str) -> Outcome {
    let answer = store.complete(lease, end).await?;
    ensure_eq!(answer, Completed::Lost, "a completion {what}");
    Ok(())
}

async fn one_record(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let target = t.named("tenant-1", "key-1")?;
    let grant = t.acquire(&target).await?;
    let mut neighbours = Vec::new();
    for (scope, key) in [("tenant-1", "key-2"), ("tenant-2", "key-1"), ("key-1", "tenant-1"), ("tenant-2", "key-2")] {
        let identity = t.named(scope, key)?;
        t.acquire(&identity).await?;
        neighbours.push(t.record(&identity).await?);
    }
    store.store_end(&grant.lease, t.succeeded()).await?;
    ensure_eq!(t.record(&target).await?.state, State::Succeeded, "the completed record");
    for neighbour in &neighbours {
        t.unchanged(neighbour, "the completion of another record").await?;
    }
    Ok(())
}

async fn lapsed(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Lapsed).await?;
    let end = t.succeeded();
    store.store_end(&grant.lease, end.clone()).await?;
    let replay = store.replay(&t.usual(&identity)?, "of a record that its lapsed owner has finished").await?;
    ensure!(Some(&replay.recorded) == end.recorded(), "the replay has another response than the lapsed owner's");
    ensure_eq!(t.record(&identity).await?.state, State::Succeeded, "the record that its lapsed owner has finished");
    Ok(())
}

async fn stored_is_committed(t: &Trial) -> Outcome {
    let (first, second) = (t.store().await?, t.second().await?);
    for _ in 0..8 {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        let end = t.succeeded();
        first.store_end(&grant.lease, end.clone()).await?;
        let replay = second.replay(&t.usual(&identity)?, "through a second handle, right after Stored").await?;
        ensure!(Some(&replay.recorded) == end.recorded(), "a second handle replays another response");
    }
    Ok(())
}

async fn too_large(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let limit = t.response_limit()?;
    let whole = |body: usize, meta: usize| Response::new(200).with_body(t.bytes(body)).with_meta(t.bytes(meta));
    for response in [whole(limit, 0), whole(limit - 100, 100)] {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        store.store_end(&grant.lease, End::Succeeded(response.clone().into())).await?;
        let replay = store.replay(&t.usual(&identity)?, "of a response as long as the limit").await?;
        ensure!(replay.recorded == Recorded::Response(response), "a response as long as the limit did not come back");
    }
    for response in [whole(limit + 1, 0), whole(limit - 99, 100), whole(0, limit + 1)] {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        let before = t.record(&identity).await?;
        let end = End::Succeeded(response.into());
        match store.try_complete(&grant.lease, end.clone()).await? {
            Err(error) => ensure_eq!(error.kind(), ErrorKind::TooLarge, "the error of a response over the limit"),
            Ok(answer) => return Err(Stop::Fail(format!("a response over the limit was answered {answer:?}"))),
        }
        t.unchanged(&before, "a response over the limit").await?;
        store.store_end(&grant.lease, end.without_response()).await?;
        store.replay(&t.usual(&identity)?, "of a record whose response was too long").await?;
    }
    Ok(())
}

async fn tombstone(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for (end, expected) in [
        (End::Succeeded(Recorded::Tombstone { code: 201 }), Final::Succeeded),
        (End::Failed(Recorded::Tombstone { code: 402 }), Final::Failed),
    ] {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        store.store_end(&grant.lease, end.clone()).await?;
        let replay = store.replay(&t.usual(&identity)?, "of a tombstone").await?;
        ensure_eq!(replay.end, expected, "how the record with a tombstone ended");
        ensure!(Some(&replay.recorded) == end.recorded(), "a tombstone was replayed as {:?}", replay.recorded);
    }
    Ok(())
}

async fn floor(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let floor = idem_core::machine::Rules::default().floor;
    let identity = t.identity()?;
    let brief = built(t.claim(&identity)?.retention(LEASE))?;
    let grant = store.acquire(&brief, "with a retention that is only as long as the lease").await?;
    t.age(&identity, plus(LEASE, RETENTION)).await?;
    store.store_end(&grant.lease, t.succeeded()).await?;
    store.replay(&brief, "right after an end that came after the retention").await?;
    t.age(&identity, minus(floor, MARGIN)).await?;
    store.replay(&brief, "shortly before the floor ends").await?;
    t.age(&identity, plus(MARGIN, MARGIN)).await?;
    store.acquire(&t.usual(&identity)?, "after the floor has ended").await?;
    Ok(())
}
