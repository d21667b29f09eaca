use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::Kind;

/// A way to get a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Way {
    /// A server that somebody else runs, named by a URL.
    Url,
    /// A container, started here.
    Container,
    /// A server program of this machine, started here.
    Local,
}

impl Way {
    /// Every way, in the order in which they are tried.
    pub const ALL: [Way; 3] = [Way::Url, Way::Container, Way::Local];

    /// The name in variables and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Url => "url",
            Way::Container => "container",
            Way::Local => "local",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        Way::ALL
            .into_iter()
            .find(|way| way.name() == text)
            .ok_or_else(|| format!("`{text}` is no way to get a server; there are url, container, local"))
    }
}

/// A try that gave no server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Try {
    /// What was tried.
    pub way: Way,
    /// Why it gave none. Holds no password.
    pub reason: String,
}

impl fmt::Display for Try {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.way, self.reason)
    }
}

/// Where a server came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Origin {
    /// The way that gave it.
    pub way: Way,
    /// The image with its id, the program, or the URL without its password.
    pub what: String,
    /// The tries before it that gave none.
    pub tries: Vec<Try>,
}

/// No way gave a server: what needs it is not run, and the report says why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NotRun {
    /// The kind that was asked for.
    pub kind: Kind,
    /// Every try, with its reason.
    pub tries: Vec<Try>,
    /// What would help.
    pub remedy: String,
    /// `IDEM_REQUIRE` names the kind, so that this is an error and no gap.
    pub required: bool,
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no server", self.kind)?;
        if self.required {
            f.write_str(", though IDEM_REQUIRE names it")?;
        }
        for failed in &self.tries {
            write!(f, "\n  {failed}")?;
        }
        write!(f, "\n  remedy: {}", self.remedy)
    }
}

impl std::error::Error for NotRun {}
