//! The suite on every backend of this build: those without a server, and by `--features postgres,…` real servers.

use std::process::ExitCode;

use conformance::base;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let harnesses = match runtime.block_on(base::every()) {
        Ok(harnesses) => harnesses,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let code = conformance::main_all(harnesses);
    match runtime.block_on(base::end()) {
        Ok(()) => code,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
