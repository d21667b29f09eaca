use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Account;
use crate::provider::{Kind, host};

const LOG_LINES: usize = 40;

/// The private folder of one server. Its processes are those that work in it: servers go to their data folder, and some
/// leave their group and session, so that neither of these would find all of them.
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn make(kind: Kind, account: &Account) -> Result<Folder, String> {
        let path = host::folder()?.join(format!("{kind}-{}", host::random(4)));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let folder = Folder { path };
        account.give(&folder.path)?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn text(&self) -> Result<&str, String> {
        self.path.to_str().ok_or_else(|| format!("{} is not UTF-8", self.path.display()))
    }

    pub(super) fn write(&self, name: &str, text: &str, account: &Account) -> Result<(), String> {
        let path = self.path.join(name);
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(text.as_bytes())
        };
        write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))?;
        account.give(&path)
    }

    /// Opened by this process, so that the server's account needs no right to it.
    pub(super) fn log(&self) -> Result<File, String> {
        let path = self.path.join("log");
        let open = OpenOptions::new().append(true).create(true).open(&path);
        open.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The last lines of the log, each on a line of its own.
    pub(super) fn tail(&self) -> String {
        let bytes = fs::read(self.path.join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LOG_LINES);
        lines.get(from..).unwrap_or_default().iter().map(|line| format!("\n    {line}")).collect()
    }

    /// The processes that work in it, those left out that have ended and wait to be reaped.
    pub(super) fn processes(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                // Of one that has ended the link cannot be read.
                let here = fs::read_link(entry.path().join("cwd")).ok()?;
                here.starts_with(&self.path).then_some(pid)
            })
            .collect()
    }

    /// Signals every process in it, until a look finds no new one: a server may be starting one at this moment.
    pub(super) fn signal(&self, with: Signal) -> Result<(), String> {
        let mut signalled = Vec::new();
        loop {
            let fresh: Vec<u32> = self.processes().into_iter().filter(|pid| !signalled.contains(pid)).collect();
            if fresh.is_empty() {
                return Ok(());
            }
            for pid in fresh {
                signal(pid, with)?;
                signalled.push(pid);
            }
        }
    }

    pub(super) fn remove(&self) -> Result<(), String> {
        self.free_shared_memory();
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", self.path.display()))
            }
            _ => Ok(()),
        }
    }

    /// A PostgreSQL that was killed leaves a System V segment behind, which no folder's end frees.
    fn free_shared_memory(&self) {
        let Ok(lock) = fs::read_to_string(self.path.join("data/postmaster.pid")) else { return };
        // Line seven is the key and the id.
        if let Some(id) = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
            let _ = std::process::Command::new("ipcrm").args(["-m", id]).output();
        }
    }
}

/// Signals one process. One that is gone is no error.
pub(super) fn signal(pid: u32, with: Signal) -> Result<(), String> {
    let number = i32::try_from(pid).map_err(|error| error.to_string())?;
    match kill(Pid::from_raw(number), with) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(format!("{with} to {pid}: {error}")),
    }
}
