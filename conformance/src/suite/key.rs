//! KEY: an identity is its bytes.

use std::num::NonZeroU32;

use idem_core::{Error, ErrorKind, Identity, Key, MAX_TEXT, Scope, State};

use crate::rules::{Profile, Rule, run};
use crate::trial::{MARGIN, Outcome, RETENTION, Stop, Trial, ensure, ensure_eq, plus};

const CORE: Rule = Rule { clause: "identity", ..Rule::of(Profile::Core) };
const WHY: &str = "Folding two keys into one answers one client with another client's response.";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "KEY-001",
        slug: "case_counts",
        text: "Keys and scopes that differ in case are different.",
        why: WHY,
        check: run!(case),
        ..CORE
    },
    Rule {
        id: "KEY-002",
        slug: "spaces_count",
        text: "Keys and scopes that differ in leading or trailing spaces, or in their kind, are different.",
        why: WHY,
        check: run!(spaces),
        ..CORE
    },
    Rule {
        id: "KEY-003",
        slug: "normal_forms_count",
        text: "Composed and decomposed accents, `ß` and `ss`, and look-alikes are different.",
        why: WHY,
        check: run!(normal_forms),
        ..CORE
    },
    Rule {
        id: "KEY-004",
        slug: "longest_key_is_kept_whole",
        text: "Keys and scopes of the greatest length are kept whole, also of four-byte characters; one byte more is refused.",
        why: "A key that is cut silently is another client's key.",
        check: run!(longest),
        ..CORE
    },
    Rule {
        id: "KEY-005",
        slug: "scope_and_key_do_not_run_together",
        text: "(`a`, `bc`) is not (`ab`, `c`), whatever separators they contain.",
        why: "A tenant could choose a key that is another tenant's.",
        check: run!(separators),
        ..CORE
    },
    Rule {
        id: "KEY-006",
        slug: "impossible_keys_are_refused",
        text: "Empty keys, keys with NUL and keys that are not UTF-8 are refused with a typed error, and nothing is stored.",
        why: "NULL is not unique in SQL, and NUL cuts texts: both would let every claim through.",
        check: run!(impossible),
        ..CORE
    },
    Rule {
        id: "KEY-007",
        slug: "special_characters_are_literal",
        text: "`%`, `_`, quotes and backslashes in keys are literal, also when records are completed and purged.",
        why: "A pattern or an unescaped quote in SQL touches other records.",
        check: run!(special),
        ..CORE
    },
];

async fn case(t: &Trial) -> Outcome {
    t.apart(&["key", "Key", "KEY", "kEy", "é", "É", "ı", "I", "i", "İ"]).await
}

async fn spaces(t: &Trial) -> Outcome {
    t.apart(&["key", "key ", "key  ", " key", "key\t", "key\n", "key\u{a0}", "key\u{200b}", "k ey"]).await
}

async fn normal_forms(t: &Trial) -> Outcome {
    t.apart(&["é", "e\u{301}", "e", "ß", "ss", "ſs", "Å", "\u{212b}", "A\u{30a}", "ﬁ", "fi", "а", "a", "１", "1"]).await
}

async fn longest(t: &Trial) -> Outcome {
    let stem = "k".repeat(MAX_TEXT - 1);
    let wide = "🔑".repeat(MAX_TEXT / 4 - 1);
    let texts = [
        format!("{stem}1"),
        format!("{stem}2"),
        stem,
        format!("{wide}🔑abc"),
        format!("{wide}🔒abc"),
        format!("{wide}🔑abd"),
    ];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    t.apart(&texts).await?;
    let too_long = "k".repeat(MAX_TEXT + 1);
    refused(Key::new(&too_long), "a key of one byte more than the longest")?;
    refused(Scope::new(&too_long), "a scope of one byte more than the longest")
}

