use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::{Kind, Tool, Way};

/// Which ways may be tried, which servers must be there, and what the variables say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The ways that may be tried. Their order is that of [`Way::ALL`], whatever the order here.
    pub ways: BTreeSet<Way>,
    /// The kinds that must run.
    pub required: BTreeSet<Kind>,
    /// The tools that must be there.
    pub tools: BTreeSet<Tool>,
}

impl Default for Policy {
    /// Every way, and nothing that must run.
    fn default() -> Policy {
        Policy { ways: BTreeSet::from(Way::ALL), required: BTreeSet::new(), tools: BTreeSet::new() }
    }
}

impl Policy {
    /// What `IDEM_PROVIDER` and `IDEM_REQUIRE` say.
    ///
    /// # Errors
    /// A name that does not exist, in either: a typing error must not turn a requirement off.
    pub fn from_env() -> Result<Policy, PolicyError> {
        Policy::from_variables(|name| std::env::var(name).ok())
    }

    /// The same, from variables that are given.
    ///
    /// # Errors
    /// A name that does not exist.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Policy, PolicyError> {
        let ways = names("IDEM_PROVIDER", &variable)?;
        let (mut required, mut tools) = (BTreeSet::new(), BTreeSet::new());
        for need in names("IDEM_REQUIRE", &variable)? {
            match need {
                Need::Server(kind) => required.insert(kind),
                Need::Tool(tool) => tools.insert(tool),
            };
        }
        Ok(Policy { ways: if ways.is_empty() { BTreeSet::from(Way::ALL) } else { ways }, required, tools })
    }

    /// The same with this way only.
    #[must_use]
    pub fn only(mut self, way: Way) -> Policy {
        self.ways = BTreeSet::from([way]);
        self
    }
}

/// What `IDEM_REQUIRE` can name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Server(Kind),
    Tool(Tool),
}

impl FromStr for Need {
    type Err = String;

    fn from_str(text: &str) -> Result<Need, String> {
        if let Ok(tool) = text.parse() {
            return Ok(Need::Tool(tool));
        }
        text.parse().map(Need::Server).map_err(|reason| {
            let tools = Tool::ALL.map(Tool::name).join(", ");
            format!("{reason}; and the tools {tools}")
        })
    }
}

fn names<T: FromStr<Err = String> + Ord>(
    variable: &'static str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<BTreeSet<T>, PolicyError> {
    lookup(variable)
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| name.parse().map_err(|reason| PolicyError { variable, reason }))
        .collect()
}

/// A variable that says something impossible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    variable: &'static str,
    reason: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variable, self.reason)
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(provider: &str, require: &str) -> Result<Policy, PolicyError> {
        Policy::from_variables(|name| match name {
            "IDEM_PROVIDER" => Some(provider.to_owned()),
            "IDEM_REQUIRE" => Some(require.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn nothing_said_is_every_way_and_no_requirement() {
        let policy = Policy::from_variables(|_| None).unwrap();
        assert_eq!(policy.ways, BTreeSet::from(Way::ALL));
        assert!(policy.required.is_empty());
    }

    #[test]
    fn names_are_read_with_spaces_and_empty_places() {
        let policy = policy(" local, ", "mysql,postgres,").unwrap();
        assert_eq!(policy.ways, BTreeSet::from([Way::Local]));
        assert_eq!(policy.required, BTreeSet::from([Kind::Postgres, Kind::MySql]));
    }

    #[test]
    fn a_tool_can_be_required_beside_servers() {
        let policy = policy("", "mysql,faketime,pgbouncer").unwrap();
        assert_eq!(policy.required, BTreeSet::from([Kind::MySql]));
        assert_eq!(policy.tools, BTreeSet::from(Tool::ALL));
    }

    #[test]
    fn a_typing_error_is_an_error() {
        assert!(policy("docker", "").unwrap_err().to_string().starts_with("IDEM_PROVIDER: `docker`"));
        assert!(policy("", "postgresql").unwrap_err().to_string().starts_with("IDEM_REQUIRE: `postgresql`"));
    }
}
