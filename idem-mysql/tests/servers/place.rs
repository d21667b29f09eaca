//! The servers that the trials run on.

use std::sync::OnceLock;

use conformance::provider::{Kind, Policy, PolicyError, Server, Way, available, shutdown, start};

/// One way to get a server of one kind, and the server once it was asked for.
pub(crate) struct Place {
    kind: Kind,
    way: Way,
    missing: Option<String>,
    required: bool,
    server: OnceLock<Server>,
}

impl Place {
    /// Every kind by every way: the image and the program of this machine are of different versions. A URL stands for
    /// its kind alone.
    pub(crate) fn all() -> Result<Vec<Place>, PolicyError> {
        let policy = Policy::from_env()?;
        let mut places = Vec::new();
        for kind in [Kind::MySql, Kind::MariaDb] {
            let by_url = policy.ways.contains(&Way::Url) && block_on(available(kind, Way::Url)).is_ok();
            let ways: &[Way] = if by_url { &[Way::Url] } else { &[Way::Container, Way::Local] };
            let mut of_kind = Vec::new();
            for &way in ways.iter().filter(|way| policy.ways.contains(way)) {
                let missing = block_on(available(kind, way)).err();
                of_kind.push(Place { kind, way, missing, required: false, server: OnceLock::new() });
            }
            // One of them is enough for what is required.
            if of_kind.iter().all(|place| place.missing.is_some()) {
                let required = policy.required.contains(&kind);
                of_kind.iter_mut().for_each(|place| place.required = required);
            }
            places.extend(of_kind);
        }
        Ok(places)
    }

    pub(crate) fn name(&self) -> String {
        format!("{}::{}", self.kind, self.way)
    }

    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    pub(crate) fn is_required(&self) -> bool {
        self.required
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn way(&self) -> Way {
        self.way
    }

    /// The URL of a database of this name on the server, which the first trial starts.
    pub(crate) fn url(&self, database: &str) -> String {
        let server = self.server.get_or_init(|| {
            let policy = Policy::default().only(self.way);
            block_on(start(self.kind, &policy)).unwrap_or_else(|why| panic!("{why}"))
        });
        server.endpoint().database(database).url().to_owned()
    }
}

/// Ends the servers.
pub(crate) fn end() {
    if let Err(reason) = block_on(shutdown()) {
        eprintln!("{reason}");
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("built").block_on(future)
}
