//! This binary again, as a process that starts a server and then ends in some way.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use conformance::provider::{ControlError, Kind, Policy, Way, shutdown, start};
use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::trials::block_on;

const TASK: &str = "IDEM_TEST_SERVERS_TASK";

/// What the child does after it has a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Waits to be ended from outside.
    Wait,
    /// Exits with the server in a static, as a suite that forgot it would.
    Forget,
    /// Panics in its main thread.
    Panic,
    /// Says where the server came from, and whether it can be controlled.
    Describe,
}

impl Task {
    const ALL: [Task; 4] = [Task::Wait, Task::Forget, Task::Panic, Task::Describe];

    pub(crate) fn from_env() -> Option<Task> {
        let name = std::env::var(TASK).ok()?;
        Task::ALL.into_iter().find(|task| format!("{task:?}") == name)
    }

    /// The child's `main`.
    pub(crate) fn run(self) -> ExitCode {
        let kind: Kind = std::env::args().nth(1).and_then(|name| name.parse().ok()).unwrap();
        let policy = Policy::from_env().unwrap();
        let server = match block_on(start(kind, &policy)) {
            Ok(server) => server,
            Err(not_run) => {
                println!("{not_run}\nrequired={}", not_run.required);
                // In order, so that the watchdog does not make up for what the start left behind.
                block_on(shutdown()).unwrap();
                return ExitCode::FAILURE;
            }
        };
        println!("{}", block_on(server.pid()).unwrap_or_default());
        match self {
            Task::Wait => {
                std::io::stdin().read_line(&mut String::new()).unwrap();
                ExitCode::SUCCESS
            }
            Task::Forget => {
                Box::leak(Box::new(server));
                std::process::exit(0)
            }
            Task::Panic => panic!("on purpose"),
            Task::Describe => {
                let refused = block_on(server.sigkill()) == Err(ControlError::NotOurs);
                println!("way={} refused={refused}", server.origin().way);
                println!("{server:?} {:?}", server.origin());
                ExitCode::SUCCESS
            }
        }
    }
}

/// A child with a temporary folder of its own, so that what it leaves behind can be seen.
pub(crate) struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    temporary: TempDir,
}

impl Process {
    pub(crate) fn spawn(task: Task, kind: Kind, variables: &[(&str, &str)]) -> Result<Process, Failed> {
        let temporary = tempfile::tempdir()?;
        // The accounts of the servers must get through it.
        fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755))?;
        let mut command = Command::new(std::env::current_exe()?);
        for other in Kind::ALL {
            command.env_remove(other.spec().url_variable);
        }
        let mut child = command
            .arg(kind.name())
            .env(TASK, format!("{task:?}"))
            .env("TMPDIR", temporary.path())
            .env_remove("IDEM_PROVIDER")
            .env_remove("IDEM_REQUIRE")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Process { child, output, temporary })
    }

    pub(crate) fn with_server(task: Task, kind: Kind, way: Way) -> Result<(Process, u32), Failed> {
        let mut process = Process::spawn(task, kind, &[("IDEM_PROVIDER", way.name())])?;
        let mut line = String::new();
        process.output.read_line(&mut line)?;
        let pid = line.trim().parse().map_err(|_| format!("no server: {line}{}", process.rest()))?;
        Ok((process, pid))
    }

    /// All that it still prints.
    pub(crate) fn rest(&mut self) -> String {
        let lines: Result<Vec<String>, _> = (&mut self.output).lines().collect();
        lines.map(|lines| lines.join("\n")).unwrap_or_default()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failed> {
        Ok(kill(Pid::from_raw(self.child.id().try_into()?), signal)?)
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus, Failed> {
        // Ends the wait of a child that is not ended from outside.
        if let Some(mut input) = self.child.stdin.take() {
            let _ = input.write_all(b"\n");
        }
        Ok(self.child.wait()?)
    }

    /// Waits for its end, keeping it from ending by itself.
    pub(crate) fn ended(&mut self) -> Result<ExitStatus, Failed> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if start.elapsed() > Duration::from_secs(60) {
                self.child.kill()?;
                return Err("the child did not end".into());
            }
            std::thread::yield_now();
        }
    }

    /// What it left behind: processes, files, containers.
    pub(crate) fn left_behind(&self) -> Result<Vec<String>, Failed> {
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            if let Ok(here) = fs::read_link(entry.path().join("cwd"))
                && here.starts_with(self.temporary.path())
            {
                left.push(format!("process {} in {}", entry.file_name().display(), here.display()));
            }
        }
        for entry in fs::read_dir(self.temporary.path())? {
            left.push(format!("file {}", entry?.path().display()));
        }
        let label = "{{.ID}} {{.Label \"idem.session\"}}";
        if let Ok(output) = Command::new("docker").args(["ps", "--all", "--format", label]).output() {
            let mine = format!(" {}-", self.child.id());
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            left.extend(text.lines().filter(|line| line.contains(&mine)).map(|line| format!("container {line}")));
        }
        Ok(left)
    }
}
