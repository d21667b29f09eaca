//! Proof that the suite bites: every mutant dies by the rule that it names, for the reason that it names.

use std::collections::BTreeMap;
use std::sync::Arc;

use conformance::mutants::{self, Landed, Mutant};
use conformance::rules::{Check, Level, catalogue, find};
use conformance::{Profile, Run, Settings, Status, Verdict};

const SEED: u64 = 7;

#[tokio::test(flavor = "multi_thread")]
async fn a_good_store_passes_everything_that_is_checked() {
    let report = Run::new(mutants::good_store(), Settings::seeded(SEED)).report(|_| true, |_| ()).await;
    let failures: Vec<_> = report.failures().collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(report.verdict, Verdict::Partial, "what is not implemented yet is no success");
    assert_eq!(report.counts.problem(), None);
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
