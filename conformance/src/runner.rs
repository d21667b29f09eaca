//! Running rules: one at a time for a test runner, or all of them for a report.

mod assert;
mod libtest;
mod settings;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures::StreamExt as _;
use tokio::sync::OnceCell;

pub use assert::assert_conformant;
pub use libtest::{main, main_all};
pub use settings::{Settings, Tier};

use crate::Profile;
use crate::harness::{Absent, Harness, Hook, HookError, Setting};
use crate::probe::{self, Denial};
use crate::report::{Found, Report, RuleResult, Status};
use crate::rules::{Check, Rule, catalogue};
use crate::trial::{Outcome, Stop, Trial};

/// No trial takes longer: every call in it has its own, far smaller limit.
const LIMIT: Duration = Duration::from_secs(300);

/// How many trials run at once: as many as let a slow store be waited for, and not so many that they disturb each
/// other's times.
const AT_ONCE: usize = 4;

/// A run of one backend.
pub struct Run {
    harness: Arc<dyn Harness>,
    settings: Settings,
    numbers: AtomicU32,
    denials: BTreeMap<Profile, OnceCell<Denial>>,
    gaps: Mutex<BTreeMap<Hook, BTreeSet<&'static str>>>,
    read_through_the_store: Mutex<BTreeSet<String>>,
    round_trips: Mutex<BTreeMap<&'static str, u64>>,
    absent: Mutex<Option<Absent>>,
    started_at: SystemTime,
    began: Instant,
}

impl Run {
    /// A run of this backend, with these settings.
    #[must_use]
    pub fn new(harness: Arc<dyn Harness>, settings: Settings) -> Run {
        Run {
            harness,
            settings,
            numbers: AtomicU32::new(0),
            denials: Profile::ALL.into_iter().map(|profile| (profile, OnceCell::new())).collect(),
            gaps: Mutex::default(),
            read_through_the_store: Mutex::default(),
            round_trips: Mutex::default(),
            absent: Mutex::default(),
            started_at: SystemTime::now(),
            began: Instant::now(),
        }
    }

    /// The backend.
    #[must_use]
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// Checks one rule, in a trial of its own.
    pub async fn rule(&self, rule: &Rule) -> RuleResult {
        let began = Instant::now();
        let outcome = self.outcome(rule).await;
        let (status, reason) = match outcome {
            Ok(()) => (Status::Pass, None),
            Err(Stop::Fail(what)) => (Status::Fail, Some(what)),
            Err(Stop::Error(what)) => (Status::Error, Some(what)),
            Err(Stop::Inconclusive(what)) => (Status::Inconclusive, Some(what)),
            Err(Stop::NotApplicable(what)) => (Status::NotApplicable, Some(what)),
            Err(Stop::Gap { hook, what }) => {
                lock(&self.gaps).entry(hook).or_default().insert(rule.id);
                (Status::NotRun, Some(what))
            }
            Err(Stop::NotRun(what)) => (Status::NotRun, Some(what)),
        };
        RuleResult { rule: *rule, status, reason, took: began.elapsed() }
    }

    /// Checks these rules and reports on the whole catalogue: what was not selected is not run. Tells of every result
    /// as it comes.
    pub async fn report(&self, selected: impl Fn(&Rule) -> bool, tell: impl Fn(&RuleResult)) -> Report {
        let (run, left): (Vec<_>, Vec<_>) = catalogue().into_iter().partition(|rule| selected(rule));
        let mut results: Vec<RuleResult> = futures::stream::iter(&run)
            .map(|rule| self.rule(rule))
            .buffer_unordered(AT_ONCE)
            .inspect(tell)
            .collect()
            .await;
        results.extend(left.into_iter().map(not_selected));
        self.conclude(results).await
    }

