//! The suite as somebody adopts it who writes the three required methods and nothing else.

use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use conformance::harness::{Declaration, Guard, Harness, How, Implementation, Namespace, OpenError};
use conformance::{Profile, Status, Verdict, assert_conformant};
use idem_core::{MemoryStore, Store};

struct Bare;

#[async_trait]
impl Harness for Bare {
    fn identity(&self) -> Implementation {
        Implementation::new("bare", "1.2.3").at("mydb://me:hunter2@localhost/records?token=hunter2")
    }

    fn declare(&self) -> Declaration {
        Declaration::core().with(Profile::Maintained)
    }

    async fn open(&self, _: &Namespace, how: &How) -> Result<(Guard, Arc<dyn Store>), OpenError> {
        if !how.is_usual() {
            return Err(OpenError::Unsupported("only the usual".into()));
        }
        Ok((Guard::none(), Arc::new(MemoryStore::new())))
    }
}

#[tokio::test]
async fn missing_hooks_are_gaps_and_never_passes() {
    let report = assert_conformant(Bare).await;
    assert_eq!(report.verdict, Verdict::Partial);
    let (status, reason) = report.rule("LEASE-001").expect("known");
    assert_eq!((status, reason), (Status::NotRun, "the harness has no `age`"));
    assert_eq!(report.rule("CLAIM-001").map(|(status, _)| status), Some(Status::NotRun), "no read is independent");
    assert_eq!(report.rule("SPENT-001").map(|(status, _)| status), Some(Status::NotRun), "it keeps for a fixed time");
    assert_eq!(report.rule("CLAIM-002").map(|(status, _)| status), Some(Status::Pass));
    for gap in ["no `age`", "no `peek`", "no `open`", "read records through the store itself"] {
        assert!(report.summary().contains(gap), "{}", report.summary());
    }
    let json = report.to_json().expect("numbers and text");
    assert!(!json.contains("hunter2"), "a report shows no password");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["schema"], "idem.conformance/v1");
    assert_eq!(json["time_moved_by"], "nothing");
    let rules = json["rules"].as_array().expect("rules");
    assert!(rules.iter().all(|rule| rule["status"] == "pass" || rule["reason"].is_string()), "a reason for everything");
}

struct Broken;

#[async_trait]
impl Harness for Broken {
    fn identity(&self) -> Implementation {
        Implementation::new("broken", "0")
    }

    fn declare(&self) -> Declaration {
        Declaration::core()
    }

    async fn open(&self, _: &Namespace, _: &How) -> Result<(Guard, Arc<dyn Store>), OpenError> {
        Err(OpenError::environment("the server is away"))
    }
}

#[tokio::test]
#[should_panic(expected = "the server is away")]
async fn a_server_that_is_away_is_no_green_run() {
    assert_conformant(Broken).await;
}

#[test]
fn a_seed_that_is_no_number_is_refused() {
    let certify = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_conformance")).args(arguments).env("IDEM_SEED", "seven").output().expect("ran")
    };
    let refused = certify(&["certify", "memory"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is no number"));
    let unknown = certify(&["certify", "memory", "--seed", "1", "--only", "CLAIM-999"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no rule CLAIM-999"));
}

#[test]
fn certify_ends_as_the_verdict_says_and_repeats_its_choices() {
    let folder = tempfile::tempdir().expect("a folder");
    let certify = |only: &[&str]| {
        let folder = folder.path().to_str().expect("text");
        let run = Command::new(env!("CARGO_BIN_EXE_conformance"))
            .args(["certify", "memory", "--seed", "11", "--json", "--out", folder])
            .args(only.iter().flat_map(|id| ["--only", id]))
            .output()
            .expect("ran");
        let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
        (run.status.code(), json)
    };
    let (code, json) = certify(&[]);
    assert_eq!((code, &json["verdict"]), (Some(2), &"partial".into()), "what is not implemented yet is no success");
    let counts = json["counts"].as_object().expect("counts");
    let sum: u64 = counts.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(Some(sum), json["suite"]["rules"].as_u64());
    assert_eq!(json["seed"], 11);
    assert!(folder.path().join("memory.json").is_file());
    assert_eq!(certify(&["FENCE-002"]).0, Some(0), "one rule that holds");
    assert_eq!(certify(&["LIN-001"]).0, Some(1), "a rule that cannot run is no success");
}
