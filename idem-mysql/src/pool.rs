//! The store's own connections: how they are set up, and what keeps them so.

use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints};

/// Seconds that a statement waits for another transaction's lock. The least that MySQL takes.
pub(crate) const LOCK_WAIT_SECS: u32 = 1;

/// What the statements stand on. `sql_mode` is said whole: a mode of the server's could change what they mean. Any server
/// may start sessions outside autocommit, and what is written there would never be committed.
const SESSION: &str = "SET SESSION autocommit = 1, time_zone = '+00:00', innodb_lock_wait_timeout = 1, \
                       sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'";

/// Without gap locks: claims of different keys, and a purge, do not meet. Needs no variable, whose name differs.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// Room for every statement of the store.
const STATEMENTS: usize = 32;

/// A pool of this many connections.
///
/// They are not reset when they come back, which would forget the prepared statements: the store leaves nothing behind in
/// a session. None is closed for being one too many, so a burst opens none anew.
pub(crate) fn open(opts: Opts, connections: usize, on_connect: &[String]) -> Pool {
    Pool::new(options(opts, connections, on_connect))
}

/// The options of the store's own connections.
pub(crate) fn options(opts: Opts, connections: usize, on_connect: &[String]) -> Opts {
    // The driver runs these from the last to the first.
    let mut setup: Vec<String> = opts.setup().to_vec();
    setup.extend(on_connect.iter().rev().cloned());
    setup.extend([ISOLATION.to_owned(), SESSION.to_owned()]);
    let constraints = PoolConstraints::new(connections, connections).unwrap_or_default();
    let pool_opts = opts.pool_opts().clone().with_constraints(constraints).with_reset_connection(false);
    OptsBuilder::from_opts(opts)
        .client_found_rows(true)
        .stmt_cache_size(STATEMENTS)
        .setup(setup)
        .pool_opts(pool_opts)
        .into()
}
