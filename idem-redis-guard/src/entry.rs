//! What Redis is told, sealed so that Redis cannot say anything else.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use idem_core::{Fence, Final, Fingerprint, Identity, Recorded, Response, StoreTime, Token};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::ground::Secret;

/// The copy of one record, or the hint that somebody runs it. All times are the database's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) fence: Fence,
    /// Not believed at this instant and after.
    pub(crate) until: StoreTime,
    pub(crate) says: Says,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Says {
    /// An attempt was granted, or was renewed, a moment ago.
    Running(Running),
    /// Nothing is known. Left so that an older hint that arrives late finds a newer entry.
    Nothing,
    /// A copy of the finished record, made after the database's commit.
    Done(Done),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) token: Token,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) end: Final,
    code: u16,
    kept: Option<Kept>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    meta: Bytes,
    body: Option<Bytes>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kept({} bytes)", self.meta.len() + self.body.as_ref().map_or(0, Bytes::len))
    }
}

impl Done {
    pub(crate) fn of(fingerprint: Fingerprint, end: Final, recorded: &Recorded) -> Done {
        let kept = match recorded {
            Recorded::Response(response) => Some(Kept { meta: response.meta.clone(), body: response.body.clone() }),
            Recorded::Tombstone { .. } => None,
        };
        Done { fingerprint, end, code: recorded.code(), kept }
    }

    pub(crate) fn recorded(self) -> Recorded {
        match self.kept {
            Some(Kept { meta, body }) => Recorded::Response(Response { code: self.code, meta, body }),
            None => Recorded::Tombstone { code: self.code },
        }
    }
}

/// Digits that grow with every newer entry of one identity. Digits, because the script compares them as text.
const RANK: usize = 21;
const SEAL: usize = 32;
/// Another layout has another number, and is not read.
const LAYOUT: &[u8] = b"idem/guard/v1\0";

impl Entry {
    /// The bytes for Redis: rank, seal, content.
    pub(crate) fn seal(&self, secret: &Secret, name: &[u8]) -> Option<Vec<u8>> {
        let content = postcard::to_stdvec(self).ok()?;
        let rank = self.rank();
        let mut bytes = Vec::with_capacity(RANK + SEAL + content.len());
        bytes.extend_from_slice(rank.as_bytes());
        bytes.extend_from_slice(&seal(secret, name, rank.as_bytes(), &content).finalize().into_bytes());
        bytes.extend_from_slice(&content);
        Some(bytes)
    }

    /// Reads what [`seal`](Entry::seal) wrote under this name with this secret; None for anything else: forged,
    /// damaged, moved from another name, another store's, or another version's.
    pub(crate) fn open(secret: &Secret, name: &[u8], bytes: &[u8]) -> Option<Entry> {
        let (rank, rest) = bytes.split_at_checked(RANK)?;
        let (sealed, content) = rest.split_at_checked(SEAL)?;
        seal(secret, name, rank, content).verify_slice(sealed).ok()?;
        postcard::from_bytes(content).ok()
    }

    fn rank(&self) -> String {
        let phase = match self.says {
            Says::Running(_) => 0,
            Says::Nothing => 1,
            Says::Done(_) => 2,
        };
        format!("{:020}{phase}", self.fence.get())
    }
}

/// What an identity is called in Redis: neither scope nor key can be read from it.
pub(crate) fn name(secret: &Secret, prefix: &str, identity: &Identity) -> Vec<u8> {
    let mut mac = keyed(secret);
    mac.update(b"name\0");
    for part in [identity.scope.as_str(), identity.key.as_str()] {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part.as_bytes());
    }
    let digest = mac.finalize().into_bytes();
    let hex: String = digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}:{hex}").into_bytes()
}

fn seal(secret: &Secret, name: &[u8], rank: &[u8], content: &[u8]) -> Hmac<Sha256> {
    let mut mac = keyed(secret);
    mac.update(b"entry\0");
    mac.update(&(name.len() as u64).to_le_bytes());
    mac.update(name);
    mac.update(rank);
    mac.update(content);
    mac
}

fn keyed(secret: &Secret) -> Hmac<Sha256> {
    #[allow(clippy::expect_used)] // HMAC takes keys of every length.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key of any length");
    mac.update(LAYOUT);
    mac
}

#[cfg(test)]
mod tests {
    use idem_core::{Key, Operation, Scope};

    use super::*;

    fn entry(fence: u64, says: Says) -> Entry {
        Entry { fence: Fence::new(fence), until: StoreTime::from_micros(7), says }
    }

    fn done(recorded: &Recorded) -> Says {
        let operation = Operation::new("POST /payments").expect("valid");
        Says::Done(Done::of(Fingerprint::of(&operation).finish(), Final::Failed, recorded))
    }

    #[test]
    fn what_was_sealed_comes_back_byte_for_byte() {
        let secret = Secret::from_bytes([7; 32]);
        let all: Vec<u8> = (0..=255).collect();
        let responses = [
            Recorded::Tombstone { code: 9 },
            Response::new(200).into(),
            Response::new(200).with_body(Bytes::new()).into(),
            Response::new(0).with_meta(all.clone()).with_body(all).into(),
        ];
        for recorded in responses {
            let sealed = entry(3, done(&recorded)).seal(&secret, b"n").expect("sealed");
            let Says::Done(found) = Entry::open(&secret, b"n", &sealed).expect("opened").says else {
                panic!("not done")
            };
            assert_eq!((found.end, found.recorded()), (Final::Failed, recorded));
        }
    }

    #[test]
    fn anything_else_is_not_read() {
        let (secret, other) = (Secret::from_bytes([7; 32]), Secret::from_bytes([8; 32]));
        let sealed = entry(3, Says::Nothing).seal(&secret, b"n").expect("sealed");
        assert!(Entry::open(&secret, b"n", &sealed).is_some());
        assert!(Entry::open(&secret, b"m", &sealed).is_none(), "moved to another name");
        assert!(Entry::open(&other, b"n", &sealed).is_none(), "another store's");
        for at in 0..sealed.len() {
            let mut bent = sealed.clone();
            bent[at] ^= 1;
            assert!(Entry::open(&secret, b"n", &bent).is_none(), "a byte changed at {at}");
            assert!(Entry::open(&secret, b"n", &sealed[..at]).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn newer_entries_rank_higher() {
        let running = |fence| {
            let operation = Operation::new("x").expect("valid");
            let fingerprint = Fingerprint::of(&operation).finish();
            entry(fence, Says::Running(Running { fingerprint, token: Token::from_bytes([0; 16]) })).rank()
        };
        let done = |fence| entry(fence, done(&Recorded::Tombstone { code: 0 })).rank();
        let ranks = [running(1), entry(1, Says::Nothing).rank(), done(1), running(2), done(2), running(u64::MAX)];
        assert!(ranks.is_sorted() && ranks.iter().all(|rank| rank.len() == RANK));
    }

    #[test]
    fn names_hide_and_differ() {
        let secret = Secret::from_bytes([7; 32]);
        let of = |scope: &str, key: &str| {
            let identity = Identity::new(Scope::new(scope).expect("valid"), Key::new(key).expect("valid"));
            String::from_utf8(name(&secret, "idem", &identity)).expect("text")
        };
        assert_ne!(of("a", "bc"), of("ab", "c"));
        assert!(!of("scope", "secret").contains("secret") && of("scope", "secret").len() < 60);
    }
}
