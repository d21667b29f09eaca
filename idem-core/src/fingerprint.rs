//! What makes two requests the same request.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Operation;

/// 32 bytes (SHA-256) of what makes two requests the same request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Starts a fingerprint with the operation as its first ingredient.
    pub fn of(operation: &Operation) -> FingerprintBuilder {
        let mut builder = FingerprintBuilder(Sha256::new());
        builder.0.update(DOMAIN);
        builder.field("operation", operation.as_str().as_bytes())
    }

    /// The fingerprint with these bytes, as a store reads it back.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// The bytes that a store writes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}{:02x}{:02x}…", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// Separates these digests from every other use of SHA-256, and one layout of the input from the next.
const DOMAIN: &[u8] = b"idem/fingerprint/v1\0";

/// Collects the ingredients of a [`Fingerprint`].
///
/// Every name and every value goes in behind its length, so ("a", "b") never equals ("ab", ""), and a name says what
/// its value is, so two ingredients cannot change places.
#[derive(Clone)]
#[must_use = "a fingerprint is made by `finish`"]
pub struct FingerprintBuilder(Sha256);

impl FingerprintBuilder {
    /// Adds one named ingredient.
    pub fn field(mut self, name: &str, value: &[u8]) -> FingerprintBuilder {
        self.part(name.as_bytes());
        self.part(value);
        self
    }

    /// The fingerprint of everything added so far.
    #[must_use]
    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }

    fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}

impl fmt::Debug for FingerprintBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintBuilder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&str, &str)]) -> Fingerprint {
        let operation = Operation::new("POST /payments").expect("valid");
        fields
            .iter()
            .fold(Fingerprint::of(&operation), |builder, (name, value)| builder.field(name, value.as_bytes()))
            .finish()
    }

    #[test]
    fn bytes_cannot_move_between_fields() {
        assert_ne!(of(&[("a", "b")]), of(&[("ab", "")]));
        assert_ne!(of(&[("a", "bc"), ("d", "")]), of(&[("a", "b"), ("cd", "")]));
        assert_ne!(of(&[("a", ""), ("b", "")]), of(&[("a", "")]));
        assert_ne!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
        assert_eq!(of(&[("a", "1")]), of(&[("a", "1")]));
    }

    #[test]
    fn the_layout_is_frozen() {
        // A stored fingerprint outlives a deployment: another value here turns every retry into a mismatch.
        let hex: String = of(&[("body", "{}")]).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "448d186250271c3e4d6fcb598af60ebac9bd8e610aa1eaf3cc3c11c3c7ecf6a2");
    }

    #[test]
    fn operations_are_apart() {
        let other = Operation::new("POST /refunds").expect("valid");
        assert_ne!(of(&[]), Fingerprint::of(&other).finish());
    }
}
