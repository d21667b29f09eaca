//! Proof that the suite bites: every mutant dies by the rule that it names, for the reason that it names; and that it is
//! not too strict: every conformant variant passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use conformance::base::Sqlite;
use conformance::mutants::{self, Kind, Landed, Logic, Mutant};
use conformance::rules::{Check, Level, catalogue, find};
use conformance::{Profile, Report, Rule, Run, Settings, Status, Verdict};

const SEED: u64 = 7;

async fn report(harness: Arc<dyn conformance::Harness>) -> Report {
    Run::new(harness, Settings::seeded(SEED)).report(|_| true, |_| ()).await
}

fn mutant(id: &str) -> &'static Mutant {
    mutants::all().iter().find(|mutant| mutant.id == id).unwrap_or_else(|| panic!("there is no mutant {id}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_store_passes_everything_that_is_checked() {
    let report = report(mutants::good_store()).await;
    let failures: Vec<_> = report.failures().collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(report.verdict, Verdict::Partial, "what is not implemented yet is no success");
    assert_eq!(report.counts.problem(), None);
    assert_eq!(report.counts.executed() + report.counts.not_applicable + report.counts.not_run, catalogue().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_store_behind_a_connection_passes_everything_that_is_checked() {
    let report = report(mutants::good_remote()).await;
    let failures: Vec<_> = report.failures().collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(report.counts.inconclusive, 0);
    for rule in catalogue().iter().filter(|rule| breaks_something(rule)) {
        assert_eq!(report.rule(rule.id).map(|(status, _)| status), Some(Status::Pass), "{rule:?}");
    }
}

/// Rules of lines, servers and handles that break.
fn breaks_something(rule: &Rule) -> bool {
    let family = ["NET", "DUR", "CRASH", "CANCEL"].contains(&rule.family());
    let checked = matches!(rule.check, Check::Run(_))
        && [Profile::Core, Profile::Durable, Profile::Networked].contains(&rule.profile);
    (family && checked) || ["ERR-002", "ERR-004"].contains(&rule.id)
}

#[test]
fn every_rule_that_breaks_something_has_a_mutant() {
    let without: Vec<_> = catalogue()
        .iter()
        .filter(|rule| breaks_something(rule) && rule.proven_by().next().is_none())
        .map(|rule| rule.id)
        .collect();
    assert!(without.is_empty(), "{without:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_dies_by_its_rule() {
    let mut survivors = BTreeMap::new();
    for mutant in mutants::all() {
        let attack = mutant.attack(mutants::good_store(), Settings::seeded(SEED)).await;
        if let Some(why) = attack.survives() {
            survivors.insert(mutant.id, why);
        }
    }
    assert!(survivors.is_empty(), "{} of {} survive: {survivors:#?}", survivors.len(), mutants::all().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrappers_die_around_a_real_database_too() {
    let wrappers = mutants::all().iter().filter(|mutant| matches!(mutant.kind, Kind::Wrapper(_)));
    for mutant in wrappers {
        let attack = mutant.attack(Arc::new(Sqlite::new(None)), Settings::seeded(SEED)).await;
        assert_eq!(attack.survives(), None, "{}", mutant.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conformant_variant_passes() {
    for variant in mutants::variants() {
        let landed = Landed::default();
        let report = report(variant.harness(mutants::good_store(), &landed)).await;
        let failures: Vec<_> = report.failures().collect();
        assert!(failures.is_empty(), "{} ({}): {failures:#?}", variant.id, variant.because);
        assert_eq!((report.verdict, report.counts.inconclusive), (Verdict::Partial, 0), "{}", variant.id);
        assert!(landed.times() > 0, "{} was never unlike the reference", variant.id);
    }
}

/// Rules that no mutant has to be told from a good store by, each with the reason.
fn unproven() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("REPLAY-005", "`Bytes` cannot be written through a second reference: there is no way to write the mutant"),
        ("META-001", "checks the suite itself, with results that are made up"),
        ("META-002", "checks the suite itself, with results that are made up"),
    ])
}

#[test]
fn every_mandatory_rule_of_a_store_in_memory_has_a_mutant() {
    // The other profiles' mutants change statements of a real backend.
    let here = [Profile::Core, Profile::Shared, Profile::Maintained];
    let without: BTreeSet<_> = catalogue()
        .iter()
        .filter(|rule| matches!(rule.check, Check::Run(_)) && rule.level == Level::Must && here.contains(&rule.profile))
        .filter(|rule| rule.proven_by().next().is_none())
        .map(|rule| rule.id)
        .collect();
    assert_eq!(without, unproven().into_keys().collect());
}

#[test]
fn mutants_are_named_once_and_name_a_rule_that_is_checked_and_its_reason() {
    let ids: BTreeSet<_> = mutants::all().iter().map(|mutant| mutant.id).collect();
    assert_eq!(ids.len(), mutants::all().len());
    for mutant in mutants::all() {
        let rule = find(mutant.kills).expect("a mutant names a rule");
        assert!(matches!(rule.check, Check::Run(_)), "{mutant:?}");
        assert!(mutant.id.starts_with(mutant.kind.letter()), "{mutant:?}");
        assert!(mutant.says.len() > 10 && mutant.because.len() > 10, "{mutant:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_grant_or_refuse_everything_fail_by_rules_that_name_the_clause() {
    for (id, clauses) in [
        ("W-grants-everything", ["C5", "C4"]),
        ("W-refuses-everything", ["C1", "C4"]),
        ("W-fails-everything", ["C1", "C4"]),
    ] {
        let report = report(mutant(id).harness(mutants::good_store(), &Landed::default())).await;
        assert_eq!(report.verdict, Verdict::Failure, "{id}");
        let failed: BTreeSet<_> = report.failures().map(|(rule, _)| find(rule).expect("known").clause).collect();
        assert!(clauses.iter().all(|clause| failed.contains(clause)), "{id}: {failed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_run_fails() {
    let run = Run::new(mutants::good_store(), Settings::seeded(SEED));
    let nothing = run.report(|_| false, |_| ()).await;
    assert!(nothing.counts.is_empty());
    assert_ne!(nothing.verdict, Verdict::Success);
    let itself = run.report(|rule| rule.family() == "META", |_| ()).await;
    assert!(itself.counts.is_empty(), "the suite's rules about itself say nothing about a store");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutant_that_does_nothing_is_no_kill() {
    let idle = Mutant { kind: Kind::Model(Logic::GOOD), ..*mutant("M-every-claim-acquired") };
    let attack = idle.attack(mutants::good_store(), Settings::seeded(SEED)).await;
    assert_eq!(attack.survives().as_deref(), Some("it never landed"));
    let other_rule = Mutant { kills: "RENEW-003", ..*mutant("M-retry-after-zero") };
    assert!(other_rule.attack(mutants::good_store(), Settings::seeded(SEED)).await.survives().is_some());
    let other_reason = Mutant { says: "the moon is full", ..*mutant("M-retry-after-zero") };
    let attack = other_reason.attack(mutants::good_store(), Settings::seeded(SEED)).await;
    assert!(attack.survives().is_some_and(|why| why.contains("another reason")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_error_of_its_own_trial_alone() {
    struct Panics;

    #[async_trait::async_trait]
    impl mutants::Twist for Panics {
        async fn renew(
            &self,
            _: &dyn idem_core::Store,
            _: &Landed,
            _: &idem_core::Renew,
        ) -> Result<idem_core::Renewed, idem_core::Error> {
            std::panic::resume_unwind(Box::new("on purpose"))
        }
    }

    let panics = Mutant { kind: Kind::Wrapper(|| Box::new(Panics)), ..*mutant("W-grants-everything") };
    let report = report(panics.harness(mutants::good_store(), &Landed::default())).await;
    assert_eq!(report.verdict, Verdict::Error);
    let (status, reason) = report.rule("RENEW-001").expect("known");
    assert_eq!(status, Status::Error);
    assert!(reason.contains("on purpose"), "{reason}");
    assert_eq!(report.rule("RELEASE-001").map(|(status, _)| status), Some(Status::Pass));
}
