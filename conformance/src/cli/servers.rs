//! `servers`: shows the servers that the suite can start.

use clap::Args;

use super::Ended;

/// Start every server by every way, show its version, where it came from and the settings that decide durability, and
/// stop it.
///
/// Ends with 0 when all that came up is durable and ended, and whatever IDEM_REQUIRE names came up.
#[derive(Args)]
pub(crate) struct Servers {
    /// Only these kinds: postgres, mysql, mariadb, redis, valkey.
    kinds: Vec<String>,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Servers {
    #[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
    pub(crate) fn run(self) -> Ended {
        use conformance::provider::command::{ServersArgs, servers};

        let kinds = self.kinds.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        super::block_on(servers(ServersArgs { kinds, json: self.json }))
    }

    #[cfg(not(all(feature = "postgres", feature = "mysql", feature = "redis")))]
    pub(crate) fn run(self) -> Ended {
        // The arguments are read by the build that has the clients.
        let Servers { kinds: _, json: _ } = self;
        super::features::run_with("postgres,mysql,redis")
    }
}
