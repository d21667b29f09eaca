//! A proxy between a client and the server that loses words: for answers that never arrive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What is lost of the next message that has the word in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lose {
    /// The message: the server never sees it.
    Message,
    /// Its answer: the server has done it.
    Answer,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    armed: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens, and passes on whatever comes; once armed it ends the connection over the next message with this word.
    pub(crate) async fn new(server: SocketAddr, word: &'static str, lose: Lose) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let armed = Arc::new(AtomicBool::new(false));
        let proxy = Proxy { address, armed: Arc::clone(&armed) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server).await.expect("the server is there");
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let answers = tokio::spawn(pass(from_server, to_client));
                tokio::spawn(watch(from_client, to_server, word, lose, Arc::clone(&armed), answers));
            }
        });
        proxy
    }

    /// The next message with the word is lost, or its answer.
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Has it been lost?
    pub(crate) fn fired(&self) -> bool {
        !self.armed.load(Ordering::SeqCst)
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> (OwnedReadHalf, OwnedWriteHalf) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    (from, to)
}

async fn watch(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    word: &str,
    lose: Lose,
    armed: Arc<AtomicBool>,
    answers: tokio::task::JoinHandle<(OwnedReadHalf, OwnedWriteHalf)>,
) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        let message = &buffer[..read];
        let has_word = message.windows(word.len()).any(|window| window == word.as_bytes());
        if has_word && armed.swap(false, Ordering::SeqCst) {
            answers.abort(); // Both halves to the client are dropped, or dropped with this function.
            if lose == Lose::Answer {
                let _ = to.write_all(message).await;
                // What was sent before the end of a stream is carried out before the end is noticed.
                let _ = to.shutdown().await;
            }
            return;
        }
        if to.write_all(message).await.is_err() {
            break;
        }
    }
    answers.abort();
}
