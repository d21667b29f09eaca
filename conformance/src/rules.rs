//! The rules as data: what is required, by which clause, of whom, and how it is checked.

mod catalogue;
mod markdown;

use std::fmt;

use futures::future::BoxFuture;
use serde::Serialize;

pub use catalogue::{catalogue, find, hash};
pub use markdown::{markdown, markdown_table};

use crate::trial::{Outcome, Trial};

/// One requirement. Its id is never used for another one.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Family and number, as `FENCE-002`.
    pub id: &'static str,
    /// A name that reads in a list of tests, as `stale_complete_is_lost`.
    pub slug: &'static str,
    /// How binding it is.
    pub level: Level,
    /// Of whom it is required.
    pub profile: Profile,
    /// The clauses of the contract that it checks.
    pub clause: &'static str,
    /// What is required, in one sentence.
    pub text: &'static str,
    /// What goes wrong where it does not hold.
    pub why: &'static str,
    /// How it is checked.
    pub check: Check,
}

impl Rule {
    /// What the rules of a profile have in common: a family's list fills in the rest.
    pub(crate) const fn of(profile: Profile) -> Rule {
        let check = Check::Later("nothing has been written");
        Rule { id: "", slug: "", level: Level::Must, profile, clause: "", text: "", why: "", check }
    }

    /// The broken stores that this rule has to tell from a good one, by the id of the [mutant](crate::mutants).
    pub fn proven_by(&self) -> impl Iterator<Item = &'static str> {
        let id = self.id;
        crate::mutants::all().iter().filter(move |mutant| mutant.kills == id).map(|mutant| mutant.id)
    }

    /// The family: what stands before the number.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.id.split_once('-').map_or(self.id, |(family, _)| family)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.slug)
    }
}

/// How binding a rule is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The contract requires it: without it no profile is a success.
    Must,
    /// New in the suite: reported, and not yet part of a verdict.
    Provisional,
}

/// Of whom a rule is required. Everything but [`Core`](Profile::Core) is a capability that a backend declares or denies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Everybody, stores in memory too.
    Core,
    /// Several handles, opened apart, work on the same records.
    Shared,
    /// Records outlive the process, so they have a schema that may be missing or of another version.
    Durable,
    /// The store is reached over a connection that can be late, cut or refused, and has a clock of its own.
    Networked,
    /// Records that have become free are deleted when purge is called.
    Maintained,
    /// The record can join the caller's own transaction.
    Transactional,
    /// A cache stands before the arbiter.
    Cached,
}

impl Profile {
    /// All profiles, in the order of reports.
    pub const ALL: [Profile; 7] = [
        Profile::Core,
        Profile::Shared,
        Profile::Durable,
        Profile::Networked,
        Profile::Maintained,
        Profile::Transactional,
        Profile::Cached,
    ];

    /// Its name, as in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Core => "core",
            Profile::Shared => "shared",
            Profile::Durable => "durable",
            Profile::Networked => "networked",
            Profile::Maintained => "maintained",
            Profile::Transactional => "transactional",
            Profile::Cached => "cached",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule's check, run in a trial of its own.
pub type Run = for<'a> fn(&'a Trial) -> BoxFuture<'a, Outcome>;

/// How a rule is checked.
#[derive(Clone, Copy)]
pub enum Check {
    /// By this function.
    Run(Run),
    /// Not yet. Reported as not run, with what is missing.
    Later(&'static str),
    /// Not at all, on purpose. Reported as not run, with the reason.
    Never(&'static str),
}

/// Turns an `async fn(&Trial) -> Outcome` into the [`Check`] of a rule.
macro_rules! run {
    ($function:path) => {
        $crate::rules::Check::Run(|trial| Box::pin($function(trial)))
    };
}
pub(crate) use run;
