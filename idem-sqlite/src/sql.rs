//! The statements, one a file. Each opens with what it does, its parameters in order, and why it is atomic.

pub(crate) const CLAIM: &str = include_str!("../sql/claim.sql");
pub(crate) const NEW_LIFE: &str = include_str!("../sql/new_life.sql");
pub(crate) const TAKE_OVER: &str = include_str!("../sql/take_over.sql");
pub(crate) const REPEAT: &str = include_str!("../sql/repeat.sql");
pub(crate) const RENEW: &str = include_str!("../sql/renew.sql");
pub(crate) const COMPLETE: &str = include_str!("../sql/complete.sql");
pub(crate) const RELEASE: &str = include_str!("../sql/release.sql");
pub(crate) const GET: &str = include_str!("../sql/get.sql");
pub(crate) const PURGE: &str = include_str!("../sql/purge.sql");
pub(crate) const PURGE_RESPONSES: &str = include_str!("../sql/purge_responses.sql");

/// Every statement, to be prepared when a store opens: a table that does not fit is found there and then.
pub(crate) const ALL: [&str; 10] =
    [CLAIM, NEW_LIFE, TAKE_OVER, REPEAT, RENEW, COMPLETE, RELEASE, GET, PURGE, PURGE_RESPONSES];
