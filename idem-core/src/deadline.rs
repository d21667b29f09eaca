//! Instants that are some time away, however long that is.

use std::time::Duration;

use tokio::time::Instant;

/// As good as never, and still an instant that every platform can represent.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The instant that is so far away; for a budget without end, one that nobody lives to see.
pub(crate) fn after(budget: Duration) -> Instant {
    Instant::now() + budget.min(FAR)
}
