//! Mutants of the state machine: one decision changed each.

mod ends;
mod grants;
mod identities;
mod keeping;

use std::sync::LazyLock;

use super::Mutant;

/// All of them.
pub(super) static MUTANTS: LazyLock<Vec<Mutant>> =
    LazyLock::new(|| [grants::MUTANTS, ends::MUTANTS, keeping::MUTANTS, identities::MUTANTS].concat());
