//! A server that all trials of a run share.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::Profile;
use crate::harness::{Absent, Declaration, HookError, Hooked, Implementation, Isolation, Server as Control, Setting};
use crate::provider::{ControlError, Endpoint, Kind, NotRun, Offer, Policy, Server, Way, offers, start, take};

/// A server that all trials of a run share. It is started when it is first asked for, and ended with the place.
#[derive(Debug)]
pub struct Place {
    kind: Kind,
    name: String,
    source: Source,
    server: OnceCell<Result<Server, Absent>>,
}

#[derive(Debug)]
enum Source {
    /// Somebody else's.
    Url(String),
    /// The first that gives one.
    Ways(Policy),
    /// There is none, as is known already.
    None(Absent),
}

impl Place {
    /// The server of this kind at this URL, which somebody else runs.
    #[must_use]
    pub fn at(kind: Kind, url: &str) -> Place {
        Place::new(kind, kind.name(), Source::Url(url.to_owned()))
    }

    /// A server of this kind, by the first way that gives one. Its name is the kind's: `postgres`.
    ///
    /// # Errors
    /// A variable that says something impossible.
    pub fn any(kind: Kind) -> Result<Place, String> {
        let policy = Policy::from_env().map_err(|error| error.to_string())?;
        Ok(Place::new(kind, kind.name(), Source::Ways(policy)))
    }

    /// A place for each release of this kind that could be had, named after both: `postgres15`, `postgres18`. A server that
    /// a URL names is the only one, and named after its kind alone: only it could tell its release. Where none could be
    /// had there is one place, in which nothing is run. Starts nothing.
    ///
    /// # Errors
    /// A variable that says something impossible.
    pub async fn all(kind: Kind) -> Result<Vec<Place>, String> {
        let policy = Policy::from_env().map_err(|error| error.to_string())?;
        Ok(match offers(kind, &policy).await {
            Ok(offers) => by_name(kind, offers)
                .into_iter()
                .map(|(name, ways)| {
                    let mut policy = policy.clone();
                    policy.ways = ways;
                    Place::new(kind, &name, Source::Ways(policy))
                })
                .collect(),
            Err(not_run) => vec![Place::new(kind, kind.name(), Source::None(absent(&not_run)))],
        })
    }

    fn new(kind: Kind, name: &str, source: Source) -> Place {
        Place { kind, name: name.to_owned(), source, server: OnceCell::new() }
    }

    /// What it is called in trials and reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of its server.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What a backend on its server is called.
    pub(super) fn implementation(&self) -> Implementation {
        let named = Implementation::new(&self.name, env!("CARGO_PKG_VERSION"));
        match &self.source {
            Source::Url(url) => named.at(url),
            Source::Ways(_) | Source::None(_) => named,
        }
    }

    /// What a backend on a server declares that keeps all of the contract.
    pub(super) fn declaration() -> Declaration {
        Declaration::core()
            .with(Profile::Shared)
            .with(Profile::Durable)
            .with(Profile::Networked)
            .with(Profile::Maintained)
            .with(Profile::Transactional)
            .isolation_level(Isolation::ReadCommitted)
            .isolation_level(Isolation::RepeatableRead)
            .isolation_level(Isolation::Serializable)
    }

    /// Why there is no server, when that is known already.
    pub(super) fn absent(&self) -> Option<Absent> {
        match &self.source {
            Source::None(absent) => Some(absent.clone()),
            Source::Url(_) | Source::Ways(_) => None,
        }
    }

    /// The server, started now when nobody has asked for it before.
    pub(super) async fn server(&self) -> Result<Server, Absent> {
        let begin = || async {
            match &self.source {
                Source::Url(url) => take(self.kind, url).await.map_err(|not_run| absent(&not_run)),
                Source::Ways(policy) => start(self.kind, policy).await.map_err(|not_run| absent(&not_run)),
                Source::None(absent) => Err(absent.clone()),
            }
        };
        self.server.get_or_init(begin).await.clone()
    }

    /// The controls, when this process has started the server.
    pub(super) fn control(&self) -> Option<&dyn Control> {
        let server = self.server.get()?.as_ref().ok()?;
        (server.origin().way != Way::Url).then_some(self)
    }

