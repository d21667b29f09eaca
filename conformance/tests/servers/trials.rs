use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use conformance::provider::{Kind, Policy, Server, Way, start};
use libtest_mimic::Failed;
use nix::sys::signal::Signal;

use crate::child::{Process, Task};
use crate::data;

type Run = fn(Kind, Way) -> Result<(), Failed>;
type RunOnce = fn() -> Result<(), Failed>;

/// What every kind must do by every way.
pub(crate) const OF_EACH: [(&str, Run); 7] = [
    ("kill_freeze_stop_start", |kind, way| block_on(control(kind, way))),
    ("durable_settings", |kind, way| block_on(durable(kind, way))),
    ("a_panic_leaves_nothing", panic),
    ("sigint_leaves_nothing", |kind, way| signalled(kind, way, Signal::SIGINT)),
    ("sigterm_leaves_nothing", |kind, way| signalled(kind, way, Signal::SIGTERM)),
    ("sigkill_leaves_nothing", killed),
    ("a_forgotten_server_ends_with_the_process", forgotten),
];

/// How the choice between the ways is made and told.
pub(crate) const OF_CHOICE: [(&str, RunOnce); 2] =
    [("a_required_server_that_is_not_there", required), ("a_url_comes_first_and_is_not_ours", given)];

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn begin(kind: Kind, way: Way) -> Result<Server, Failed> {
    Ok(start(kind, &Policy::default().only(way)).await?)
}

async fn control(kind: Kind, way: Way) -> Result<(), Failed> {
    let server = begin(kind, way).await?;
    let first = server.pid().await.ok_or("no process")?;
    data::write(&server, 1).await?;

    server.freeze().await?;
    ensure(server.ping().await.is_err(), "a frozen server answers")?;
    ensure(server.pid().await == Some(first), "a freeze changed the process")?;
    server.thaw().await?;
    ensure(data::read(&server).await? == [1], "a freeze lost data")?;
    ensure(server.thaw().await.is_err(), "a server that runs was thawed")?;

    server.sigkill().await?;
    ensure(!running(first), "a killed server is still there")?;
    ensure(server.pid().await.is_none(), "a killed server has a process")?;
    ensure(server.ping().await.is_err(), "a killed server answers")?;
    ensure(server.sigkill().await.is_err(), "a server that is down was killed")?;
    server.start().await?;
    let second = server.pid().await.ok_or("no process after the start")?;
    ensure(second != first, "the killed process is back")?;
    ensure(data::read(&server).await? == [1], "a SIGKILL lost an acknowledged write")?;
    ensure(server.start().await.is_err(), "a server that runs was started")?;

    data::write(&server, 2).await?;
    server.stop().await?;
    ensure(!running(second), "a stopped server is still there")?;
    ensure(server.ping().await.is_err(), "a stopped server answers")?;
    server.start().await?;
    ensure(data::read(&server).await? == [1, 2], "a stop lost data")?;

    // A frozen server must not escape a kill, nor the end of its owner.
    server.freeze().await?;
    server.sigkill().await?;
    server.start().await?;
    ensure(data::read(&server).await? == [1, 2], "the kill of a frozen server lost data")?;
    server.freeze().await?;
    let last = server.pid().await.ok_or("no process before the end")?;
    server.close().await;
    ensure(!running(last), "a closed server is still there")
}

async fn durable(kind: Kind, way: Way) -> Result<(), Failed> {
    let server = begin(kind, way).await?;
    let facts = server.ping().await?;
    ensure(facts.kind == kind, "another product")?;
    let settings = server.settings().await?;
    let decisive = settings.iter().filter(|setting| setting.durable.is_some()).count();
    ensure(decisive == kind.spec().durability.len(), "a setting that decides durability is not told")?;
    match settings.iter().find(|setting| setting.endangers()) {
        None => Ok(()),
        Some(setting) => Err(format!("{} is {}", setting.name, setting.value).into()),
    }
}

fn panic(kind: Kind, way: Way) -> Result<(), Failed> {
    // Caught, as a runner of tests does it.
    let mut pid = None;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let server = block_on(begin(kind, way)).unwrap();
        pid = block_on(server.pid());
        std::panic::resume_unwind(Box::new(()));
    }));
    ensure(caught.is_err(), "no panic")?;
    ensure(!running(pid.ok_or("no process")?), "the server outlived the panic")?;

    // Not caught.
    let (mut process, pid) = Process::with_server(Task::Panic, kind, way)?;
    ensure(!process.wait()?.success(), "the child did not panic")?;
    ensure(!running(pid), "the server outlived the process")?;
    nothing_left(&process)
}

