//! The servers, on real ones: every kind by every way that this machine has.
//!
//! A way that is not to be had makes its trials ignored, with the reason printed, and failed where `IDEM_REQUIRE` names
//! the kind. A trial that is about the end of a process runs this binary again, as the child that ends.

// A test as much as those under libtest, which clippy excuses by itself.
#![allow(clippy::unwrap_used)]

#[path = "servers/child.rs"]
mod child;
#[path = "servers/data.rs"]
mod data;
#[path = "servers/trials.rs"]
mod trials;

use std::process::ExitCode;

use conformance::provider::{Kind, Policy, Way, available};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    if let Some(task) = child::Task::from_env() {
        return task.run();
    }
    let arguments = Arguments::from_args();
    let policy = match Policy::from_env() {
        Ok(policy) => policy,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let mut missing = Vec::new();
        for way in [Way::Container, Way::Local] {
            let there = match policy.ways.contains(&way) {
                true => trials::block_on(available(kind, way)),
                false => Err("IDEM_PROVIDER leaves it out".to_owned()),
            };
            if let Err(reason) = &there {
                eprintln!("not run: {kind} by {way}: {reason}");
                missing.push(reason.clone());
            }
            for (name, run) in trials::OF_EACH {
                let trial = Trial::test(format!("{kind}::{way}::{name}"), move || run(kind, way));
                all.push(trial.with_ignored_flag(there.is_err()));
            }
        }
        if policy.required.contains(&kind) && missing.len() == 2 {
            let reason = missing.join("; ");
            let required = move || Err(Failed::from(format!("IDEM_REQUIRE names it: {reason}")));
            all.push(Trial::test(format!("{kind}::required"), required));
        }
    }
    all.extend(trials::OF_CHOICE.map(|(name, run)| Trial::test(format!("choice::{name}"), run)));
    let no_container = trials::block_on(available(Kind::Redis, Way::Container)).is_err();
    let unstartable = Trial::test("choice::a_container_that_cannot_be_started_is_removed", trials::unstartable);
    all.push(unstartable.with_ignored_flag(no_container));
    let conclusion = libtest_mimic::run(&arguments, all);
    if let Err(reason) = trials::block_on(conformance::provider::shutdown()) {
        eprintln!("{reason}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