    /// The report on these results.
    pub(crate) async fn conclude(&self, mut results: Vec<RuleResult>) -> Report {
        let order: BTreeMap<_, _> = catalogue().iter().enumerate().map(|(place, rule)| (rule.id, place)).collect();
        results.sort_by_key(|result| order.get(result.rule.id).copied());
        let gaps = lock(&self.gaps).clone();
        let absent = lock(&self.absent).clone();
        Report::of(Found {
            implementation: self.harness.identity(),
            declaration: self.harness.declare(),
            settings: self.settings,
            durability: match (&absent, self.harness.durability().await) {
                (Some(absent), _) => vec![Setting::new("not read", &absent.reason)],
                (None, Ok(settings)) => settings,
                (None, Err(HookError::Unsupported)) => {
                    vec![Setting::new("not read", "the harness has no `durability`")]
                }
                (None, Err(HookError::Failed(what))) => vec![Setting::new("not read", what)],
            },
            absent,
            read_through_the_store: lock(&self.read_through_the_store).iter().cloned().collect(),
            round_trips: lock(&self.round_trips).clone(),
            gaps: gaps.into_iter().map(|(hook, rules)| (hook, rules.into_iter().collect())).collect(),
            results,
            started_at: self.started_at,
            took: self.began.elapsed(),
        })
    }

    async fn outcome(&self, rule: &Rule) -> Outcome {
        if !self.harness.declare().claims(rule.profile) {
            let denial = self.denial(rule.profile).await;
            return Err(denial.map_or_else(|stop| stop, Stop::NotApplicable));
        }
        let check = match rule.check {
            Check::Run(check) => check,
            Check::Later(missing) => return Err(Stop::NotRun(format!("not implemented yet: {missing}"))),
            Check::Never(reason) => return Err(Stop::NotRun(format!("not run by design: {reason}"))),
        };
        self.in_trial(rule.id, move |trial| Box::pin(async move { check(&trial).await })).await
    }

    async fn denial(&self, profile: Profile) -> Denial {
        let Some(cell) = self.denials.get(&profile) else {
            return Err(Stop::Error(format!("the profile {profile} is not in the list of profiles")));
        };
        let probed = cell.get_or_init(|| async {
            self.in_trial(profile.name(), move |trial| Box::pin(async move { probe::denial(&trial, profile).await }))
                .await
        });
        probed.await.clone()
    }

    /// There is something to run trials on.
    async fn present(&self) -> Outcome {
        let Err(absent) = self.harness.prepare().await else { return Ok(()) };
        let Absent { reason, required } = absent.clone();
        *lock(&self.absent) = Some(absent);
        Err(if required { Stop::Error(reason) } else { Stop::NotRun(reason) })
    }

    /// Runs something in a trial of its own, as a task of its own, so that a panic ends this trial alone.
    async fn in_trial<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(Arc<Trial>) -> futures::future::BoxFuture<'static, Result<T, Stop>>,
    ) -> Result<T, Stop> {
        // Before the trial begins to count its time.
        self.present().await?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let Settings { seed, nonce, .. } = self.settings;
        let trial = Arc::new(Trial::new(Arc::clone(&self.harness), name, seed, nonce, number));
        let mut task = tokio::spawn(work(Arc::clone(&trial)));
        let outcome = match tokio::time::timeout(LIMIT, &mut task).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => match error.try_into_panic() {
                Ok(panic) => Err(Stop::Error(format!("something panicked: {}", message(panic.as_ref())))),
                Err(error) => Err(Stop::Error(format!("the trial was cancelled: {error}"))),
            },
            Err(_) => {
                task.abort();
                Err(Stop::Error(format!("the trial did not end within {LIMIT:?}")))
            }
        };
        if trial.read_through_the_store() {
            lock(&self.read_through_the_store).insert(name.to_owned());
        }
        lock(&self.round_trips).extend(trial.round_trips());
        trial.close().await;
        trial.judged(outcome)
    }
}

/// A poisoned lock still guards a whole set of names.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn not_selected(rule: Rule) -> RuleResult {
    RuleResult { rule, status: Status::NotRun, reason: Some("not selected for this run".into()), took: Duration::ZERO }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
