use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backend::{Backend, ControlError};
use super::container::Container;
use super::local::Local;
use super::url::Given;
use super::{Endpoint, Facts, Kind, NotRun, Origin, Policy, Server, Try, Way, client, container, host, local};

/// From the start of the process to its first answer, with recovery after a SIGKILL, on a busy machine.
const READY: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
/// How often a port that was free may be gone when the server wants it.
const PORTS: usize = 5;

/// Gets a server of this kind by the first way that gives one.
///
/// Every call starts a server of its own, except where a URL gives one. It is ended when the last clone of the
/// [`Server`] is dropped.
///
/// # Errors
/// [`NotRun`], with the reason of each try.
///
/// # Cancel safety
/// When the future is dropped, the start goes on in the background and what it gave is ended at once.
pub async fn start(kind: Kind, policy: &Policy) -> Result<Server, NotRun> {
    let policy = policy.clone();
    host::run(start_here(kind, policy)).await
}

/// Could this way give a server of this kind? Starts none, so that a mere listing of trials stays cheap.
///
/// # Errors
/// Why it could not.
pub async fn available(kind: Kind, way: Way) -> Result<(), String> {
    if !client::compiled(kind) {
        return Err(client::missing(kind));
    }
    host::run(async move {
        match way {
            Way::Url => {
                let variable = kind.spec().url_variable;
                std::env::var(variable).map(drop).map_err(|_| format!("{variable} is not set"))
            }
            Way::Container => match container::available(kind).await? {
                daemon if daemon.present => Ok(()),
                daemon => Err(format!("{} is not here", daemon.image)),
            },
            Way::Local => local::available(kind).await.map(drop),
        }
    })
    .await
}

/// Takes the server of this kind that the URL names, whatever the variables say. It is somebody else's: nothing ends it.
///
/// # Errors
/// [`NotRun`] when it does not answer, or is another kind of server.
pub async fn take(kind: Kind, url: &str) -> Result<Server, NotRun> {
    let url = url.to_owned();
    let taken = host::run(async move {
        let reason = |reason| format!("the URL: {reason}");
        if !client::compiled(kind) {
            return Err(client::missing(kind));
        }
        let (given, what) = Given::at(kind, &url).await.map_err(reason)?;
        taken(kind, given, what).await.map_err(reason)
    });
    let not_run = |reason| NotRun {
        kind,
        tries: vec![Try { way: Way::Url, reason }],
        remedy: "give the URL of a server that runs, or none".to_owned(),
        required: true,
    };
    let got = taken.await.map_err(not_run)?;
    let origin = Origin { way: Way::Url, what: got.what, tries: Vec::new() };
    Ok(Server::new(kind, origin, got.secrets, got.backend, got.endpoint, got.facts))
}

async fn taken(kind: Kind, given: Given, what: String) -> Result<Got, String> {
    let endpoint = given.endpoint().await?;
    let facts = client::facts(kind, &endpoint).await?;
    Ok(Got { backend: Arc::new(given), secrets: None, what, endpoint, facts })
}

async fn start_here(kind: Kind, policy: Policy) -> Result<Server, NotRun> {
    let mut tries = Vec::new();
    for way in Way::ALL {
        if !policy.ways.contains(&way) {
            continue;
        }
        match get(kind, way).await {
            Ok(got) => {
                let origin = Origin { way, what: got.what, tries };
                return Ok(Server::new(kind, origin, got.secrets, got.backend, got.endpoint, got.facts));
            }
            Err(reason) => tries.push(Try { way, reason }),
        }
    }
    Err(NotRun { kind, tries, remedy: remedy(kind, &policy), required: policy.required.contains(&kind) })
}

struct Got {
    backend: Arc<dyn Backend>,
    secrets: Option<Secrets>,
    what: String,
    endpoint: Endpoint,
    facts: Facts,
}

async fn get(kind: Kind, way: Way) -> Result<Got, String> {
    if !client::compiled(kind) {
        return Err(client::missing(kind));
    }
    let secrets = Secrets::new();
    host::keep()?;
    let (backend, what, first): (Arc<dyn Backend>, String, _) = match way {
        Way::Url => {
            let (given, what) = Given::find(kind).await?;
            return taken(kind, given, what).await;
        }
        Way::Container => {
            let (container, what) = contain(kind, &secrets).await?;
            let backend: Arc<dyn Backend> = Arc::new(container);
            let first = ready(kind, &*backend, &secrets).await.map_err(ControlError::from);
            (backend, what, first)
        }
        Way::Local => {
            let (local, what) = Local::prepare(kind, &secrets).await?;
            let backend: Arc<dyn Backend> = Arc::new(local);
            let first = bring_up(kind, &*backend, &secrets).await;
            (backend, what, first)
        }
    };
    match first {
        Ok((endpoint, facts)) => Ok(Got { backend, secrets: Some(secrets), what, endpoint, facts }),
        Err(error) => {
            let reason = format!("{what}: {error}{}", backend.log().await);
            backend.destroy().await.map_err(|more| format!("{reason}; {more}"))?;
            Err(reason)
        }
    }
}

