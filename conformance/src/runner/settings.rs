//! What a run can be told.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::RngExt as _;

/// The environment variable that replays a seed.
const SEED: &str = "IDEM_SEED";

/// What a run can be told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where all random choices come from.
    pub seed: u64,
    /// How much is done.
    pub tier: Tier,
    /// Makes namespaces differ from those of every other run, with the same seed too.
    pub(crate) nonce: u64,
}

impl Settings {
    /// With this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Settings {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nonce = rand::rng().random::<u64>() ^ u64::from(since.subsec_nanos());
        Settings { seed, tier: Tier::default(), nonce }
    }

    /// With the seed that the environment names, or a new one.
    ///
    /// # Errors
    /// When the environment names something that is no number: a replay that silently used another seed is none.
    pub fn from_environment() -> Result<Settings, String> {
        match std::env::var(SEED) {
            Ok(text) => text.parse().map(Settings::seeded).map_err(|_| format!("{SEED}={text} is no number")),
            Err(_) => Ok(Settings::seeded(u64::from(rand::rng().random::<u32>()))),
        }
    }

    /// The same in another tier.
    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Settings {
        self.tier = tier;
        self
    }

    /// The command that runs this again, for one rule or for all.
    pub(crate) fn reproduce(&self, backend: &str, url: Option<&str>, only: Option<&str>) -> String {
        let url = url.map(|url| format!(" --url '{url}'")).unwrap_or_default();
        let only = only.map(|id| format!(" --only {id}")).unwrap_or_default();
        let tier = match self.tier {
            Tier::Standard => String::new(),
            other => format!(" --tier {}", other.name()),
        };
        format!("cargo run -p conformance -- certify {backend}{url} --seed {}{tier}{only}", self.seed)
    }
}

/// How much is done. The deterministic rules are the same in every tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Tier {
    /// For every commit.
    Quick,
    /// For a certificate.
    #[default]
    Standard,
    /// For a night.
    Soak,
}

impl Tier {
    /// Its name, as in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tier::Quick => "quick",
            Tier::Standard => "standard",
            Tier::Soak => "soak",
        }
    }
}
