//! Bases are off by default, so `cargo run -p conformance` builds none of them: it builds itself again with the one that
//! it is asked for, and with no other.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::Ended;

/// Says that this process was started by the one that asked for the feature, so that a mistake cannot go round for ever.
const REBUILT: &str = "IDEM_CONFORMANCE_REBUILT";

/// Runs this command again, built with these features.
pub(super) fn run_with(features: &str) -> Ended {
    let by_hand = || format!("this build has no `{features}`: cargo run -p conformance --features {features} -- …");
    // Cargo names itself to what it runs; without it this is an installed program that has to be built anew by hand.
    let (Some(cargo), None) = (std::env::var_os("CARGO"), std::env::var_os(REBUILT)) else {
        return Err(by_hand());
    };
    // In the place of this process, so that a signal for it reaches the one that has servers to end.
    let error = Command::new(cargo)
        .args(["run", "--quiet", "--package", "conformance", "--features", features, "--"])
        .args(std::env::args_os().skip(1))
        .env(REBUILT, features)
        .exec();
    Err(format!("{}: {error}", by_hand()))
}
