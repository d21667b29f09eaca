#![doc = include_str!("../README.md")]

pub mod rules;
pub mod harness;
pub mod fault;
pub mod trial;
mod suite;
mod probe;
mod runner;
pub mod report;
pub mod mutants;
pub mod base;
#[cfg(feature = "servers")]
pub mod drill;
#[cfg(feature = "servers")]
pub mod provider;

pub use harness::Harness;
pub use report::{Report, RuleResult, Status, Verdict};
pub use rules::{Profile, Rule};
pub use runner::{Run, Settings, Tier, assert_conformant, main, main_all};
