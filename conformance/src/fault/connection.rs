//! One connection through the proxy.

use std::future::pending;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::plan::{Armed, Life, Plan};
use super::window::Order;
use super::{Fault, Held, Line};

const PIECE: usize = 16 * 1024;

/// Whose turn it is to speak.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Client,
    Server,
}

impl Turn {
    fn other(self) -> Turn {
        match self {
            Turn::Client => Turn::Server,
            Turn::Server => Turn::Client,
        }
    }
}

/// Passes on what comes, until a side ends, the line changes or a fault meets its request.
pub(super) async fn run(client: TcpStream, plan: Arc<Plan>) {
    let mut lives = plan.life();
    let began: Life = *lives.borrow_and_update();
    let server = match began {
        (Line::Refuse, _) => None,
        _ => TcpStream::connect(plan.server()).await.ok(),
    };
    // A server that is not there is seen by the client as a reset.
    let Some(server) = server else { return reset(&client) };
    let mut ends = Ends { client: Some(client), server };
    let mut turn = Turn::Client;
    let mut waits: Option<Armed> = None;
    let (mut up, mut down) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        let spoken = tokio::select! {
            changed = lives.changed() => {
                match changed {
                    // A black hole keeps its connections.
                    Ok(()) if lives.borrow_and_update().0 == Line::Silent => continue,
                    _ => return ends.reset(),
                }
            }
            read = read(&mut ends.client, &mut up) => read.map(|read| (Turn::Client, read)),
            read = ends.server.read(&mut down) => read.map(|read| (Turn::Server, read)),
        };
        let (from, length) = match spoken {
            Ok((from, length)) if length > 0 => (from, length),
            _ => return ends.reset(),
        };
        let silent = lives.borrow().0 == Line::Silent;
        let piece = match from {
            Turn::Client => &up[..length],
            Turn::Server => &down[..length],
        };
        // What a fault waits for: the beginning of the request that it is meant for, or of its reply.
        let armed = match from {
            Turn::Client if turn == Turn::Client => plan.request(),
            Turn::Client => None,
            Turn::Server => waits.take(),
        };
        turn = from.other();
        let passed = match (armed, from) {
            _ if silent => Some(()),
            (None, Turn::Client) => ends.server.write_all(piece).await.ok(),
            (None, Turn::Server) => ends.write_client(piece).await.ok(),
            (Some(armed), Turn::Server) => {
                let way = Way { to_server: Vec::new(), to_client: piece.to_vec() };
                hold(&mut ends, &plan, armed, way).await
            }
            (Some(armed), Turn::Client) => match armed.fault {
                Fault::HoldRequest => {
                    turn = Turn::Client;
                    let way = Way { to_server: piece.to_vec(), to_client: Vec::new() };
                    hold(&mut ends, &plan, armed, way).await
                }
                Fault::HoldReply => {
                    waits = Some(armed);
                    ends.server.write_all(piece).await.ok()
                }
            },
        };
        if passed.is_none() {
            return ends.reset();
        }
    }
}

/// What is on its way, by where it goes.
struct Way {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

/// Holds what is on its way, until it is told what to do. None: the connection has ended.
async fn hold(ends: &mut Ends, plan: &Plan, armed: Armed, way: Way) -> Option<()> {
    let (held, mut orders): (Held, mpsc::Receiver<Order>) = Held::new();
    let Way { mut to_server, mut to_client } = way;
    plan.open(armed, held);
    let (mut up, mut down) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        tokio::select! {
            order = orders.recv() => match order? {
                Order::CutClient(done) => {
                    ends.cut_client();
                    let _ = done.send(());
                }
                Order::Deliver(done) => {
                    let delivered = deliver(ends, &to_server, &to_client).await.is_ok();
                    let _ = done.send(delivered);
                    return (delivered && ends.client.is_some()).then_some(());
                }
            },
            read = read(&mut ends.client, &mut up) => match read {
                Ok(length) if length > 0 => to_server.extend_from_slice(&up[..length]),
                // A client that gives up takes nothing back of what is on its way.
                _ => ends.client = None,
            },
            read = ends.server.read(&mut down) => match read {
                Ok(length) if length > 0 => to_client.extend_from_slice(&down[..length]),
                _ => return None,
            },
        }
    }
}

/// Sends on what was held; and when that is a request, waits for the first bytes of the reply: then it was carried out.
async fn deliver(ends: &mut Ends, to_server: &[u8], to_client: &[u8]) -> io::Result<()> {
    ends.write_client(to_client).await?;
    if to_server.is_empty() {
        return Ok(());
    }
    ends.server.write_all(to_server).await?;
    let mut reply = vec![0; PIECE];
    let length = ends.server.read(&mut reply).await?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    ends.write_client(&reply[..length]).await
}

/// Both sides of a connection. The client's may be gone before the server's.
struct Ends {
    client: Option<TcpStream>,
    server: TcpStream,
}

impl Ends {
    async fn write_client(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.client {
            Some(client) => client.write_all(bytes).await,
            None => Ok(()),
        }
    }

    fn cut_client(&mut self) {
        if let Some(client) = self.client.take() {
            reset(&client);
        }
    }

    fn reset(self) {
        let Ends { client, server } = self;
        client.iter().for_each(reset);
        reset(&server);
    }
}

/// Reads from a client that may be gone: then it says nothing.
async fn read(client: &mut Option<TcpStream>, buffer: &mut [u8]) -> io::Result<usize> {
    match client {
        Some(client) => client.read(buffer).await,
        None => pending().await,
    }
}

/// What is dropped next ends as a reset, and not as a polite end.
fn reset(stream: &TcpStream) {
    // A socket that cannot be told is closed politely; both are an end.
    let _ = stream.set_zero_linger();
}
