//! A server program of this machine, in a private folder, on an ephemeral port of 127.0.0.1.

mod account;
mod folder;
mod program;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use self::account::Account;
use self::folder::Folder;
use super::backend::{Backend, ControlError};
use super::start::Secrets;
use super::{Endpoint, Kind, host, spec};

/// Long enough for a checkpoint on a busy machine.
const STOP: Duration = Duration::from_secs(60);
/// Making an empty data folder.
const PREPARE: Duration = Duration::from_secs(120);

pub(super) struct Local {
    kind: Kind,
    secrets: Secrets,
    program: PathBuf,
    account: Account,
    folder: Folder,
    running: Mutex<Running>,
}

/// The process, and the port that it was told to listen on.
struct Running {
    child: Option<Child>,
    port: u16,
    frozen: bool,
}

/// Is the program there, and somebody to run it as? The program, and what it says of its version.
pub(super) async fn available(kind: Kind) -> Result<(PathBuf, String), String> {
    if !cfg!(target_os = "linux") {
        return Err("server programs are controlled through /proc, which this system has not".to_owned());
    }
    let spec = &kind.spec().local;
    let found = program::find(spec).await?;
    Account::choose(spec.user)?;
    Ok(found)
}

impl Local {
    /// Makes the folder with the data; starts nothing yet.
    pub(super) async fn prepare(kind: Kind, secrets: &Secrets) -> Result<(Local, String), String> {
        let (program, _) = available(kind).await?;
        let spec = &kind.spec().local;
        let account = Account::choose(spec.user)?;
        let folder = Folder::make(kind, &account)?;
        for (name, text) in spec.files {
            folder.write(name, &secrets.fill(text, folder.text()?, 0), &account)?;
        }

        let what = format!("{}{}", program.display(), account.note());
        let running = Mutex::new(Running { child: None, port: 0, frozen: false });
        let local = Local { kind, secrets: secrets.clone(), program, account, folder, running };
        for step in spec.prepare {
            if let Err(reason) = local.step(step).await {
                let reason = format!("{what}: {}: {reason}{}", step.program, local.log().await);
                local.destroy().await?;
                return Err(reason);
            }
        }
        Ok((local, what))
    }

