//! From rules to verdicts.

use std::fmt;

use serde::Serialize;

use super::{RuleResult, Status};
use crate::Profile;
use crate::harness::Declaration;
use crate::rules::Level;

/// The verdict about a profile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every mandatory rule holds.
    Success,
    /// No rule fails, and a mandatory one was not run, or is inconclusive.
    Partial,
    /// The suite or the environment broke.
    Error,
    /// A mandatory rule does not hold, or no rule was executed.
    Failure,
}

/// The verdict about one profile, and what it rests on.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileVerdict {
    /// The profile.
    pub profile: Profile,
    /// The verdict.
    pub verdict: Verdict,
    /// Its mandatory rules.
    pub rules: usize,
    /// How many of them hold.
    pub pass: usize,
    /// How many of them do not.
    pub fail: usize,
    /// How many of them were not executed to an end.
    pub open: usize,
}

impl fmt::Display for ProfileVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Success => "success",
            Verdict::Partial => "partial",
            Verdict::Error => "error",
            Verdict::Failure => "failure",
        };
        let ProfileVerdict { profile, rules, pass, fail, open, .. } = self;
        write!(f, "{profile}: {verdict} ({pass} of {rules} hold, {fail} do not, {open} open)")
    }
}

/// The verdict about each profile that is claimed, or whose denial turned out to be false.
#[must_use]
pub fn verdicts(declaration: &Declaration, results: &[RuleResult]) -> Vec<ProfileVerdict> {
    let of = |profile: Profile| -> Vec<&RuleResult> {
        results.iter().filter(|result| result.rule.profile == profile && result.rule.level == Level::Must).collect()
    };
    Profile::ALL
        .into_iter()
        .map(|profile| (profile, of(profile)))
        .filter(|(profile, results)| {
            let seen = |result: &&RuleResult| !matches!(result.status, Status::NotApplicable | Status::NotRun);
            declaration.claims(*profile) || results.iter().any(seen)
        })
        .map(|(profile, results)| verdict(profile, &results))
        .collect()
}

fn verdict(profile: Profile, results: &[&RuleResult]) -> ProfileVerdict {
    let count = |status| results.iter().filter(|result| result.status == status).count();
    let (pass, fail, error) = (count(Status::Pass), count(Status::Fail), count(Status::Error));
    let open = error + count(Status::Inconclusive) + count(Status::NotRun);
    let verdict = if fail > 0 || pass + open == 0 {
        Verdict::Failure
    } else if error > 0 {
        Verdict::Error
    } else if open > 0 {
        Verdict::Partial
    } else {
        Verdict::Success
    };
    ProfileVerdict { profile, verdict, rules: results.len(), pass, fail, open }
}

/// The verdict about all profiles together: the worst of them, and a failure without any.
#[must_use]
pub fn overall(profiles: &[ProfileVerdict]) -> Verdict {
    profiles.iter().map(|profile| profile.verdict).max().unwrap_or(Verdict::Failure)
}
