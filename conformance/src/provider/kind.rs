use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A kind of server that the suite can start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// MySQL.
    MySql,
    /// MariaDB.
    MariaDb,
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

impl Kind {
    /// Every kind, in the order of reports.
    pub const ALL: [Kind; 5] = [Kind::Postgres, Kind::MySql, Kind::MariaDb, Kind::Redis, Kind::Valkey];

    /// The name in variables, commands and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            format!("`{text}` is no kind of server; there are {names}")
        })
    }
}
