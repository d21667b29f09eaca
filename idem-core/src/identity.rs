//! Whose key it is, the key, and what is run under it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest scope, key, operation or owner label, in bytes.
pub const MAX_TEXT: usize = 255;

fn checked(what: &'static str, text: &str) -> Result<Arc<str>, Error> {
    if text.is_empty() {
        return Err(Error::invalid_input(format!("the {what} is empty")));
    }
    if text.len() > MAX_TEXT {
        return Err(Error::invalid_input(format!(
            "the {what} has {} bytes, at most {MAX_TEXT} are allowed",
            text.len()
        )));
    }
    if text.contains('\0') {
        return Err(Error::invalid_input(format!("the {what} contains a NUL byte")));
    }
    Ok(Arc::from(text))
}

fn checked_bytes<'a>(what: &'static str, bytes: &'a [u8]) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::invalid_input(format!("the {what} is not valid UTF-8")))
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $what:literal, $debug:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            #[doc = concat!("Checks and takes the ", $what, ".")]
            ///
            /// # Errors
            /// `InvalidInput` when it is empty, longer than [`MAX_TEXT`] bytes, or contains a NUL.
            pub fn new(text: impl AsRef<str>) -> Result<$name, Error> {
                checked($what, text.as_ref()).map($name)
            }

            #[doc = concat!("The same for a ", $what, " that arrives as bytes.")]
            ///
            /// # Errors
            /// As [`new`](Self::new), and `InvalidInput` when the bytes are not UTF-8.
            pub fn from_bytes(bytes: &[u8]) -> Result<$name, Error> {
                $name::new(checked_bytes($what, bytes)?)
            }

            /// The text, byte for byte as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let show: fn(&str, &mut fmt::Formatter<'_>) -> fmt::Result = $debug;
                show(&self.0, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<$name, Error> {
                $name::new(text)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> String {
                text.0.as_ref().to_owned()
            }
        }
    };
}

fn hidden(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "<{} bytes>", text.len())
}

fn shown(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Debug::fmt(text, f)
}

text!(
    /// Whose key it is: a tenant, a user, an API key, a webhook vendor. Keys of two scopes never meet.
    ///
    /// 1..=255 bytes of UTF-8 without NUL, compared byte for byte. `Debug` hides it (clause X6).
    Scope,
    "scope",
    hidden
);

text!(
    /// What the client sent as its idempotency key.
    ///
    /// 1..=255 bytes of UTF-8 without NUL, compared byte for byte: case, accents, trailing spaces and normal forms
    /// all count. `Debug` hides it (clause X6).
    Key,
    "key",
    hidden
);

text!(
    /// Short text that names what is run (a route, a job). First ingredient of the fingerprint, kept for the audit
    /// trail.
    Operation,
    "operation",
    shown
);

text!(
    /// Who runs an attempt: a host and process, for people who read the audit trail. It decides nothing.
    Owner,
    "owner label",
    shown
);

impl Scope {
    /// The one scope of an application that has one tenant. It has to be said: there is no silent default.
    #[must_use]
    pub fn global() -> Scope {
        Scope(Arc::from("global"))
    }
}

/// (scope, key): what the UNIQUE constraint of every SQL store is on, as two columns.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Whose key it is.
    pub scope: Scope,
    /// The key.
    pub key: Key,
}

impl Identity {
    /// The identity of this key in this scope.
    #[must_use]
    pub fn new(scope: Scope, key: Key) -> Identity {
        Identity { scope, key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn bad_texts_are_refused_without_naming_them() {
        let long = "x".repeat(MAX_TEXT + 1);
        for bad in ["", "secret\0", long.as_str()] {
            let error = Key::new(bad).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(bad.is_empty() || !error.to_string().contains(bad));
        }
        assert!(Key::from_bytes(&[0xff, 0xfe]).is_err());
        assert!(Key::new("é".repeat(127) + "x").is_ok());
    }

    #[test]
    fn debug_shows_no_key() {
        let identity = Identity::new(Scope::global(), Key::new("secret").expect("valid"));
        assert!(!format!("{identity:?}").contains("secret"));
    }

    #[test]
    fn nothing_is_folded() {
        let keys = ["k", "K", "k ", "é", "e\u{301}", "ß", "ss"].map(|k| Key::new(k).expect("valid"));
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
