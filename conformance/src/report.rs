//! What a run found: `idem.conformance/v1`.

mod address;
mod environment;
mod tally;
mod verdict;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;

pub use address::without_password;
pub use environment::Environment;
pub use tally::Tally;
pub use verdict::{ProfileVerdict, Verdict, overall, verdicts};

use crate::harness::{Absent, Declaration, Hook, Implementation, Setting};
use crate::runner::Settings;
use crate::{Profile, Rule, rules};

/// The format of the JSON report.
pub const SCHEMA: &str = "idem.conformance/v1";

/// How a rule ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// The suite, the harness or the environment is broken.
    Error,
    /// Nothing is known. Never a pass.
    Inconclusive,
    /// The backend does not claim it, and a probe agreed.
    NotApplicable,
    /// It was not checked, for the reason that stands beside.
    NotRun,
}

/// What became of one rule.
#[derive(Clone, Debug)]
pub struct RuleResult {
    /// The rule.
    pub rule: Rule,
    /// How it ended.
    pub status: Status,
    /// Why; None for a pass.
    pub reason: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// A whole run of one backend.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    suite: Suite,
    implementation: Backend,
    declaration: Declared,
    environment: Environment,
    tier: &'static str,
    seed: u64,
    started_at: String,
    took_ms: u128,
    time_moved_by: &'static str,
    durability: Vec<Setting>,
    gaps: BTreeMap<Hook, Vec<&'static str>>,
    read_through_the_store: Vec<String>,
    round_trips: BTreeMap<&'static str, u64>,
    /// The verdict of all claimed profiles together.
    pub verdict: Verdict,
    /// The verdict of each claimed profile.
    pub profiles: Vec<ProfileVerdict>,
    denied: BTreeMap<Profile, Option<String>>,
    /// How many rules ended how.
    pub counts: Tally,
    #[serde(skip)]
    absent: Option<Absent>,
    not_tested: Vec<String>,
    reproduce: String,
    rules: Vec<RuleLine>,
}

#[derive(Debug, Serialize)]
struct Suite {
    name: &'static str,
    version: &'static str,
    rules_hash: String,
    rules: usize,
}

#[derive(Debug, Serialize)]
struct Backend {
    name: String,
    version: String,
    url: Option<String>,
}

#[derive(Debug, Serialize)]
struct Declared {
    profiles: Vec<&'static str>,
    response_limit: usize,
    resolution_us: u64,
    isolation_levels: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RuleLine {
    id: &'static str,
    slug: &'static str,
    level: rules::Level,
    profile: Profile,
    clause: &'static str,
    status: Status,
    reason: Option<String>,
    took_ms: u128,
    reproduce: String,
}

/// What a report is made of.
pub(crate) struct Found {
    pub(crate) implementation: Implementation,
    pub(crate) declaration: Declaration,
    pub(crate) settings: Settings,
    pub(crate) durability: Vec<Setting>,
    pub(crate) gaps: BTreeMap<Hook, Vec<&'static str>>,
    pub(crate) read_through_the_store: Vec<String>,
    pub(crate) round_trips: BTreeMap<&'static str, u64>,
    pub(crate) absent: Option<Absent>,
    pub(crate) results: Vec<RuleResult>,
    pub(crate) started_at: SystemTime,
    pub(crate) took: Duration,
}

impl Report {
    pub(crate) fn of(found: Found) -> Report {
        let Found { implementation, declaration, settings, durability, gaps, results, started_at, took, .. } = found;
        let counts = Tally::of(&results);
        let profiles = verdicts(&declaration, &results);
        let verdict = match counts.problem() {
            Some(_) => Verdict::Error,
            None => overall(&profiles),
        };
        let name = implementation.name;
        let url = implementation.url.as_deref().map(without_password);
        let reproduce = |only: Option<&str>| settings.reproduce(&name, url.as_deref(), only);
        let denied = Profile::ALL.into_iter().filter(|profile| !declaration.claims(*profile)).map(|profile| {
            let of_profile = |result: &&RuleResult| result.rule.profile == profile;
            (profile, results.iter().find(of_profile).and_then(|result| result.reason.clone()))
        });
        Report {
            schema: SCHEMA,
            suite: Suite {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
                rules_hash: rules::hash(),
                rules: rules::catalogue().len(),
            },
            declaration: Declared {
                profiles: Profile::ALL
                    .into_iter()
                    .filter(|profile| declaration.claims(*profile))
                    .map(Profile::name)
                    .collect(),
                response_limit: declaration.response_limit,
                resolution_us: declaration.resolution.as_micros(),
                isolation_levels: declaration.isolation_levels.iter().map(|level| format!("{level:?}")).collect(),
            },
            environment: Environment::here(),
            tier: settings.tier.name(),
            seed: settings.seed,
            started_at: humantime::format_rfc3339_seconds(started_at).to_string(),
            took_ms: took.as_millis(),
            time_moved_by: if gaps.contains_key(&Hook::Age) {
                "nothing"
            } else {
                "shifting the times of one record back"
            },
            durability,
            gaps,
            read_through_the_store: found.read_through_the_store,
            round_trips: found.round_trips,
            verdict,
            profiles,
            denied: denied.collect(),
            counts,
            absent: found.absent,
            not_tested: not_tested(&results),
            reproduce: reproduce(None),
            rules: results.iter().map(|result| RuleLine::of(result, reproduce(Some(result.rule.id)))).collect(),
            implementation: Backend { version: implementation.version, url, name },
        }
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// None: a report is numbers and text.
    pub fn to_json(&self) -> io::Result<String> {
        serde_json::to_string_pretty(self).map_err(io::Error::other)
    }

    /// Writes the JSON report into a folder, as `BACKEND.json`.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}.json", self.implementation.name));
        std::fs::write(&path, self.to_json()? + "\n")?;
        Ok(path)
    }

