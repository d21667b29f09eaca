//! How the writer's connection is made, the first time and again.

use std::path::PathBuf;
use std::time::Instant;

use idem_core::{Error, ErrorKind};
use rusqlite::Connection;

use crate::config::OnOpen;
use crate::connection::{make_durable, open_writer};
use crate::error::{self, Moment};
use crate::guest::Guest;

/// Everything that a writer's connection has: the caller's functions, the settings of the store, and the hooks that
/// watch the caller's closures.
pub(crate) struct Opener {
    path: PathBuf,
    on_open: Option<OnOpen>,
    pub(crate) guest: Guest,
}

impl Opener {
    pub(crate) fn new(path: PathBuf, on_open: Option<OnOpen>) -> Opener {
        Opener { path, on_open, guest: Guest::default() }
    }

    pub(crate) fn open(&mut self, deadline: Instant) -> Result<Connection, Error> {
        let mut connection = open_writer(&self.path)?;
        if let Some(on_open) = &mut self.on_open {
            on_open(&connection).map_err(statement)?;
        }
        if connection.is_busy() {
            return Err(Error::new(ErrorKind::InvalidInput, "`on_open` left a statement unfinished"));
        }
        make_durable(&connection, deadline)?;
        self.guest.watch(&mut connection).map_err(statement)?;
        Ok(connection)
    }
}

fn statement(error: rusqlite::Error) -> Error {
    error::of(error, Moment::Statement)
}
