//! The server is killed under load, again and again: what was answered stays true, and the store goes on by itself.

use std::collections::HashMap;

use idem_core::{Claimed, Complete, Completed, Error, ErrorKind, Span, State, Store, Token};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::{claiming, identity, succeeded};
use crate::fault::Proxy;
use crate::provider::Server;

const KILLS: usize = 20;
const WRITERS: usize = 8;

/// Kills the server under a store's writers and starts it again, twenty times. Every claim and completion that was answered is
/// still true afterwards, no key is granted twice, errors say that they may be repeated, and the store goes on by itself.
///
/// The store reaches the server through the proxy, since a server that is started again may have another address. The server
/// is the drill's own, and has nothing but this store's records in it.
///
/// # Panics
/// When any of it does not hold.
pub async fn killed_twenty_times<S: Store + Clone + 'static>(server: &Server, proxy: &Proxy, store: &S) {
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
        proxy.lead_to(server.endpoint().address().await.expect("resolved").expect("an address"));
        until_everybody_is_answered(&mut news, &mut answered).await;
        writers.abort_all();
        while let Some(ended) = writers.join_next().await {
            assert!(ended.is_err_and(|error| error.is_cancelled()), "a writer went on until it was ended");
        }
        while let Some(heard) = news.recv().await {
            answered.note(heard);
        }
    }
    answered.check(store).await;
    println!(
        "{}: {KILLS} kills, {} claims and {} completions answered, {} errors meanwhile",
        server.facts().version,
        answered.granted.len(),
        answered.completed.len(),
        answered.errors
    );
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
async fn write(store: impl Store, round: usize, writer: usize, tell: UnboundedSender<Heard>) {
    let tell = |key: &str, what| {
        // Nobody listens any more: it is about to be ended.
        let _ = tell.send(Heard { writer, key: key.to_owned(), what });
    };
    for number in 0.. {
        let key = format!("{round}-{}-{number}", writer / 2);
        // Longer than the test takes: a lease that lapses would rightly be taken over.
        let claim = claiming(&key).lease(Span::saturating_secs(3_600)).build().expect("valid");
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
        let complete = Complete::new(grant.lease, succeeded(&key));
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
    async fn check(&self, store: &impl Store) {
        for (key, token) in &self.granted {
            let record = store.get(&identity(key)).await.expect("read").expect("a claim that was answered is there");
            assert_eq!((record.token, record.attempt), (*token, 1), "{key}");
        }
        for key in &self.completed {
            let record = store.get(&identity(key)).await.expect("read").expect("there");
            assert_eq!(record.state, State::Succeeded, "a completion that was answered is there: {key}");
            assert_eq!(record.recorded.as_ref(), succeeded(key).recorded(), "{key}");
        }
        assert!(self.completed.len() >= KILLS, "{}", self.completed.len());
    }
}
