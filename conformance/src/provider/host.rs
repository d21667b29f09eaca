//! What this process needs for servers: the thread that runs them, the list of those that are up, and their end.

use std::collections::BTreeMap;
use std::future::pending;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use super::backend::{Backend, ControlError};
use super::watchdog::Watchdog;

/// The label of every container of this process; its value is [`session`].
pub(super) const LABEL: &str = "idem.session";

/// Ending a server takes a second or two; a machine may be busy.
const END: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// One thread, for as long as the process lives. The connection to the Docker daemon must not end with the runtime of
/// one test, and the kernel ends a server when the *thread* that started it does.
struct Host {
    handle: Handle,
    thread: ThreadId,
    session: String,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    up: BTreeMap<u64, Arc<dyn Backend>>,
    keeping: Option<Keeping>,
}

/// The folder of the local servers, and who removes it, with everything else, when this process cannot.
struct Keeping {
    folder: TempDir,
    watchdog: Watchdog,
}

fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        let (send, receive) = mpsc::channel();
        let thread = std::thread::Builder::new().name("idem-servers".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    let _ = send.send(runtime.handle().clone());
                    runtime.block_on(end_on_signal());
                }
                Err(error) => eprintln!("idem-servers: no runtime: {error}"),
            }
        });
        let (Ok(thread), Ok(handle)) = (thread, receive.recv()) else {
            panic!("this process can start no thread, so no server either")
        };
        let session = format!("{}-{}", std::process::id(), random(6));
        let thread = thread.thread().id();
        Host { handle, thread, session, next: AtomicU64::new(0), state: Mutex::default() }
    })
}

fn state() -> MutexGuard<'static, State> {
    host().state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a task on the thread of the servers, from whatever runtime. It goes on to its end when the caller is dropped.
pub(super) async fn run<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> T {
    match host().handle.spawn(task).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is never shut down and no task of it is ever aborted.
            Err(_) => pending().await,
        },
    }
}

/// Names this process among all that start servers on this machine.
pub(super) fn session() -> &'static str {
    &host().session
}

/// Starts the watchdog, when none is there. To be called before anything that it would have to end.
pub(super) fn keep() -> Result<(), String> {
    let mut state = state();
    if state.keeping.is_none() {
        let folder = tempfile::Builder::new().prefix("idem-servers-").tempdir().map_err(|error| error.to_string())?;
        // The accounts of the servers must get through to their own folders.
        let open = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(folder.path(), open).map_err(|error| error.to_string())?;
        let label = format!("{LABEL}={}", session());
        let watchdog = Watchdog::start(folder.path(), &label).map_err(|error| format!("no watchdog: {error}"))?;
        state.keeping = Some(Keeping { folder, watchdog });
    }
    Ok(())
}

/// The folder of the local servers.
pub(super) fn folder() -> Result<PathBuf, String> {
    let state = state();
    let keeping = state.keeping.as_ref().ok_or("the servers of this process have been shut down")?;
    Ok(keeping.folder.path().to_owned())
}

/// Takes a server into the list; the number takes it out again.
pub(super) fn enlist(backend: Arc<dyn Backend>) -> u64 {
    let number = host().next.fetch_add(1, Ordering::Relaxed);
    state().up.insert(number, backend);
    number
}

/// Ends a server. Waits for its end, except on the thread that has to bring it about.
pub(super) fn release(number: u64) {
    let Some(backend) = state().up.remove(&number) else { return };
    let (send, receive) = mpsc::channel();
    host().handle.spawn(async move {
        if let Err(reason) = backend.destroy().await {
            eprintln!("idem-servers: {reason}");
        }
        let _ = send.send(());
    });
    if std::thread::current().id() != host().thread {
        let _ = receive.recv_timeout(END);
    }
}

/// Ends every server that this process started, the watchdog too. For the end of `main`; servers can be started anew.
///
/// # Errors
/// What could not be ended. The watchdog then tries it once more.
pub async fn shutdown() -> Result<(), String> {
    run(end(Ending::Orderly)).await
}

enum Ending {
    /// Nothing is being started.
    Orderly,
    /// Something may be, which only the watchdog would find.
    Interrupted,
}

async fn end(ending: Ending) -> Result<(), String> {
    let (up, keeping) = {
        let mut state = state();
        (std::mem::take(&mut state.up), state.keeping.take())
    };
    let ends = up.into_values().map(|backend| tokio::spawn(async move { backend.destroy().await }));
    let mut failed = Vec::new();
    for end in ends.collect::<Vec<_>>() {
        match end.await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => failed.push(reason),
            Err(error) => failed.push(error.to_string()),
        }
    }
    if let Some(Keeping { folder, watchdog }) = keeping {
        match (ending, failed.is_empty()) {
            (Ending::Orderly, true) => watchdog.dismiss(),
            _ => watchdog.finish(),
        }
        drop(folder);
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// The life of the thread: until a signal asks the process to end.
async fn end_on_signal() {
    let listen = |kind| signal(kind).ok();
    let mut listeners =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(|kind| (kind, listen(kind)));
    let [one, two, three] = &mut listeners;
    let kind = tokio::select! {
        kind = heard(one) => kind,
        kind = heard(two) => kind,
        kind = heard(three) => kind,
    };
    if let Err(reason) = end(Ending::Interrupted).await {
        eprintln!("idem-servers: {reason}");
    }
    // As a shell reports a process that the signal ended.
    std::process::exit(128 + kind.as_raw_value());
}

async fn heard((kind, listener): &mut (SignalKind, Option<tokio::signal::unix::Signal>)) -> SignalKind {
    match listener {
        Some(listener) => {
            listener.recv().await;
            *kind
        }
        None => pending().await,
    }
}

/// Looks until it is so.
pub(super) async fn until<F>(what: &str, limit: Duration, mut so: impl FnMut() -> F) -> Result<(), ControlError>
where
    F: Future<Output = Result<bool, String>>,
{
    let start = Instant::now();
    while !so().await.map_err(ControlError::Failed)? {
        if start.elapsed() > limit {
            return Err(ControlError::Failed(format!("waited {} s for {what}", limit.as_secs())));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Random bytes, as hexadecimal digits.
pub(super) fn random(bytes: usize) -> String {
    (0..bytes).map(|_| format!("{:02x}", rand::random::<u8>())).collect()
}
