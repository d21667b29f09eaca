//! A server in a container.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error;
use testcontainers::bollard::models::{ContainerState, PortBinding};
use testcontainers::bollard::query_parameters::{
    InspectContainerOptions, KillContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;
use testcontainers::core::logs::LogFrame;
use testcontainers::core::{IntoContainerPort, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};

use super::backend::{Backend, ControlError};
use super::start::Secrets;
use super::{Endpoint, Kind, host};

/// A daemon that is there answers in milliseconds.
const DAEMON: Duration = Duration::from_secs(2);
/// From an image that is there to the first line that says ready, on a busy machine.
const STARTUP: Duration = Duration::from_secs(120);
/// The same when the image must be pulled first.
const PULL: Duration = Duration::from_secs(600);
/// A graceful stop; after it the daemon sends a SIGKILL by itself.
const STOP_SECONDS: i32 = 60;
const LOG_LINES: usize = 40;
/// The label by which one start finds the container that it made, also when it has no handle to it.
const ATTEMPT: &str = "idem.attempt";

pub(super) struct Container {
    kind: Kind,
    secrets: Secrets,
    docker: Docker,
    id: String,
    log: Log,
    // Taken out when it is removed. It must never be dropped unremoved: its destructor panics outside a runtime.
    handle: tokio::sync::Mutex<Option<ContainerAsync<GenericImage>>>,
}

/// A daemon that answers, and the image that a kind is started from.
pub(super) struct Daemon {
    docker: Docker,
    pub(super) image: String,
    /// Nothing has to be pulled.
    pub(super) present: bool,
}

/// Can a container be had? Looks at the daemon and the image, and starts nothing.
pub(super) async fn available(kind: Kind) -> Result<Daemon, String> {
    let docker = docker_client_instance().await.map_err(|error| format!("no Docker: {error}"))?;
    match tokio::time::timeout(DAEMON, docker.ping()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(format!("no Docker daemon answers: {error}")),
        Err(_) => return Err(format!("the Docker daemon does not answer within {} s", DAEMON.as_secs())),
    }
    let spec = &kind.spec().container;
    let image = std::env::var(spec.image_variable).unwrap_or_else(|_| spec.image.to_owned());
    let present = docker.inspect_image(&image).await.is_ok();
    Ok(Daemon { docker, image, present })
}

impl Container {
    pub(super) async fn start(kind: Kind, secrets: &Secrets) -> Result<(Container, String), String> {
        let daemon = available(kind).await?;
        let attempt = host::random(8);
        match Container::run(kind, secrets, &daemon, &attempt).await {
            Ok(started) => Ok(started),
            // One that was made and then could not be started is nobody's: testcontainers forgets it.
            Err(reason) => match remove_all(&daemon.docker, &format!("{ATTEMPT}={attempt}")).await {
                Ok(()) => Err(reason),
                Err(more) => Err(format!("{reason}; and a container is left: {more}")),
            },
        }
    }

    async fn run(kind: Kind, secrets: &Secrets, daemon: &Daemon, attempt: &str) -> Result<(Container, String), String> {
        let Daemon { docker, image, present } = daemon;
        let limit = if *present { STARTUP } else { PULL };
        let spec = kind.spec();
        let (name, tag) = split(image).ok_or_else(|| {
            format!("{}: `{image}` has no tag; a version must be said", spec.container.image_variable)
        })?;
        let fill = |text: &str| secrets.fill(text, "", 0);

        let log = Log::default();
        let sink = log.clone();
        let mut request = GenericImage::new(name, tag)
            .with_wait_for(WaitFor::message_on_either_std(spec.container.ready))
            .with_exposed_port(spec.container.port.tcp())
            .with_cmd(spec.arguments.iter().map(|argument| fill(argument)))
            .with_label(host::LABEL, host::session())
            .with_label(ATTEMPT, attempt)
            .with_log_consumer(move |frame: &LogFrame| sink.push(frame.bytes()))
            .with_startup_timeout(limit);
        for (name, value) in spec.container.environment {
            request = request.with_env_var(*name, fill(value));
        }
        if loopback() {
            let port = format!("{}/tcp", spec.container.port);
            request = request.with_host_config_modifier(move |config| {
                // An ephemeral port of this machine alone; by itself Docker would listen on every address.
                let here = PortBinding { host_ip: Some(Ipv4Addr::LOCALHOST.to_string()), host_port: None };
                config.publish_all_ports = Some(false);
                config.port_bindings = Some(HashMap::from([(port.clone(), Some(vec![here]))]));
            });
        }

        let handle = match tokio::time::timeout(limit + DAEMON, request.start()).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) if !*present => {
                return Err(format!("{image} is not here and could not be pulled: {}", chain(&error)));
            }
            Ok(Err(error)) => return Err(format!("{image}: {}{}", chain(&error), log.tail())),
            Err(_) => return Err(format!("{image}: not ready within {} s{}", limit.as_secs(), log.tail())),
        };
        let id = handle.id().to_owned();
        let what = match docker.inspect_image(image).await.ok().and_then(|image| image.id) {
            Some(id) => format!("{image} ({})", id.get(..19).unwrap_or(&id)),
            None => image.clone(),
        };
        let docker = docker.clone();
        let handle = tokio::sync::Mutex::new(Some(handle));
        Ok((Container { kind, secrets: secrets.clone(), docker, id, log, handle }, what))
    }

    async fn state(&self) -> Result<ContainerState, String> {
        let inspected = self.docker.inspect_container(&self.id, None::<InspectContainerOptions>).await;
        inspected.map_err(|error| error.to_string())?.state.ok_or_else(|| "the daemon tells no state".to_owned())
    }
}