    /// A command in the folder, as the account, that dies with this process.
    fn command(&self, program: &std::path::Path, arguments: &[&str], port: u16) -> Result<Command, String> {
        let folder = self.folder.text()?;
        let mut command = Command::from(self.account.command(program, self.kind.spec().local.end));
        let log = self.folder.log()?;
        command
            .args(arguments.iter().map(|argument| self.secrets.fill(argument, folder, port)))
            // The folder is also how its processes are found again: all of them work in it.
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            // Two installations of MariaDB at one time take each other's temporary tables for their own.
            .env("TMPDIR", folder)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(|error| error.to_string())?)
            .stderr(log)
            // Not in the terminal's group: a Ctrl-C is for this process, which then ends the server in order.
            .process_group(0)
            .kill_on_drop(true);
        Ok(command)
    }

    async fn step(&self, step: &spec::Step) -> Result<(), String> {
        let program = program::beside(&self.program, step.program).await?;
        let mut child = self.command(&program, step.arguments, 0)?.spawn().map_err(|error| error.to_string())?;
        match tokio::time::timeout(PREPARE, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(status.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("not done within {} s", PREPARE.as_secs())),
        }
    }

    /// Waits for the process that it started, so that none stays behind unreaped, and for those that this one started.
    async fn gone(&self, running: &mut Running, limit: Duration) -> Result<(), String> {
        if let Some(child) = &mut running.child {
            match tokio::time::timeout(limit, child.wait()).await {
                Ok(Ok(_)) => running.child = None,
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err(format!("still there after {} s", limit.as_secs())),
            }
        }
        host::until("its processes to end", limit, || async { Ok(self.folder.processes().is_empty()) })
            .await
            .map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Backend for Local {
    async fn endpoint(&self) -> Result<Endpoint, String> {
        let port = self.running.lock().await.port;
        self.secrets.endpoint(self.kind, &format!("{}:{port}", Ipv4Addr::LOCALHOST))
    }

    async fn alive(&self) -> Result<bool, String> {
        match &mut self.running.lock().await.child {
            Some(child) => Ok(child.try_wait().map_err(|error| error.to_string())?.is_none()),
            None => Ok(false),
        }
    }

    async fn pid(&self) -> Option<u32> {
        self.running.lock().await.child.as_ref().and_then(Child::id)
    }

    async fn kill(&self) -> Result<(), ControlError> {
        let mut running = self.running.lock().await;
        if running.child.is_none() {
            return Err(ControlError::failed("not running"));
        }
        // Frozen first, so that none of its processes finishes what another one's death interrupted.
        self.folder.signal(Signal::SIGSTOP).map_err(ControlError::Failed)?;
        self.folder.signal(Signal::SIGKILL).map_err(ControlError::Failed)?;
        self.gone(&mut running, STOP).await.map_err(ControlError::Failed)?;
        running.frozen = false;
        Ok(())
    }

    async fn freeze(&self) -> Result<(), ControlError> {
        let mut running = self.running.lock().await;
        if running.child.is_none() {
            return Err(ControlError::failed("not running"));
        }
        self.folder.signal(Signal::SIGSTOP).map_err(ControlError::Failed)?;
        running.frozen = true;
        Ok(())
    }

    async fn thaw(&self) -> Result<(), ControlError> {
        let mut running = self.running.lock().await;
        if !running.frozen {
            return Err(ControlError::failed("not frozen"));
        }
        self.folder.signal(Signal::SIGCONT).map_err(ControlError::Failed)?;
        running.frozen = false;
        Ok(())
    }

    async fn stop(&self) -> Result<(), ControlError> {
        let mut running = self.running.lock().await;
        let pid = match running.child.as_ref().and_then(Child::id) {
            Some(_) if running.frozen => return Err(ControlError::failed("frozen")),
            Some(pid) => pid,
            None => return Err(ControlError::failed("not running")),
        };
        folder::signal(pid, self.kind.spec().local.stop.into()).map_err(ControlError::Failed)?;
        self.gone(&mut running, STOP).await.map_err(ControlError::Failed)
    }

    async fn start(&self) -> Result<(), ControlError> {
        let mut running = self.running.lock().await;
        if let Some(child) = &mut running.child {
            match child.try_wait().map_err(ControlError::failed)? {
                // It ended by itself, and is reaped by this look.
                Some(_) => running.child = None,
                None => return Err(ControlError::failed("already running")),
            }
        }
        let port = free_port().map_err(ControlError::failed)?;
        let spec = self.kind.spec();
        let (before, after) = spec.local.arguments;
        let arguments = [before, spec.arguments, after].concat();
        let mut command = self.command(&self.program, &arguments, port).map_err(ControlError::Failed)?;
        running.child = Some(command.spawn().map_err(ControlError::failed)?);
        running.port = port;
        Ok(())
    }

    async fn destroy(&self) -> Result<(), String> {
        let mut running = self.running.lock().await;
        // A frozen process does not see a signal that it could handle.
        self.folder.signal(Signal::SIGCONT)?;
        if let Some(pid) = running.child.as_ref().and_then(Child::id) {
            // Gone already, then there is nothing to signal.
            let _ = folder::signal(pid, self.kind.spec().local.end.into());
            let _ = self.gone(&mut running, Duration::from_secs(5)).await;
        }
        self.folder.signal(Signal::SIGKILL)?;
        self.gone(&mut running, STOP).await?;
        self.folder.remove()
    }

    async fn log(&self) -> String {
        self.folder.tail()
    }
}

/// A port that was free a moment ago. Another process may take it before the server does; then the server ends, or what
/// answers there has another nonce, and the start is tried again.
fn free_port() -> std::io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
}

impl From<spec::Signal> for Signal {
    fn from(signal: spec::Signal) -> Signal {
        match signal {
            spec::Signal::Int => Signal::SIGINT,
            spec::Signal::Quit => Signal::SIGQUIT,
            spec::Signal::Term => Signal::SIGTERM,
            spec::Signal::Kill => Signal::SIGKILL,
        }
    }
}