    /// Was there nothing to run a rule on, such as a server, which nobody required? Then that no rule was executed is no
    /// failure.
    #[must_use]
    pub fn is_excused(&self) -> bool {
        self.absent.as_ref().is_some_and(|absent| !absent.required)
    }

    /// Name of the backend.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.implementation.name
    }

    /// Why every rule that failed, failed: id and reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.rules
            .iter()
            .filter(|line| matches!(line.status, Status::Fail | Status::Error))
            .map(|line| (line.id, line.reason.as_deref().unwrap_or_default()))
    }

    /// What became of the rule with this id, and why.
    #[must_use]
    pub fn rule(&self, id: &str) -> Option<(Status, &str)> {
        let line = self.rules.iter().find(|line| line.id == id)?;
        Some((line.status, line.reason.as_deref().unwrap_or_default()))
    }

    /// The summary for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = format!("{}: {}\n", self.name(), self.counts);
        for profile in &self.profiles {
            text += &format!("  {profile}\n");
        }
        if let Some(Absent { reason, .. }) = &self.absent {
            text += &format!("  nothing to run it on: {reason}\n");
        }
        for (hook, rules) in &self.gaps {
            text += &format!("  gap: no `{hook}`: {} not run\n", rules.join(", "));
        }
        if !self.read_through_the_store.is_empty() {
            let count = self.read_through_the_store.len();
            text += &format!("  weaker: without `peek`, {count} rules read records through the store itself\n");
        }
        if !self.round_trips.is_empty() {
            let trips: Vec<_> = self.round_trips.iter().map(|(what, trips)| format!("{what} {trips}")).collect();
            text += &format!("  round trips on a warm connection: {}\n", trips.join(", "));
        }
        if let Some(problem) = self.counts.problem() {
            text += &format!("  the account does not add up: {problem}\n");
        }
        text + &format!("  reproduce: {}\n", self.reproduce)
    }
}

impl RuleLine {
    fn of(result: &RuleResult, reproduce: String) -> RuleLine {
        let Rule { id, slug, level, profile, clause, .. } = result.rule;
        RuleLine {
            id,
            slug,
            level,
            profile,
            clause,
            status: result.status,
            reason: result.reason.clone(),
            took_ms: result.took.as_millis(),
            reproduce,
        }
    }
}

/// What a reader might take for tested: reason, and which rules.
fn not_tested(results: &[RuleResult]) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for result in results.iter().filter(|result| result.status == Status::NotRun) {
        by_reason.entry(result.reason.as_deref().unwrap_or("no reason given")).or_default().push(result.rule.id);
    }
    by_reason.into_iter().map(|(reason, ids)| format!("{}: {reason}", ids.join(", "))).collect()
}
