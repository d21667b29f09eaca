//! The subcommands, one file each. A subcommand ends with 0 only when what it checks holds.

mod certify;
mod features;
mod mutants;
mod rules;
mod servers;

pub(crate) use certify::Certify;
pub(crate) use mutants::Mutants;
pub(crate) use rules::Rules;
pub(crate) use servers::Servers;

use std::future::Future;
use std::process::ExitCode;

/// What a subcommand ends with, or why it could not do its work.
pub(crate) type Ended = Result<ExitCode, String>;

/// Runs to the end on a runtime of its own.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map(|runtime| runtime.block_on(work)).map_err(|error| format!("no runtime: {error}"))
}