fn signalled(kind: Kind, way: Way, signal: Signal) -> Result<(), Failed> {
    let (mut process, pid) = Process::with_server(Task::Wait, kind, way)?;
    process.signal(signal)?;
    let code = process.ended()?.code();
    ensure(code == Some(128 + signal as i32), &format!("the exit code is {code:?}"))?;
    // At once: the process ended its servers before itself.
    ensure(!running(pid), "the server outlived the process")?;
    let left = process.left_behind()?;
    ensure(left.is_empty(), &left.join(", "))
}

fn killed(kind: Kind, way: Way) -> Result<(), Failed> {
    let (mut process, pid) = Process::with_server(Task::Wait, kind, way)?;
    process.signal(Signal::SIGKILL)?;
    process.ended()?;
    nothing_left(&process)?;
    ensure(!running(pid), "the server outlived the process")
}

fn forgotten(kind: Kind, way: Way) -> Result<(), Failed> {
    let (mut process, pid) = Process::with_server(Task::Forget, kind, way)?;
    ensure(process.wait()?.success(), "the child failed")?;
    nothing_left(&process)?;
    ensure(!running(pid), "the server outlived the process")
}

fn required() -> Result<(), Failed> {
    let variables = [("IDEM_PROVIDER", "url"), ("IDEM_REQUIRE", "mysql,postgres")];
    let mut process = Process::spawn(Task::Describe, Kind::Postgres, &variables)?;
    let said = process.rest();
    ensure(!process.wait()?.success(), "a required server was not missed")?;
    for part in
        ["IDEM_REQUIRE names it", "url: IDEM_POSTGRES_URL is not set", "remedy: set IDEM_POSTGRES_URL", "required=true"]
    {
        ensure(said.contains(part), &format!("`{part}` is not said in: {said}"))?;
    }
    Ok(())
}

fn given() -> Result<(), Failed> {
    let server = match block_on(start(Kind::Redis, &Policy::default())) {
        Ok(server) => server,
        Err(not_run) => return Err(format!("this trial needs a Redis: {not_run}").into()),
    };
    let endpoint = server.endpoint();
    let password = endpoint.url().split([':', '@']).nth(2).ok_or("no password")?.to_owned();

    let mut process = Process::spawn(Task::Describe, Kind::Redis, &[("IDEM_REDIS_URL", endpoint.url())])?;
    let said = process.rest();
    ensure(process.wait()?.success(), &said)?;
    ensure(said.contains("way=url refused=true"), &said)?;
    ensure(!said.contains(&password), "a password is shown")?;
    block_on(server.ping()).map_err(|reason| format!("the child ended a server that is not its own: {reason}"))?;

    // The same URL in another kind's variable: another product must not pass for it.
    let variables = [("IDEM_VALKEY_URL", endpoint.url()), ("IDEM_PROVIDER", "url")];
    let mut process = Process::spawn(Task::Describe, Kind::Valkey, &variables)?;
    let said = process.rest();
    ensure(!process.wait()?.success() && said.contains("not valkey"), &said)?;
    ensure(!said.contains(&password), "a password is shown")
}

/// An image with nothing in it: the daemon makes the container, and cannot start it.
pub(crate) fn unstartable() -> Result<(), Failed> {
    let image = format!("idem-test-empty:{}", std::process::id());
    let mut import = Command::new("docker").args(["import", "-", &image]).stdin(Stdio::piped()).spawn()?;
    // Two blocks of zeros are an archive without entries.
    import.stdin.take().ok_or("no input")?.write_all(&[0; 1024])?;
    ensure(import.wait()?.success(), "docker import failed")?;

    let variables = [("IDEM_PROVIDER", "container"), ("IDEM_REDIS_IMAGE", image.as_str())];
    let mut process = Process::spawn(Task::Describe, Kind::Redis, &variables)?;
    let said = process.rest();
    let status = process.wait()?;
    let left = process.left_behind()?;
    Command::new("docker").args(["image", "rm", &image]).output()?;
    ensure(!status.success() && said.contains("failed to start"), &said)?;
    ensure(left.is_empty(), &left.join(", "))
}

/// Waits for the watchdog, which works after the process has ended.
fn nothing_left(process: &Process) -> Result<(), Failed> {
    let start = Instant::now();
    loop {
        let left = process.left_behind()?;
        if left.is_empty() {
            return Ok(());
        }
        ensure(start.elapsed() < Duration::from_secs(60), &left.join(", "))?;
        std::thread::yield_now();
    }
}

fn running(pid: u32) -> bool {
    // One that has ended and waits to be reaped has no working folder any more.
    Path::new(&format!("/proc/{pid}/cwd")).read_link().is_ok()
}

fn ensure(so: bool, otherwise: &str) -> Result<(), Failed> {
    if so { Ok(()) } else { Err(otherwise.into()) }
}
