//! META: the suite about itself.

use std::time::Duration;

use crate::report::{RuleResult, Status, Tally, Verdict, verdicts};
use crate::rules::{Check, Profile, Rule, catalogue, run};
use crate::trial::{Outcome, Trial, ensure, ensure_eq};

const CORE: Rule = Rule { clause: "suite", ..Rule::of(Profile::Core) };

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "META-001",
        slug: "run_without_rules_is_no_success",
        text: "A run in which no rule was executed is a failure in every profile.",
        why: "The commonest defect of suites is a green run that tested nothing.",
        check: run!(empty_run),
        ..CORE
    },
    Rule {
        id: "META-002",
        slug: "every_rule_is_accounted_for",
        text: "Executed, not applicable and not run rules together are the catalogue; none twice, none unknown.",
        why: "A rule that is nowhere in the report is one that nobody misses.",
        check: run!(accounted_for),
        ..CORE
    },
    Rule {
        id: "META-003",
        slug: "every_fault_opened_its_window",
        text: "Every trial of a fault says that its window opened; otherwise it is an error.",
        why: "A fault that never happened proves nothing.",
        check: Check::Later("needs the fault proxy"),
        ..CORE
    },
    Rule {
        id: "META-004",
        slug: "server_is_ours",
        text: "Before the first write the server is shown to be the one that was started or given.",
        why: "A suite that writes into somebody else's server is worse than none.",
        check: Check::Later("needs the providers' nonce"),
        profile: Profile::Networked,
        ..CORE
    },
];

fn all_with(status: Status) -> Vec<RuleResult> {
    let reason = |rule| RuleResult { rule, status, reason: Some("for this check".into()), took: Duration::ZERO };
    catalogue().into_iter().map(reason).collect()
}

async fn empty_run(t: &Trial) -> Outcome {
    for (what, results) in [
        ("nothing was recorded", Vec::new()),
        ("nothing was run", all_with(Status::NotRun)),
        ("nothing was applicable", all_with(Status::NotApplicable)),
        ("everything was inconclusive", all_with(Status::Inconclusive)),
    ] {
        let good: Vec<_> = verdicts(t.declaration(), &results)
            .into_iter()
            .filter(|profile| profile.verdict == Verdict::Success)
            .map(|profile| profile.profile)
            .collect();
        ensure!(good.is_empty(), "a run in which {what} is a success in {good:?}");
    }
    let passed = verdicts(t.declaration(), &all_with(Status::Pass));
    ensure!(passed.iter().all(|profile| profile.verdict == Verdict::Success), "a run that passed is no success");
    Ok(())
}

async fn accounted_for(_: &Trial) -> Outcome {
    let results = all_with(Status::Pass);
    let count = results.len();
    let tally = Tally::of(&results);
    ensure_eq!(tally.problem(), None, "the account of a whole run");
    ensure_eq!(tally.executed() + tally.not_applicable + tally.not_run, count, "how many rules are accounted for");
    let missing = Tally::of(&results[1..]);
    ensure!(missing.problem().is_some(), "a missing rule was not noticed");
    let twice: Vec<_> = results.iter().cloned().chain([results[0].clone()]).collect();
    ensure!(Tally::of(&twice).problem().is_some(), "a rule that was counted twice was not noticed");
    Ok(())
}
