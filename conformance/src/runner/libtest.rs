//! Every rule as a named trial of a test binary, so that `cargo test` and nextest list, filter and run them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;

use super::{Run, Settings, not_selected};
use crate::harness::{Absent, Harness};
use crate::report::{RuleResult, Status};
use crate::rules::{Check, Rule, catalogue};

/// Where the reports of a complete run are written, when the environment says so.
const REPORT: &str = "IDEM_REPORT";

/// The whole of a test binary (`harness = false`) for one backend.
pub fn main(harness: impl Harness) -> ExitCode {
    main_all(vec![Arc::new(harness)])
}

/// The same for several backends.
///
/// Trials are named `backend::RULE-ID::slug`. `--seed N` or `IDEM_SEED=N` replays a seed; with `IDEM_REPORT=DIR` a
/// complete run writes its reports there. Listing opens no store and starts no server. A run without a filter fails when a
/// backend executed no rule, unless what it runs on is missing and nobody requires it. A trial that did not run is shown as ignored, with its reason.
#[must_use]
pub fn main_all(harnesses: Vec<Arc<dyn Harness>>) -> ExitCode {
    let (arguments, settings) = match arguments(std::env::args().collect()) {
        Ok(read) => read,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    if harnesses.is_empty() {
        eprintln!("no backend was given, so no rule can be executed");
        return ExitCode::FAILURE;
    }
    let backends: Vec<_> = harnesses.into_iter().map(|harness| Backend::new(harness, settings)).collect();
    if !arguments.list {
        eprintln!("conformance: seed {} (IDEM_SEED={} replays it)", settings.seed, settings.seed);
        for backend in &backends {
            if let Some(absent) = &backend.absent {
                eprintln!("not run: {}: {}", backend.name, absent.reason);
            }
        }
    }
    let trials = backends.iter().flat_map(|backend| backend.trials(&runtime)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let complete = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.ignored;
    if arguments.list || !complete {
        return conclusion.exit_code();
    }
    // Every backend is concluded, also behind one that is not sound.
    let unsound = backends.iter().filter(|backend| !runtime.block_on(backend.conclude())).count();
    if unsound == 0 { conclusion.exit_code() } else { ExitCode::FAILURE }
}

/// What the test runner understands, and what it does not.
fn arguments(given: Vec<String>) -> Result<(Arguments, Settings), String> {
    let (mut rest, mut seed) = (Vec::new(), None);
    let mut given = given.into_iter();
    while let Some(argument) = given.next() {
        let value = match argument.as_str() {
            "--seed" => given.next().ok_or("--seed needs a number")?,
            other => match other.strip_prefix("--seed=") {
                Some(value) => value.to_owned(),
                None => {
                    rest.push(argument);
                    continue;
                }
            },
        };
        seed = Some(value.parse().map_err(|_| format!("--seed {value} is no number"))?);
    }
    let settings = match seed {
        Some(seed) => Settings::seeded(seed),
        None => Settings::from_environment()?,
    };
    Ok((Arguments::from_iter(rest), settings))
}

struct Backend {
    name: String,
    absent: Option<Absent>,
    run: Arc<Run>,
    results: Arc<Mutex<Vec<RuleResult>>>,
}

impl Backend {
    fn new(harness: Arc<dyn Harness>, settings: Settings) -> Backend {
        let (name, absent) = (harness.identity().name, harness.absent());
        Backend { name, absent, run: Arc::new(Run::new(harness, settings)), results: Arc::default() }
    }

    fn trials(&self, runtime: &Arc<Runtime>) -> Vec<Trial> {
        catalogue().into_iter().map(|rule| self.trial(rule, runtime)).collect()
    }

    fn trial(&self, rule: Rule, runtime: &Arc<Runtime>) -> Trial {
        let (run, results, runtime) = (Arc::clone(&self.run), Arc::clone(&self.results), Arc::clone(runtime));
        let check = move || {
            let result = runtime.block_on(run.rule(&rule));
            results.lock().unwrap_or_else(PoisonError::into_inner).push(result.clone());
            completion(&result)
        };
        let name = format!("{}::{}::{}", self.name, rule.id, rule.slug);
        // What cannot run is ignored from the start: nextest counts what is ignored only at run time as passed. What is
        // required and missing runs, to fail.
        let excused = self.absent.as_ref().is_some_and(|absent| !absent.required);
        Trial::ignorable_test(name, check).with_ignored_flag(excused || !matches!(rule.check, Check::Run(_)))
    }

    /// Reports on a complete run. Says whether it is sound: something was executed, and every rule is accounted for.
    async fn conclude(&self) -> bool {
        let mut results = std::mem::take(&mut *self.results.lock().unwrap_or_else(PoisonError::into_inner));
        let seen: BTreeSet<_> = results.iter().map(|result| result.rule.id).collect();
        for rule in catalogue().into_iter().filter(|rule| !seen.contains(rule.id)) {
            // Only the reason is asked for: there is nothing to execute.
            let result = match rule.check {
                Check::Run(_) if self.absent.is_none() => not_selected(rule),
                _ => self.run.rule(&rule).await,
            };
            results.push(result);
        }
        let report = self.run.conclude(results).await;
        print!("{}", report.summary());
        if let Some(folder) = std::env::var_os(REPORT).map(PathBuf::from) {
            match report.write(&folder) {
                Ok(path) => println!("  report: {}", path.display()),
                Err(error) => {
                    eprintln!("the report could not be written: {error}");
                    return false;
                }
            }
        }
        let executed = !report.counts.is_empty() || report.is_excused();
        if !executed {
            eprintln!("{}: no rule was executed: that is a failure", self.name);
        }
        executed && report.counts.problem().is_none()
    }
}

fn completion(result: &RuleResult) -> Result<Completion, Failed> {
    let RuleResult { rule, status, reason, .. } = result;
    let reason = reason.as_deref().unwrap_or_default();
    match status {
        Status::Pass => Ok(Completion::Completed),
        Status::NotApplicable | Status::NotRun => Ok(Completion::ignored_with(reason)),
        Status::Fail => Err(format!("{} ({}) does not hold: {reason}\n{}", rule.id, rule.clause, rule.text).into()),
        Status::Error => Err(format!("{}: the suite or the environment broke: {reason}", rule.id).into()),
        Status::Inconclusive => Err(format!("{}: inconclusive, which is no pass: {reason}", rule.id).into()),
    }
}
