//! The store's clock.

use std::fmt;

use idem_core::StoreTime;

/// The host's clock as it is at this moment: SQLite has none of its own (clause T1).
///
/// It is read anew every time, and a step back is followed. The processes on one file have nothing in common but the
/// host's clock: one that clung to a later reading would see leases lapsed that run, and take over from a live owner.
/// A step back is sound, because all that it does is to lengthen what runs: leases, retention, quarantine. It repeats
/// no fence: that of a row grows whatever the clock says, and a row is deleted only a quarantine after it became free,
/// which is longer than any step (clause P7).
pub(crate) struct Clock {
    read: Box<dyn Fn() -> StoreTime + Send + Sync>,
}

impl Clock {
    pub(crate) fn now(&self) -> StoreTime {
        (self.read)()
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { read: Box::new(StoreTime::of_this_host) }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use idem_core::machine::Rules;
    use idem_core::{
        Claim, Claimed, Complete, End, Fingerprint, Grant, Identity, Key, Operation as Name, Release, Released, Renew,
        Renewed, Response, Scope,
    };
    use rusqlite::Connection;
    use tempfile::TempDir;

    use super::*;
    use crate::connection::{make_durable, open_writer};
    use crate::operation::{Context, Operation, Purge};
    use crate::schema;

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3_600 * SECOND;
    const DAY: u64 = 24 * HOUR;
    const NOON: u64 = 1_700_000_000 * SECOND;

    /// A host whose clock is set by the test, and the file on it.
    struct Host {
        dir: TempDir,
        time: Arc<AtomicU64>,
    }

    /// What a process has for itself: a connection, and what it knows of the time.
    struct Process {
        connection: Connection,
        context: Context,
    }

    impl Host {
        fn new() -> Host {
            Host { dir: tempfile::tempdir().expect("a directory"), time: Arc::new(AtomicU64::new(NOON)) }
        }

        fn set(&self, time: u64) {
            self.time.store(time, Ordering::Relaxed);
        }

        fn process(&self) -> Process {
            let connection = open_writer(&self.dir.path().join("idem.db")).expect("opened");
            make_durable(&connection, Instant::now()).expect("set");
            let time = Arc::clone(&self.time);
            let clock = Clock { read: Box::new(move || StoreTime::from_micros(time.load(Ordering::Relaxed))) };
            schema::migrate(&connection, &clock).expect("not busy").expect("made");
            Process { connection, context: Context { clock, rules: Rules::default(), response_limit: 1_024 } }
        }
    }

    impl Process {
        fn run<O: Operation>(&self, operation: &O) -> O::Answer {
            operation.run(&self.connection, &self.context).expect("answered")
        }

        fn acquire(&self, key: &str) -> Grant {
            match self.run(&claim(key)) {
                Claimed::Acquired(grant) => grant,
                other => panic!("not acquired: {other:?}"),
            }
        }
    }

    fn claim(key: &str) -> Claim {
        let operation = Name::new("test").expect("valid");
        let fingerprint = Fingerprint::of(&operation).finish();
        let identity = Identity::new(Scope::global(), Key::new(key).expect("valid"));
        Claim::builder(identity, operation, fingerprint).build().expect("valid")
    }

    #[test]
    fn a_process_that_saw_a_later_time_takes_nothing_from_a_live_owner() {
        let host = Host::new();
        let (owner, other) = (host.process(), host.process());
        for ahead in [HOUR, 3 * DAY] {
            host.set(NOON + ahead);
            other.acquire(&format!("before {ahead}"));
            host.set(NOON);
            let key = format!("after {ahead}");
            let grant = owner.acquire(&key);
            assert!(matches!(other.run(&claim(&key)), Claimed::InFlight { .. }), "C5: the lease runs");
            assert_eq!(owner.run(&Renew::new(grant.lease.clone())), Renewed::Held);
            owner.run(&Complete::new(grant.lease, End::Succeeded(Response::new(201).into())));
            assert_eq!(other.run(&Purge(NonZeroU32::MAX)).deleted, 0, "P2");
            assert!(matches!(other.run(&claim(&key)), Claimed::Replay(_)), "C4");
        }
    }

    #[test]
    fn a_step_back_lengthens_a_lease() {
        let host = Host::new();
        let process = host.process();
        process.acquire("k");
        host.set(NOON - HOUR);
        assert!(matches!(process.run(&claim("k")), Claimed::InFlight { .. }));
        host.set(NOON + 31 * SECOND);
        assert_eq!(process.acquire("k").lease.attempt, 2);
    }

    #[test]
    fn a_step_back_repeats_no_fence() {
        let host = Host::new();
        let process = host.process();
        host.set(NOON + HOUR);
        let first = process.acquire("k").lease;
        assert_eq!(process.run(&Release::new(first.clone())), Released::Released);
        host.set(NOON);
        let second = process.acquire("k").lease;
        assert_eq!(second.fence.get(), first.fence.get() + 1, "the row remembers");
        assert_eq!(process.run(&Release::new(second.clone())), Released::Released);

        // Deleted when it has been free for a quarantine, so a step below that cannot reach back to its fences.
        host.set(NOON + DAY + HOUR - SECOND);
        assert_eq!(process.run(&Purge(NonZeroU32::MAX)).deleted, 0, "P7");
        host.set(NOON + DAY + HOUR);
        assert_eq!(process.run(&Purge(NonZeroU32::MAX)).deleted, 1);
        host.set(NOON + DAY + SECOND);
        assert!(process.acquire("k").lease.fence > second.fence);
    }
}
