//! SCHEMA: tables of every age.

use futures::future::join_all;

use crate::harness::{How, OpenError, Schema};
use crate::rules::{Profile, Rule, run};
use crate::trial::{Outcome, Stage, Stop, Trial, ensure_eq};

const DURABLE: Rule = Rule { clause: "X4", ..Rule::of(Profile::Durable) };

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "SCHEMA-001",
        slug: "migrating_again_and_at_once_is_safe",
        text: "Creating and upgrading the tables twice, and by several handles at once, is safe and loses no record.",
        why: "Every process of a deployment starts at the same moment.",
        check: run!(migrate_at_once),
        ..DURABLE
    },
    Rule {
        id: "SCHEMA-002",
        slug: "other_versions_are_never_misread",
        text: "Tables of a newer version are refused as Schema; of an older one refused or upgraded.",
        why: "A deployment that is rolled back must not misread what the newer one wrote.",
        check: run!(other_versions),
        ..DURABLE
    },
];

async fn migrate_at_once(t: &Trial) -> Outcome {
    // The namespace is new, so the first openings are the ones that create the tables.
    let usual = How::usual();
    for opened in join_all((0..4).map(|_| t.open(&usual))).await {
        let handle = opened?;
        let identity = t.identity()?;
        handle.acquire(&t.usual(&identity)?, "through a handle that was opened with others at once").await?;
    }
    let (identity, _) = t.staged(Stage::Succeeded).await?;
    let before = t.record(&identity).await?;
    for opened in join_all((0..4).map(|_| t.open(&usual))).await {
        opened?.replay(&t.usual(&identity)?, "through a handle that was opened later").await?;
    }
    t.unchanged(&before, "opening more handles").await
}

async fn other_versions(t: &Trial) -> Outcome {
    super::errors::refused_as_schema(t, Schema::Newer).await?;
    match t.harness().open(t.namespace(), &How::usual().finding(Schema::Older)).await {
        Err(OpenError::Refused(error)) => {
            ensure_eq!(error.kind(), idem_core::ErrorKind::Schema, "the refusal of an older schema");
            Ok(())
        }
        // There is no older version yet: nothing that could be misread.
        Err(OpenError::Unsupported(_)) => Ok(()),
        Err(other) => Err(Stop::of_opening(other, false)),
        Ok((_guard, store)) => {
            let identity = t.identity()?;
            let claim = t.usual(&identity)?;
            let answer = store.claim(&claim).await.map_err(|error| Stop::Fail(format!("after an upgrade: {error}")))?;
            match answer {
                idem_core::Claimed::Acquired(_) => Ok(()),
                other => Err(Stop::Fail(format!("a first claim after an upgrade was answered {other:?}"))),
            }
        }
    }
}