#[async_trait]
impl Backend for Container {
    async fn endpoint(&self) -> Result<Endpoint, String> {
        let handle = self.handle.lock().await;
        let handle = handle.as_ref().ok_or("the container has been removed")?;
        let host = match handle.get_host().await.map_err(|error| error.to_string())?.to_string() {
            // The name may also stand for ::1, where the port is not published.
            local if local == "localhost" => Ipv4Addr::LOCALHOST.to_string(),
            other => other,
        };
        let port = self.kind.spec().container.port;
        let port = handle.get_host_port_ipv4(port.tcp()).await.map_err(|error| error.to_string())?;
        self.secrets.endpoint(self.kind, &format!("{host}:{port}"))
    }

    async fn alive(&self) -> Result<bool, String> {
        Ok(self.state().await?.running.unwrap_or(false))
    }

    async fn pid(&self) -> Option<u32> {
        self.state().await.ok()?.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0)
    }

    async fn kill(&self) -> Result<(), ControlError> {
        // The daemon refuses to signal a frozen container.
        if self.state().await.map_err(ControlError::Failed)?.paused.unwrap_or(false) {
            self.thaw().await?;
        }
        let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
        self.docker.kill_container(&self.id, Some(options)).await.map_err(ControlError::failed)?;
        // The answer says that the signal was sent. With the first process the kernel ends all others of the container.
        host::until("the container to end", STARTUP, || async { Ok(!self.alive().await?) }).await
    }

    async fn freeze(&self) -> Result<(), ControlError> {
        self.docker.pause_container(&self.id).await.map_err(ControlError::failed)
    }

    async fn thaw(&self) -> Result<(), ControlError> {
        self.docker.unpause_container(&self.id).await.map_err(ControlError::failed)
    }

    async fn stop(&self) -> Result<(), ControlError> {
        let handle = self.handle.lock().await;
        let handle = handle.as_ref().ok_or_else(|| ControlError::failed("the container has been removed"))?;
        handle.stop_with_timeout(Some(STOP_SECONDS)).await.map_err(ControlError::failed)
    }

    async fn start(&self) -> Result<(), ControlError> {
        let handle = self.handle.lock().await;
        let handle = handle.as_ref().ok_or_else(|| ControlError::failed("the container has been removed"))?;
        handle.start().await.map_err(ControlError::failed)
    }

    async fn destroy(&self) -> Result<(), String> {
        let Some(handle) = self.handle.lock().await.take() else { return Ok(()) };
        if self.state().await.is_ok_and(|state| state.paused.unwrap_or(false)) {
            // Some daemons refuse to remove a frozen container.
            let _ = self.docker.unpause_container(&self.id).await;
        }
        handle.rm().await.map_err(|error| error.to_string())
    }

    async fn log(&self) -> String {
        self.log.tail()
    }
}

/// Removes every container with the label, whatever its state.
async fn remove_all(docker: &Docker, label: &str) -> Result<(), String> {
    let filters = HashMap::from([("label", vec![label])]);
    let list = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    for container in docker.list_containers(Some(list)).await.map_err(|error| error.to_string())? {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        let id = container.id.unwrap_or_default();
        match docker.remove_container(&id, Some(options)).await {
            // Somebody else's removal came first.
            Ok(()) | Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Is the daemon on this machine, and this process not in one of its containers?
fn loopback() -> bool {
    let local = std::env::var("DOCKER_HOST").map_or(true, |host| host.is_empty() || host.starts_with("unix://"));
    local && !Path::new("/.dockerenv").exists()
}

/// Name and tag. A colon before the last slash belongs to the registry's port.
fn split(image: &str) -> Option<(&str, &str)> {
    image.rsplit_once(':').filter(|(name, tag)| !name.is_empty() && !tag.is_empty() && !tag.contains('/'))
}

/// An error with its causes: the outermost one alone often says little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    fn push(&self, bytes: &[u8]) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend(String::from_utf8_lossy(bytes).lines().map(str::to_owned));
        let excess = lines.len().saturating_sub(LOG_LINES);
        lines.drain(..excess);
    }

    fn tail(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("\n    {line}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn an_image_needs_a_tag() {
        assert_eq!(split("postgres:18"), Some(("postgres", "18")));
        assert_eq!(split("registry.example:5000/a/b:1"), Some(("registry.example:5000/a/b", "1")));
        assert_eq!(split("registry.example:5000/a/b"), None);
        assert_eq!(split("postgres"), None);
    }
}
