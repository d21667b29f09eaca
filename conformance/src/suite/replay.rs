//! REPLAY: what comes back is what went in.

use bytes::{Bytes, BytesMut};
use idem_core::{End, Recorded, Replay, Response};

use crate::rules::{Profile, Rule, run};
use crate::trial::{Outcome, Stage, Stop, Trial, ensure, ensure_eq};

const CORE: Rule = Rule { clause: "F6", ..Rule::of(Profile::Core) };

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "REPLAY-001",
        slug: "body_is_byte_identical",
        text: "A body comes back byte for byte: empty, NUL, all 256 values, invalid UTF-8, and as long as the limit.",
        why: "A body that was decoded, trimmed or reformatted breaks its signature and its client.",
        check: run!(body),
        ..CORE
    },
    Rule {
        id: "REPLAY-002",
        slug: "absent_empty_and_null_are_three",
        text: "An absent body, an empty one and `null` are three different things.",
        why: "204 has no body, and an empty file is a file.",
        check: run!(absent),
        ..CORE
    },
    Rule {
        id: "REPLAY-003",
        slug: "meta_and_code_are_exact",
        text: "Meta is as exact as the body, and every code comes back, 0 and 65535 too.",
        why: "Headers repeat and have an order; a map in between loses both.",
        check: run!(meta),
        ..CORE
    },
    Rule {
        id: "REPLAY-004",
        slug: "replays_are_equal",
        clause: "C4, F6",
        text: "All replays are equal, for every claimant and policy, and change nothing.",
        why: "Two clients that compare their answers must find one operation.",
        check: run!(equal),
        ..CORE
    },
    Rule {
        id: "REPLAY-005",
        slug: "returned_values_are_detached",
        text: "Changing what a replay returned changes no later replay.",
        why: "A store that hands out its own buffer lets one caller change another's answer.",
        check: run!(detached),
        ..CORE
    },
];

impl Trial {
    async fn replayed(&self, response: &Response) -> Result<Replay, Stop> {
        let (identity, grant) = self.staged(Stage::Processing).await?;
        let store = self.store().await?;
        store.store_end(&grant.lease, End::Succeeded(response.clone().into())).await?;
        let replay = store.replay(&self.usual(&identity)?, "of a finished identity").await?;
        ensure!(
            self.record(&identity).await?.recorded.as_ref() == Some(&replay.recorded),
            "the replay differs from the record"
        );
        Ok(replay)
    }

    async fn comes_back(&self, what: &str, response: Response) -> Outcome {
        match self.replayed(&response).await?.recorded {
            Recorded::Response(back) if back == response => Ok(()),
            other => Err(Stop::Fail(format!("{what} did not come back: {other:?} instead of {response:?}"))),
        }
    }
}

async fn body(t: &Trial) -> Outcome {
    let limit = t.response_limit()?;
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for (what, body) in [
        ("an empty body", Vec::new()),
        ("a body of all 256 values", all),
        ("a body of NUL bytes", vec![0; 5]),
        ("a body that is not UTF-8", vec![0x00, 0xff, 0xfe, 0x80, 0xc3, 0x28]),
        ("a body with spaces at both ends", b"  {\"a\" : 1.0}\r\n ".to_vec()),
        ("JSON with an order and a repeated name", br#"{"b":1,"a":2,"a":1e2}"#.to_vec()),
        ("a body that looks like an escape", br"\x00\\000%00".to_vec()),
        ("a body as long as the limit", t.bytes(limit)),
    ] {
        t.comes_back(what, Response::new(200).with_body(body)).await?;
    }
    Ok(())
}

async fn absent(t: &Trial) -> Outcome {
    t.comes_back("an absent body", Response::new(204)).await?;
    t.comes_back("an empty body", Response::new(200).with_body(Bytes::new())).await?;
    t.comes_back("the body `null`", Response::new(200).with_body("null")).await?;
    t.comes_back("the body `None`", Response::new(200).with_body("None")).await
}

async fn meta(t: &Trial) -> Outcome {
    let all: Vec<u8> = (0..=u8::MAX).rev().collect();
    for (what, meta) in [
        ("an empty meta", Vec::new()),
        ("repeated headers in an order", b"\x01b: 2\na: 1\nb: 1\nB: 2\n".to_vec()),
        ("a meta of all 256 values", all),
        ("a meta that is not UTF-8", vec![0xff, 0x00, 0xfe]),
    ] {
        t.comes_back(what, Response::new(200).with_meta(meta.clone())).await?;
        t.comes_back(what, Response::new(200).with_meta(meta).with_body("body")).await?;
    }
    for code in [0, 1, 199, 599, 1_000, 32_767, 32_768, u16::MAX] {
        t.comes_back(&format!("code {code}"), Response::new(code)).await?;
        let (identity, grant) = t.staged(Stage::Processing).await?;
        let store = t.store().await?;
        store.store_end(&grant.lease, End::Failed(Recorded::Tombstone { code })).await?;
        let replay = store.replay(&t.usual(&identity)?, "of a tombstone").await?;
        ensure_eq!(replay.recorded.code(), code, "the code of a tombstone");
    }
    Ok(())
}

async fn equal(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Succeeded, Stage::Failed] {
        let (identity, grant) = t.staged(stage).await?;
        let before = t.record(&identity).await?;
        let first = store.replay(&t.usual(&identity)?, "of a finished identity").await?;
        for claim in [
            t.usual(&identity)?,
            t.holding(&identity)?,
            crate::trial::built(t.claim(&identity)?.token(grant.lease.token))?,
            crate::trial::built(t.claim(&identity)?.resolving())?,
        ] {
            let next = store.replay(&claim, "of a finished identity").await?;
            ensure!(next == first, "two replays differ: {first:?} and {next:?}");
        }
        t.unchanged(&before, "a replay").await?;
    }
    Ok(())
}

async fn detached(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Processing).await?;
    let original = t.response(200);
    store.store_end(&grant.lease, End::Succeeded(original.clone().into())).await?;
    for _ in 0..2 {
        let replay = store.replay(&t.usual(&identity)?, "of a finished identity").await?;
        let Recorded::Response(response) = replay.recorded else {
            return Err(Stop::Fail("a response was replayed as a tombstone".into()));
        };
        ensure!(response == original, "a replay shows what another caller wrote into its own copy");
        for bytes in [response.meta, response.body.unwrap_or_default()] {
            // Whoever holds the only reference may write into it without a copy.
            let mut own: BytesMut = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
            own.fill(0);
        }
    }
    Ok(())
}