    /// A place like this one, with a server of its own, which may be killed. None where the server is somebody else's.
    pub(super) async fn another(&self) -> Hooked<Option<Place>> {
        let server = self.hooked().await?;
        let way = server.origin().way;
        // The very way that this place has gone, so that it is the same release.
        let policy = match &self.source {
            Source::Ways(policy) if way != Way::Url => policy.clone().only(way),
            _ => return Ok(None),
        };
        Ok(Some(Place::new(self.kind, &self.name, Source::Ways(policy))))
    }

    /// How the server is reached now.
    pub(super) async fn endpoint(&self) -> Hooked<Endpoint> {
        Ok(self.hooked().await?.endpoint())
    }

    /// Where the server listens now.
    pub(super) async fn address(&self) -> Hooked<SocketAddr> {
        let address = self.endpoint().await?.address().await.map_err(HookError::failed)?;
        address.ok_or(HookError::Unsupported)
    }

    /// What the server is, where it came from, and the settings that durability rests on, read from it now.
    pub(super) async fn settings(&self) -> Hooked<Vec<Setting>> {
        let server = self.hooked().await?;
        let origin = server.origin();
        let mut all = vec![
            Setting::new("server", format!("{} {}", self.kind, server.facts().version)),
            Setting::new("from", format!("{}: {}", origin.way, origin.what)),
        ];
        all.extend(origin.tries.iter().map(|failed| Setting::new("tried before", failed.to_string())));
        for setting in server.settings().await.map_err(HookError::Failed)? {
            let warning = if setting.endangers() { " (an acknowledged write may be lost)" } else { "" };
            all.push(Setting::new(&setting.name, format!("{}{warning}", setting.value)));
        }
        Ok(all)
    }

    async fn hooked(&self) -> Hooked<Server> {
        self.server().await.map_err(|absent| HookError::Failed(absent.reason))
    }
}

#[async_trait]
impl Control for Place {
    async fn kill(&self) -> Hooked<()> {
        self.hooked().await?.sigkill().await.map_err(hook_error)
    }

    async fn start(&self) -> Hooked<()> {
        self.hooked().await?.start().await.map_err(hook_error)
    }

    async fn freeze(&self) -> Hooked<()> {
        self.hooked().await?.freeze().await.map_err(hook_error)
    }

    async fn thaw(&self) -> Hooked<()> {
        self.hooked().await?.thaw().await.map_err(hook_error)
    }
}

fn hook_error(error: ControlError) -> HookError {
    match error {
        ControlError::NotOurs => HookError::Unsupported,
        other => HookError::failed(other),
    }
}

/// On one line, as reasons are shown.
fn absent(not_run: &NotRun) -> Absent {
    let lines = not_run.to_string();
    Absent { reason: lines.lines().map(str::trim).collect::<Vec<_>>().join("; "), required: not_run.required }
}

/// The offers of one release are one place, with all their ways: no release is tested twice.
fn by_name(kind: Kind, offers: Vec<Offer>) -> Vec<(String, BTreeSet<Way>)> {
    let mut places: Vec<(String, BTreeSet<Way>)> = Vec::new();
    for Offer { way, release } in offers {
        let name = format!("{kind}{}", release.unwrap_or_default());
        match places.iter_mut().find(|(known, _)| *known == name) {
            Some((_, ways)) => drop(ways.insert(way)),
            None => places.push((name, BTreeSet::from([way]))),
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(way: Way, release: Option<&str>) -> Offer {
        Offer { way, release: release.map(str::to_owned) }
    }

    #[test]
    fn a_place_is_a_release() {
        let two = vec![offer(Way::Container, Some("18")), offer(Way::Local, Some("15"))];
        let two = by_name(Kind::Postgres, two);
        assert_eq!(two[0], ("postgres18".to_owned(), BTreeSet::from([Way::Container])));
        assert_eq!(two[1], ("postgres15".to_owned(), BTreeSet::from([Way::Local])));
        let same = by_name(Kind::MariaDb, vec![offer(Way::Container, Some("10.11")), offer(Way::Local, Some("10.11"))]);
        assert_eq!(same, [("mariadb10.11".to_owned(), BTreeSet::from([Way::Container, Way::Local]))]);
        assert_eq!(by_name(Kind::MySql, vec![offer(Way::Url, None)])[0].0, "mysql");
    }
}
