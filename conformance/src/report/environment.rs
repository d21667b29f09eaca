//! Where a run took place.

use serde::Serialize;

/// Where a run took place: what a reader needs to judge its times, and nothing that names the machine.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    os: &'static str,
    arch: &'static str,
    cpus: usize,
    debug_build: bool,
}

impl Environment {
    /// This process's.
    #[must_use]
    pub fn here() -> Environment {
        Environment {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            debug_build: cfg!(debug_assertions),
        }
    }
}
