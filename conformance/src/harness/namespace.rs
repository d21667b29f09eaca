//! A place for the records of one trial.

use std::fmt;

/// Names the place where one trial keeps its records: a schema, a database, a table's prefix, a file.
///
/// Lower-case letters, digits and `_`, beginning with a letter, at most [`Namespace::LONGEST`]: an identifier in every
/// SQL dialect, and a file's name, without quoting. No two trials, and no two runs, have the same.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(String);

impl Namespace {
    /// The longest name, in bytes.
    pub const LONGEST: usize = 40;

    pub(crate) fn new(what: &str, nonce: u64, number: u32) -> Namespace {
        let what: String = what.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        Namespace(format!("idem_{}_{:08x}_{number:x}", what.to_ascii_lowercase(), nonce & 0xffff_ffff))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_identifier_everywhere() {
        let name = Namespace::new("CHECKPOINT-001-and-more-than-that", u64::MAX, u32::MAX);
        assert!(name.as_str().len() <= Namespace::LONGEST, "{name}");
        assert!(name.as_str().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
    }
}
