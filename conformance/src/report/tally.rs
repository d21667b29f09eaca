//! Counting, by rule.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::{RuleResult, Status};
use crate::rules::catalogue;

/// How many rules ended how. Counted by rule, never by assertion.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// Rules that hold.
    pub pass: usize,
    /// Rules that do not.
    pub fail: usize,
    /// Rules where the suite or the environment broke.
    pub error: usize,
    /// Rules of which nothing is known.
    pub inconclusive: usize,
    /// Rules that the backend does not claim.
    pub not_applicable: usize,
    /// Rules that were not checked.
    pub not_run: usize,
    #[serde(skip)]
    problem: Option<String>,
    #[serde(skip)]
    about_the_store: usize,
}

impl Tally {
    /// Counts, and compares with the catalogue.
    #[must_use]
    pub fn of(results: &[RuleResult]) -> Tally {
        let count = |status| results.iter().filter(|result| result.status == status).count();
        let executed = |result: &&RuleResult| matches!(result.status, Status::Pass | Status::Fail);
        Tally {
            pass: count(Status::Pass),
            fail: count(Status::Fail),
            error: count(Status::Error),
            inconclusive: count(Status::Inconclusive),
            not_applicable: count(Status::NotApplicable),
            not_run: count(Status::NotRun),
            problem: problem(results),
            about_the_store: results.iter().filter(executed).filter(|result| result.rule.family() != "META").count(),
        }
    }

    /// Rules that were executed, however they ended.
    #[must_use]
    pub fn executed(&self) -> usize {
        self.pass + self.fail + self.error + self.inconclusive
    }

    /// Was not a single rule about the store executed to its end? The suite's rules about itself do not count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.about_the_store == 0
    }

    /// Why executed, not applicable and not run rules are not the catalogue.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

fn problem(results: &[RuleResult]) -> Option<String> {
    let known: BTreeSet<_> = catalogue().iter().map(|rule| rule.id).collect();
    let mut seen = BTreeSet::new();
    for RuleResult { rule, .. } in results {
        if !known.contains(rule.id) {
            return Some(format!("{} is not in the catalogue", rule.id));
        }
        if !seen.insert(rule.id) {
            return Some(format!("{} was counted twice", rule.id));
        }
    }
    known.difference(&seen).next().map(|id| format!("{id} is not accounted for"))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { pass, fail, error, inconclusive, not_applicable, not_run, .. } = self;
        write!(
            f,
            "{pass} passed, {fail} failed, {error} errors, {inconclusive} inconclusive, \
             {not_applicable} not applicable, {not_run} not run"
        )
    }
}
