//! The reference store of `idem-core`.

use std::sync::Arc;

use idem_core::MemoryStore;

use super::{InMemory, Sharing};
use crate::Profile;
use crate::harness::{Declaration, Implementation};

/// The harness of [`MemoryStore`].
#[must_use]
pub fn memory() -> InMemory {
    let declaration = Declaration::core().with(Profile::Maintained);
    let identity = Implementation::new("memory", env!("CARGO_PKG_VERSION"));
    InMemory::new(identity, declaration, Sharing::Apart, |how| Arc::new(MemoryStore::with_rules(how.rules)))
}
