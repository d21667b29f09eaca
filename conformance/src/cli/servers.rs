//! `servers`: where the servers of the suite come from on this machine.

use clap::Args;

use super::Ended;

/// Start every server by every way, show what it is, and end it.
#[derive(Args)]
pub(crate) struct Servers {
    /// Only these kinds.
    kinds: Vec<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Servers {
    #[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
    pub(crate) fn run(self) -> Ended {
        use conformance::provider::{Kind, ServersArgs, servers};

        let kind = |name: &String| {
            let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            known.ok_or_else(|| format!("there is no kind of server called {name}"))
        };
        let kinds = self.kinds.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        let mut arguments = ServersArgs::default();
        (arguments.kinds, arguments.json) = (kinds, self.json);
        super::block_on(servers(arguments))
    }

    /// The drivers of all servers are in no build that did not ask for them.
    #[cfg(not(all(feature = "postgres", feature = "mysql", feature = "redis")))]
    pub(crate) fn run(self) -> Ended {
        let Servers { kinds: _, json: _ } = self;
        super::features::run_with("postgres,mysql,redis")
    }
}
