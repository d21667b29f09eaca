//! Ends what this process started, after this process.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of its input, which comes however this process ends, also by SIGKILL.
///
/// Statics are never dropped, an exit or an abort drops nothing, and testcontainers has no reaper.
pub(super) struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Will end the processes that work in the folder, the folder, and the containers with the label.
    pub(super) fn start(folder: &Path, label: &str) -> io::Result<Watchdog> {
        let child = Command::new("sh")
            .args(["-c", include_str!("watchdog.sh"), "idem-watchdog"])
            .arg(folder)
            .arg(label)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C in the terminal is not for it.
            .process_group(0)
            .spawn()?;
        Ok(Watchdog { child })
    }

    /// Nothing is left for it to do.
    pub(super) fn dismiss(mut self) {
        if let Some(input) = &mut self.child.stdin {
            let _ = input.write_all(b"done\n");
        }
        self.finish();
    }

    /// Lets it do its work now, and waits.
    pub(super) fn finish(mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
