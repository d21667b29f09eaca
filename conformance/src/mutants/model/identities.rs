//! Identities that run together.

use idem_core::{Identity, Key, Scope};

use crate::mutants::logic::Logic;
use crate::mutants::{Kind, Mutant};

const fn finding(identity: fn(&Identity) -> Identity) -> Kind {
    Kind::Model(Logic { identity, ..Logic::GOOD })
}

/// The identity with its key, and its scope, changed; where that leaves no key, the identity itself.
fn folded(identity: &Identity, fold: impl Fn(&str) -> String) -> Identity {
    let (scope, key) = (Scope::new(fold(identity.scope.as_str())), Key::new(fold(identity.key.as_str())));
    match (scope, key) {
        (Ok(scope), Ok(key)) => Identity::new(scope, key),
        _ => identity.clone(),
    }
}

/// Cuts at a number of bytes, as a column that is too short does.
fn cut(text: &str, length: usize) -> String {
    let end = (0..=length.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text[..end].to_owned()
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        id: "M-case-folded",
        kind: finding(|identity| folded(identity, str::to_lowercase)),
        kills: "KEY-001",
        because: "A collation that ignores case.",
        says: "of an identity (number 1) that differs from all before it was answered InFlight",
    },
    Mutant {
        id: "M-spaces-padded",
        kind: finding(|identity| folded(identity, |text| text.trim_end_matches(' ').to_owned())),
        kills: "KEY-002",
        because: "A collation that pads with spaces.",
        says: "of an identity (number 1) that differs from all before it was answered InFlight",
    },
    Mutant {
        id: "M-accents-folded",
        kind: finding(|identity| {
            folded(identity, |text| text.replace("e\u{301}", "é").replace('é', "e").replace('ß', "ss"))
        }),
        kills: "KEY-003",
        because: "A collation that ignores accents.",
        says: "of an identity (number 1) that differs from all before it was answered InFlight",
    },
    Mutant {
        id: "M-key-cut",
        kind: finding(|identity| folded(identity, |text| cut(text, 254))),
        kills: "KEY-004",
        because: "A column of one byte less cuts silently.",
        says: "that differs from all before it was answered InFlight",
    },
    Mutant {
        id: "M-scope-and-key-joined",
        kind: finding(|identity| {
            let joined = format!("{}:{}", identity.scope.as_str(), identity.key.as_str());
            match Key::new(joined) {
                Ok(key) => Identity::new(Scope::global(), key),
                Err(_) => identity.clone(),
            }
        }),
        kills: "KEY-005",
        because: "Scope and key are joined by a colon.",
        says: "that differs from all before it was answered InFlight",
    },
    Mutant {
        id: "M-bad-bytes-replaced",
        kind: finding(|identity| folded(identity, |text| text.replace('\u{fffd}', "?"))),
        kills: "KEY-006",
        because: "What the connection's character set does not have becomes a question mark.",
        says: "that differs from all before it was answered InFlight",
    },
    Mutant {
        id: "M-quotes-unescaped",
        kind: finding(|identity| folded(identity, |text| text.replace("''", "'").replace("\\\\", "\\"))),
        kills: "KEY-007",
        because: "Keys go into SQL as text, and are unescaped on the way.",
        says: "that differs from all before it was answered InFlight",
    },
    Mutant {
        id: "M-scope-ignored",
        kind: finding(|identity| Identity::new(Scope::global(), identity.key.clone())),
        kills: "ISO-001",
        because: "The UNIQUE constraint is on the key alone.",
        says: "of the same key in another scope was answered Mismatch",
    },
];
