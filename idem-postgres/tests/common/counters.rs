//! What a server counts: transaction ids, bytes of WAL, updates that stayed on their page.

use super::Place;

/// The server's counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) xids: i64,
    pub(crate) wal: i64,
}

impl Counters {
    pub(crate) async fn read(place: &Place) -> Counters {
        Counters {
            xids: place.number("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await,
            wal: place.number("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").await,
        }
    }

    /// What was used since.
    pub(crate) fn since(self, before: Counters) -> Counters {
        Counters { xids: self.xids - before.xids, wal: self.wal - before.wal }
    }
}
