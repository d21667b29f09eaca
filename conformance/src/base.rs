//! Ready-made harnesses. Each is behind a feature of its backend's name, and all are off by default.

mod in_memory;
#[cfg(feature = "memory")]
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

pub use in_memory::{Ageable, InMemory, Sharing};
#[cfg(feature = "memory")]
pub use memory::memory;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

use crate::Harness;

/// The backends that there is a harness for, whether this build has it or not. A backend's feature has its name.
pub const NAMES: &[&str] = &["memory", "sqlite"];

/// Why there is no harness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Nobody has written one.
    Unknown,
    /// This build was made without the feature of this name.
    Feature(&'static str),
}

/// The harness of this backend, at this URL where it has one.
///
/// # Errors
/// When there is none in this build.
pub fn find(name: &str, url: Option<&str>) -> Result<Arc<dyn Harness>, Missing> {
    let known = NAMES.iter().find(|known| **known == name).ok_or(Missing::Unknown)?;
    built_in(known, url).ok_or(Missing::Feature(known))
}

fn built_in(name: &str, url: Option<&str>) -> Option<Arc<dyn Harness>> {
    // Not every backend has a URL, and not every build has a backend.
    let _ = url;
    match name {
        #[cfg(feature = "memory")]
        "memory" => Some(Arc::new(memory())),
        #[cfg(feature = "sqlite")]
        "sqlite" => Some(Arc::new(Sqlite::new(url))),
        _ => None,
    }
}