async fn separators(t: &Trial) -> Outcome {
    let mut pairs = vec![("a", "bc"), ("ab", "c"), ("abc", "a"), ("a", "abc")];
    for separated in [
        [("a", "b:c"), ("a:b", "c")],
        [("a", "b/c"), ("a/b", "c")],
        [("a", "b|c"), ("a|b", "c")],
        [("a", "b\u{1f}c"), ("a\u{1f}b", "c")],
        [("a", "b, c"), ("a, b", "c")],
        [("a", "3:bcd"), ("a3:", "bcd")],
    ] {
        pairs.extend(separated);
    }
    let identities: Result<Vec<_>, _> = pairs.into_iter().map(|(scope, key)| t.named(scope, key)).collect();
    t.independent(&identities?).await
}

async fn impossible(t: &Trial) -> Outcome {
    refused(Key::new(""), "an empty key")?;
    refused(Scope::new(""), "an empty scope")?;
    refused(Key::new("a\0b"), "a key with NUL")?;
    refused(Scope::new("a\0b"), "a scope with NUL")?;
    refused(Key::from_bytes(&[b'k', 0xff, 0xfe]), "a key that is not UTF-8")?;
    refused(Scope::from_bytes(&[0xc3, 0x28]), "a scope that is not UTF-8")?;
    // A store that would take such a key has to take its neighbours, too, and keep them apart.
    t.apart(&["null", "NULL", "\u{fffd}", "?", "\\0", "a", "ab", "undefined", "''"]).await
}

async fn special(t: &Trial) -> Outcome {
    let texts =
        ["a%", "ab", "a_", "ac", "%", "_", "a'b", "a''b", "a\"b", "a`b", "a\\b", "a\\\\b", "a;--", "a[b]", "a*"];
    t.apart(&texts).await?;

    let store = t.store().await?;
    let over = plus(plus(RETENTION, MARGIN), idem_core::machine::Rules::default().quarantine);
    for text in texts {
        let (identity, neighbour) = (t.named("purged", text)?, t.named("kept", text)?);
        for each in [&identity, &neighbour] {
            let grant = t.acquire(each).await?;
            store.store_end(&grant.lease, t.succeeded()).await?;
        }
        t.age(&identity, over).await?;
    }
    if t.declaration().claims(Profile::Maintained) {
        let purged = store.purge_all(NonZeroU32::MAX.get()).await?;
        ensure_eq!(purged.deleted, texts.len() as u64, "how many records with special keys purge deleted");
    }
    for text in texts {
        ensure_eq!(store.get(&t.named("purged", text)?).await?, None, "a record over age with a special key");
        store.replay(&t.usual(&t.named("kept", text)?)?, "of a finished record with a special key").await?;
    }
    Ok(())
}

fn refused<T>(made: Result<T, Error>, what: &str) -> Outcome {
    match made {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        Err(error) => Err(Stop::Fail(format!("{what} was refused as {:?}, expected InvalidInput", error.kind()))),
        Ok(_) => Err(Stop::Fail(format!("{what} was taken"))),
    }
}

impl Trial {
    /// Each of these texts is a key and a scope of its own.
    async fn apart(&self, texts: &[&str]) -> Outcome {
        let keys: Result<Vec<_>, _> = texts.iter().map(|text| self.named("one scope", text)).collect();
        let scopes: Result<Vec<_>, _> = texts.iter().map(|text| self.named(text, "one key")).collect();
        self.independent(&keys?).await?;
        self.independent(&scopes?).await
    }

    /// Each of these identities has a record of its own, found by exactly its own bytes.
    async fn independent(&self, identities: &[Identity]) -> Outcome {
        let store = self.store().await?;
        let mut leases = Vec::new();
        for (number, identity) in identities.iter().enumerate() {
            let when = format!("of an identity (number {number}) that differs from all before it");
            leases.push(store.acquire(&self.usual(identity)?, &when).await?.lease);
        }
        for (number, lease) in leases.iter().enumerate() {
            let record = self.record(&identities[number]).await?;
            ensure!(record.identity == identities[number], "identity number {number} came back with other bytes");
            ensure_eq!(record.token, lease.token, "the token under identity number {number}");
        }
        let Some(first) = leases.first() else { return Ok(()) };
        store.store_end(first, self.succeeded()).await?;
        for (number, identity) in identities.iter().enumerate().skip(1) {
            let state = self.record(identity).await?.state;
            ensure_eq!(state, State::Processing, "identity number {number}, after another one was completed");
        }
        Ok(())
    }
}
