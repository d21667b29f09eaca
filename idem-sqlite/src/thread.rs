//! The threads of a store: how they begin, and in which order they end.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_channel::bounded;
use idem_core::{Error, ErrorKind};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::backoff::until;
use crate::clock::Clock;
use crate::config::Builder;
use crate::error::{self, Moment};
use crate::opener::Opener;
use crate::operation::Context;
use crate::stats::Counters;
use crate::store::Shared;
use crate::writer::Writer;
use crate::{readers, schema};

/// Starts the writer's thread, which opens everything and then starts the readers; waits until all of that is done.
pub(crate) async fn start(builder: Builder) -> Result<Shared, Error> {
    let context =
        Arc::new(Context { clock: Clock::default(), rules: builder.rules, response_limit: builder.response_limit });
    let (jobs, job_queue) = bounded(builder.queue.get());
    let (reads, read_queue) = bounded(builder.queue.get());
    let (alive, ended) = watch::channel(());
    let (opened, is_open) = oneshot::channel();
    let counters = Arc::new(Counters::default());
    let shared = Shared {
        writer: jobs,
        readers: reads,
        context: Arc::clone(&context),
        counters: Arc::clone(&counters),
        deadline: builder.deadline,
        ended,
    };
    let body = move || {
        // Dropped last: whoever waits for the end sees the file closed.
        let _alive = alive;
        let (path, deadline) = (builder.path.clone(), builder.deadline);
        let mut opener = Opener::new(builder.path, builder.on_open);
        let begun = prepare(&mut opener, deadline, &context).and_then(|connection| {
            let readers = readers::start(&path, builder.readers.get(), &read_queue, &context)?;
            Ok((Writer { connection, opener, queue: job_queue, context, counters }, readers))
        });
        match begun {
            Ok((writer, readers)) => {
                // When nobody waits any more, the queues are closed too, and the threads end at once.
                let _ = opened.send(Ok(()));
                end(writer, readers);
            }
            Err(why) => {
                let _ = opened.send(Err(why));
            }
        }
    };
    thread::Builder::new()
        .name("idem-sqlite-writer".to_owned())
        .spawn(body)
        .map_err(|refusal| Error::new(ErrorKind::Unavailable, "no thread could be started").with_source(refusal))?;
    is_open.await.map_err(|_| Error::new(ErrorKind::Bug, "the writer's thread ended while it opened the file"))??;
    Ok(shared)
}

/// Runs the writer to its end. The readers end before it: the last connection to close is then one that may move the
/// log into the file.
fn end(mut writer: Writer, readers: Vec<JoinHandle<()>>) {
    writer.run();
    for reader in readers {
        // A reader catches its panics; there is nothing to learn from its end.
        let _ = reader.join();
    }
    writer.finish();
}

fn prepare(opener: &mut Opener, deadline: Duration, context: &Context) -> Result<Connection, Error> {
    let deadline = Builder::deadline_from_now(deadline);
    let connection = opener.open(deadline)?;
    until(deadline, || schema::migrate(&connection, &context.clock)).map_err(statement)??;
    schema::check(&connection)?;
    Ok(connection)
}

fn statement(error: rusqlite::Error) -> Error {
    error::of(error, Moment::Statement)
}
