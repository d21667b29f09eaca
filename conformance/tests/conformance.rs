//! The suite on every backend that needs no server.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::base::{self, Sqlite};

fn main() -> ExitCode {
    conformance::main_all(vec![Arc::new(base::memory()), Arc::new(Sqlite::new(None))])
}