/// Makes and starts a container. The daemon chooses a port that may be gone when it binds it.
async fn contain(kind: Kind, secrets: &Secrets) -> Result<(Container, String), String> {
    let mut last = Container::start(kind, secrets).await;
    for _ in 1..PORTS {
        match &last {
            Err(reason) if reason.contains("address already in use") => {}
            _ => break,
        }
        last = Container::start(kind, secrets).await;
    }
    last
}

/// Starts one that is down, and waits until it answers.
pub(super) async fn bring_up(
    kind: Kind,
    backend: &dyn Backend,
    secrets: &Secrets,
) -> Result<(Endpoint, Facts), ControlError> {
    let mut last = Unready::Failed(String::new());
    for _ in 0..PORTS {
        backend.start().await?;
        match ready(kind, backend, secrets).await {
            Err(unready @ Unready::PortTaken(_)) => {
                last = unready;
                if backend.alive().await.map_err(ControlError::Failed)? {
                    backend.kill().await?;
                }
            }
            other => return other.map_err(ControlError::from),
        }
    }
    Err(last.into())
}

enum Unready {
    PortTaken(String),
    Failed(String),
}

impl From<Unready> for ControlError {
    fn from(unready: Unready) -> ControlError {
        match unready {
            Unready::PortTaken(reason) | Unready::Failed(reason) => ControlError::Failed(reason),
        }
    }
}

/// Asks until the server answers, and until it is the server that was started here.
pub(super) async fn ready_again(
    kind: Kind,
    backend: &dyn Backend,
    secrets: &Secrets,
) -> Result<(Endpoint, Facts), ControlError> {
    ready(kind, backend, secrets).await.map_err(ControlError::from)
}

async fn ready(kind: Kind, backend: &dyn Backend, secrets: &Secrets) -> Result<(Endpoint, Facts), Unready> {
    let start = Instant::now();
    loop {
        if !backend.alive().await.map_err(Unready::Failed)? {
            // By its words, since the exit code says nothing: programs run with LC_ALL=C.
            let reason = "it ended before it answered".to_owned();
            let taken = backend.log().await.contains("already in use");
            return Err(if taken { Unready::PortTaken(reason) } else { Unready::Failed(reason) });
        }
        let reason = match backend.endpoint().await {
            Err(reason) => reason,
            Ok(endpoint) => match client::facts(kind, &endpoint).await {
                Err(reason) => reason,
                Ok(facts) if facts.nonce != secrets.expected(kind) => {
                    return Err(Unready::PortTaken(format!("another server answers at {endpoint}")));
                }
                Ok(facts) if facts.kind != kind => {
                    return Err(Unready::Failed(format!("it is {} {}, not {kind}", facts.kind, facts.version)));
                }
                Ok(facts) => return Ok((endpoint, facts)),
            },
        };
        if start.elapsed() > READY {
            return Err(Unready::Failed(format!("no answer within {} s: {reason}", READY.as_secs())));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What one start makes up: the password, and the nonce by which the server is known again.
#[derive(Clone)]
pub(super) struct Secrets {
    password: String,
    nonce: String,
}

impl Secrets {
    fn new() -> Secrets {
        Secrets { password: host::random(16), nonce: format!("idem-{}", host::random(16)) }
    }

    /// A text of the specification with its places filled in.
    pub(super) fn fill(&self, text: &str, folder: &str, port: u16) -> String {
        text.replace("{password}", &self.password)
            .replace("{nonce}", &self.nonce)
            .replace("{folder}", folder)
            .replace("{port}", &port.to_string())
    }

    pub(super) fn endpoint(&self, kind: Kind, address: &str) -> Result<Endpoint, String> {
        Endpoint::parse(&self.fill(kind.spec().url, "", 0).replace("{address}", address))
    }

    /// What the server must answer.
    fn expected(&self, kind: Kind) -> &str {
        let named = kind.spec().arguments.iter().any(|argument| argument.contains("{nonce}"));
        if named { &self.nonce } else { &self.password }
    }
}

pub(super) fn remedy(kind: Kind, policy: &Policy) -> String {
    let spec = kind.spec();
    if !client::compiled(kind) {
        return format!("build with `--features {}`", spec.feature);
    }
    let ways = policy.ways.iter().map(|way| match way {
        Way::Url => format!("set {} to a server's URL", spec.url_variable),
        Way::Container => format!("start Docker with an image {}", spec.container.image),
        Way::Local => format!("install {}", spec.local.package),
    });
    let mut text = ways.collect::<Vec<_>>().join(", or ");
    if policy.ways.len() < Way::ALL.len() && std::env::var_os("IDEM_PROVIDER").is_some() {
        text.push_str("; IDEM_PROVIDER keeps the other ways from being tried");
    }
    text
}
