use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::Policy;

/// What some trials need beside a server: something of this machine that stands between, or changes what is seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Tool {
    /// The library that shows a program another time than the host's.
    Faketime,
    /// The pooler of PostgreSQL's connections.
    PgBouncer,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Tool; 2] = [Tool::Faketime, Tool::PgBouncer];

    /// The name in `IDEM_REQUIRE`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tool::Faketime => "faketime",
            Tool::PgBouncer => "pgbouncer",
        }
    }

    /// The variable that names its file, or several of them as `PATH` does.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Tool::Faketime => "IDEM_FAKETIME",
            Tool::PgBouncer => "IDEM_PGBOUNCER",
        }
    }

    /// Where it is: what its [variable](Tool::variable) says, or where Debian's package puts it. Every one of several:
    /// their versions may behave in other ways.
    ///
    /// # Errors
    /// There is none, or one that is named is no file.
    pub fn find_all(self, policy: &Policy) -> Result<Vec<PathBuf>, NoTool> {
        let missing = NoTool { tool: self, required: policy.tools.contains(&self) };
        let found = match std::env::var_os(self.variable()) {
            Some(named) => {
                let named: Vec<_> = std::env::split_paths(&named).collect();
                if named.iter().all(|path| path.is_file()) { named } else { Vec::new() }
            }
            None => self.places().into_iter().filter(|path| path.is_file()).collect(),
        };
        if found.is_empty() { Err(missing) } else { Ok(found) }
    }

    fn places(self) -> Vec<PathBuf> {
        match self {
            Tool::PgBouncer => vec!["/usr/sbin/pgbouncer".into()],
            Tool::Faketime => {
                // One folder for each architecture.
                let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
                folders.map(|folder| folder.path().join("faketime/libfaketime.so.1")).collect()
            }
        }
    }
}

/// A tool is not here: what needs it is not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoTool {
    /// The tool that was asked for.
    pub tool: Tool,
    /// `IDEM_REQUIRE` names it, so that this is an error and no gap.
    pub required: bool,
}

impl fmt::Display for NoTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tool, variable) = (self.tool, self.tool.variable());
        write!(f, "no {tool}")?;
        if self.required {
            f.write_str(", though IDEM_REQUIRE names it")?;
        }
        write!(f, "; remedy: apt-get install {tool}, or {variable}=FILE")
    }
}

impl std::error::Error for NoTool {}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tool {
    type Err = ();

    fn from_str(text: &str) -> Result<Tool, ()> {
        Tool::ALL.into_iter().find(|tool| tool.name() == text).ok_or(())
    }
}
