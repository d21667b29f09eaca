//! `certify`: runs the suite on one backend and reports.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use conformance::base::{self, Missing};
use conformance::{Report, RuleResult, Run, Settings, Status, Tier, Verdict, rules};

use super::{Ended, block_on, features};

/// Run the suite on a backend, with progress shown, and report.
///
/// Ends with 0 for success; 1 when a rule failed, something broke or nothing was executed; 2 when no rule failed, but a
/// mandatory one was not run.
#[derive(Args)]
pub(crate) struct Certify {
    /// The backend's name.
    backend: String,
    /// Where its server, or its folder, is.
    #[arg(long)]
    url: Option<String>,
    /// How much is done.
    #[arg(long, value_enum, default_value_t)]
    tier: Tier,
    /// Replays the random choices of another run.
    #[arg(long)]
    seed: Option<u64>,
    /// Checks only these rules.
    #[arg(long, value_name = "RULE-ID")]
    only: Vec<String>,
    /// Writes the report into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Prints the report as JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Certify {
    pub(crate) fn run(self) -> Ended {
        let harness = match block_on(base::find(&self.backend, self.url.as_deref()))? {
            Ok(harness) => harness,
            Err(Missing::Feature(feature)) => return features::run_with(feature),
            Err(Missing::Refused(why)) => return Err(why),
            Err(Missing::Unknown) => {
                let names: Vec<_> = base::ALL.iter().map(|base| base.name).collect();
                return Err(format!("there is no harness for `{}`, only for: {}", self.backend, names.join(", ")));
            }
        };
        if let Some(unknown) = self.only.iter().find(|id| rules::find(id).is_none()) {
            return Err(format!("there is no rule {unknown}"));
        }
        let settings = match self.seed {
            Some(seed) => Settings::seeded(seed),
            None => Settings::from_environment()?,
        };
        let run = Run::new(harness, settings.tier(self.tier));
        eprintln!("certifying {} with seed {}", self.backend, settings.seed);
        let selected = |rule: &rules::Rule| self.only.is_empty() || self.only.iter().any(|id| id == rule.id);
        let report = block_on(run.report(selected, progress))?;
        drop(run);
        let ended = block_on(base::end())?;
        self.tell(&report)?;
        ended?;
        Ok(self.ending(&report))
    }

    fn tell(&self, report: &Report) -> Result<(), String> {
        if self.json {
            println!("{}", report.to_json().map_err(|error| error.to_string())?);
        } else {
            print!("{}", report.summary());
        }
        if let Some(folder) = &self.out {
            let path = report.write(folder).map_err(|error| format!("the report could not be written: {error}"))?;
            eprintln!("report: {}", path.display());
        }
        Ok(())
    }

    /// A run of some rules holds when these do; what was not selected says nothing about the backend.
    fn ending(&self, report: &Report) -> ExitCode {
        let failed = report.failures().next().is_some() || report.counts.problem().is_some();
        let executed = if self.only.is_empty() { !report.counts.is_empty() } else { report.counts.executed() > 0 };
        match report.verdict {
            _ if failed || !executed => ExitCode::FAILURE,
            Verdict::Failure | Verdict::Error if self.only.is_empty() => ExitCode::FAILURE,
            Verdict::Success => ExitCode::SUCCESS,
            _ if !self.only.is_empty() && report.counts.pass == self.only.len() => ExitCode::SUCCESS,
            _ => ExitCode::from(2),
        }
    }
}

fn progress(result: &RuleResult) {
    let mark = match result.status {
        Status::Pass => "pass",
        Status::Fail => "FAIL",
        Status::Error => "ERROR",
        Status::Inconclusive => "INCONCLUSIVE",
        // Reported at the end, and too many to be read one by one.
        Status::NotApplicable | Status::NotRun => return,
    };
    let reason = result.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    eprintln!("{mark:<5} {} {} ({:?}){reason}", result.rule.id, result.rule.slug, result.took);
}
