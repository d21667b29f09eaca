use std::path::Path;
use std::process::Command;

use nix::unistd::{Gid, Uid, User};

use crate::provider::spec::Signal;

/// Who a server runs as.
#[derive(Clone)]
pub(super) struct Account {
    /// None: as whoever runs this process.
    user: Option<User>,
    setpriv: bool,
}

impl Account {
    /// As root, somebody else: PostgreSQL refuses to be root, and the others need not be.
    pub(super) fn choose(name: &str) -> Result<Account, String> {
        let setpriv = on_path("setpriv");
        if !Uid::effective().is_root() {
            return Ok(Account { user: None, setpriv });
        }
        let named = |name: &str| User::from_name(name).map_err(|error| format!("looking up {name}: {error}"));
        let user = match named(name)? {
            Some(user) => Some(user),
            None => named("nobody")?,
        };
        match user {
            Some(user) => Ok(Account { user: Some(user), setpriv }),
            None => Err(format!("as root a server needs a user to run as; there is no {name} and no nobody")),
        }
    }

    /// The program as this account. When this process dies, however that may be, the kernel sends it `end`.
    pub(super) fn command(&self, program: &Path, end: Signal) -> Command {
        use std::os::unix::process::CommandExt;

        if !self.setpriv {
            // The watchdog still ends it; only later.
            let mut command = Command::new(program);
            if let Some(user) = &self.user {
                command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
            }
            return command;
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", nix::sys::signal::Signal::from(end).as_str()]);
        if let Some(user) = &self.user {
            command.args(["--reuid", &user.uid.to_string(), "--regid", &user.gid.to_string(), "--clear-groups"]);
        }
        command.arg("--").arg(program);
        command
    }

    /// Makes it the owner of a file or folder.
    pub(super) fn give(&self, path: &Path) -> Result<(), String> {
        let Some(user) = &self.user else { return Ok(()) };
        let (uid, gid): (Uid, Gid) = (user.uid, user.gid);
        std::os::unix::fs::chown(path, Some(uid.as_raw()), Some(gid.as_raw()))
            .map_err(|error| format!("giving {} to {}: {error}", path.display(), user.name))
    }

    /// For the report.
    pub(super) fn note(&self) -> String {
        self.user.as_ref().map(|user| format!(" as {}", user.name)).unwrap_or_default()
    }
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}
