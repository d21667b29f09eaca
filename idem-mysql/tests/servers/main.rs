//! The store on real servers: every trial on every MySQL and MariaDB that this machine has.
//!
//! A server that is not to be had makes its trials ignored, with the reason printed, and failed where `IDEM_REQUIRE` names
//! it. Time moves through the data; who waits for whom is arranged, never slept for.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod cancelling;
mod clocks;
mod contract;
mod equivalence;
mod errors;
mod fixture;
mod joining;
mod killed;
mod locking;
mod opening;
mod place;
mod racing;
mod settings;
mod statements;

use std::process::ExitCode;
use std::sync::Arc;

use fixture::Fixture;
use futures::future::BoxFuture;
use libtest_mimic::{Arguments, Failed, Trial};
use place::Place;

/// A named trial on a fresh database.
type Run = (&'static str, fn(Fixture) -> BoxFuture<'static, ()>);

/// The trials of a module. One that is left out is dead code, and does not pass the lints.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), |fixture| Box::pin($name(fixture)))),*]
    };
}
pub(crate) use trials;

const ALL: &[(&str, &[Run])] = &[
    ("contract", contract::TRIALS),
    ("equivalence", equivalence::TRIALS),
    ("opening", opening::TRIALS),
    ("settings", settings::TRIALS),
    ("statements", statements::TRIALS),
    ("locking", locking::TRIALS),
    ("racing", racing::TRIALS),
    ("cancelling", cancelling::TRIALS),
    ("joining", joining::TRIALS),
    ("errors", errors::TRIALS),
    ("clocks", clocks::TRIALS),
    ("killed", killed::TRIALS),
];

fn main() -> ExitCode {
    if clocks::run_as_one() {
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let places = match Place::all() {
        Ok(places) => places,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = Vec::new();
    for place in places {
        if let Some(reason) = place.missing() {
            eprintln!("not run: {}: {reason}", place.name());
            if place.is_required() {
                let reason = format!("IDEM_REQUIRE names it: {reason}");
                trials.push(Trial::test(format!("{}::required", place.name()), move || Err(Failed::from(reason))));
            }
        }
        let place = Arc::new(place);
        for (module, list) in ALL {
            for (name, run) in *list {
                let place = Arc::clone(&place);
                let ignored = place.missing().is_some();
                let trial = Trial::test(format!("{}::{module}::{name}", place.name()), move || {
                    fixture::run(&place, *run);
                    Ok(())
                });
                trials.push(trial.with_ignored_flag(ignored));
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    place::end();
    conclusion.exit_code()
}
