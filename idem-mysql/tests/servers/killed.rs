//! The server is killed under load, again and again: what was answered stays true, and the store goes on by itself.

use std::collections::HashMap;
use std::net::SocketAddr;

use conformance::provider::{Policy, Server, Way, start};
use idem_core::{Claimed, Complete, Completed, End, Error, ErrorKind, Response, State, Store, Token};
use idem_mysql::MySqlStore;
use idem_mysql::mysql_async::Conn;
use idem_mysql::mysql_async::prelude::Queryable;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![twenty_kills_lose_nothing_that_was_answered];

const KILLS: usize = 20;
const WRITERS: usize = 8;

async fn twenty_kills_lose_nothing_that_was_answered(fixture: Fixture) {
    if fixture.way == Way::Url {
        eprintln!("not run: a server that was given by URL is not ours to kill");
        return;
    }
    // One of its own: the others' trials go on meanwhile.
    let server = start(fixture.kind, &Policy::default().only(fixture.way)).await.expect("started");
    let mut admin = Conn::from_url(server.endpoint().database("").url()).await.expect("connected");
    admin.query_drop("CREATE DATABASE killed").await.expect("made");
    admin.disconnect().await.expect("disconnected");
    let endpoint = server.endpoint().database("killed").through(forward(server.clone()).await);
    let store = MySqlStore::open(endpoint.url()).await.expect("opened");
    let mut answered = Answered::default();
    for round in 0..KILLS {
        let (tell, mut news) = unbounded_channel();
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(store.clone(), round, writer, tell.clone()));
        }
        drop(tell);
        // Another number of answers in every round, so that the kill meets the others at ever other points.
        for _ in 0..WRITERS + (round * 37) % 101 {
            answered.note(news.recv().await.expect("writers go on"));
        }
        server.sigkill().await.expect("killed");
        server.start().await.expect("started again");
        until_everybody_is_answered(&mut news, &mut answered).await;
        writers.abort_all();
        while let Some(ended) = writers.join_next().await {
            assert!(ended.is_err_and(|error| error.is_cancelled()), "a writer went on until it was ended");
        }
        while let Some(heard) = news.recv().await {
            answered.note(heard);
        }
    }
    answered.check(&store).await;
    println!(
        "{}: {KILLS} kills, {} claims and {} completions answered, {} errors meanwhile",
        server.facts().version,
        answered.granted.len(),
        answered.completed.len(),
        answered.errors
    );
    store.close().await;
    server.close().await;
}

/// Whatever was sent before the server was back is behind: its answer was lost, or is the first of the two.
async fn until_everybody_is_answered(news: &mut UnboundedReceiver<Heard>, answered: &mut Answered) {
    while let Ok(heard) = news.try_recv() {
        answered.note(heard);
    }
    let mut times = [0; WRITERS];
    while times.iter().any(|&times| times < 2) {
        let heard = news.recv().await.expect("writers go on");
        times[heard.writer] += usize::from(!matches!(heard.what, What::Failed));
        answered.note(heard);
    }
}

/// What a writer heard from the store. It goes on only after it has told.
struct Heard {
    writer: usize,
    key: String,
    what: What,
}

enum What {
    Granted(Token),
    Completed,
    /// Another writer has the key, or had it.
    Refused,
    /// An error that says that it may be repeated.
    Failed,
}

/// Claims and completes one key after the other; two writers want the same ones. It repeats what failed as it was.
async fn write(store: MySqlStore, round: usize, writer: usize, tell: UnboundedSender<Heard>) {
    let tell = |key: &str, what| {
        // Nobody listens any more: it is about to be ended.
        let _ = tell.send(Heard { writer, key: key.to_owned(), what });
    };
    for number in 0.. {
        let key = format!("{round}-{}-{number}", writer / 2);
        // Longer than the test takes: a lease that lapses would rightly be taken over.
        let claim = claiming(&key).lease(secs(3_600)).build().expect("valid");
        let claimed = loop {
            match store.claim(&claim).await {
                Ok(claimed) => break claimed,
                Err(error) => expect_outage(&error),
            }
            tell(&key, What::Failed);
        };
        let Claimed::Acquired(grant) = claimed else {
            assert!(matches!(claimed, Claimed::InFlight { .. } | Claimed::Replay(_)), "{claimed:?}");
            tell(&key, What::Refused);
            continue;
        };
        tell(&key, What::Granted(claim.token()));
        let complete = Complete::new(grant.lease, end(&key));
        loop {
            match store.complete(&complete).await {
                Ok(Completed::Stored | Completed::AlreadyStored) => break,
                Ok(Completed::Lost) => panic!("{key} was taken from its owner"),
                Err(error) => expect_outage(&error),
            }
            tell(&key, What::Failed);
        }
        tell(&key, What::Completed);
    }
}

fn expect_outage(error: &Error) {
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate), "{error:?}");
    assert!(error.is_retryable(), "{error:?}");
}

fn end(key: &str) -> End {
    End::Succeeded(Response::new(201).with_body(key.to_owned()).into())
}

/// Everything that the store has answered so far.
#[derive(Default)]
struct Answered {
    granted: HashMap<String, Token>,
    completed: Vec<String>,
    errors: usize,
}

impl Answered {
    fn note(&mut self, heard: Heard) {
        match heard.what {
            What::Granted(token) => {
                let earlier = self.granted.insert(heard.key, token);
                assert!(earlier.is_none(), "a key was granted twice");
            }
            What::Completed => self.completed.push(heard.key),
            What::Refused => {}
            What::Failed => self.errors += 1,
        }
    }

    /// It is all still true.
    async fn check(&self, store: &MySqlStore) {
        for (key, token) in &self.granted {
            let record = store.get(&identity(key)).await.expect("read").expect("a claim that was answered is there");
            assert_eq!((record.token, record.attempt), (*token, 1), "{key}");
        }
        for key in &self.completed {
            let record = store.get(&identity(key)).await.expect("read").expect("there");
            assert_eq!(record.state, State::Succeeded, "a completion that was answered is there: {key}");
            assert_eq!(record.recorded.as_ref(), end(key).recorded(), "{key}");
        }
        assert!(self.completed.len() >= KILLS, "{}", self.completed.len());
    }
}

/// One address for a server whose own changes when it is started again. It passes on, and ends with either end.
async fn forward(server: Server) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let endpoint = server.endpoint();
            let port = endpoint.port().expect("a port");
            tokio::spawn(async move {
                // Nobody there: the client's connection ends, as a refused one would.
                if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    address
}
