//! A proxy between a client and the server that cuts the connection at COMMIT, on either side of the server.

use idem_mysql::mysql_async::{Opts, OptsBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What does not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// COMMIT reaches the server, and its reply does not come back.
    TheReply,
    /// COMMIT does not reach the server.
    TheRequest,
}

/// For one connection.
pub(crate) struct Proxy {
    opts: Opts,
}

impl Proxy {
    pub(crate) async fn start(url: &str, cut: Cut) -> Proxy {
        let opts = Opts::from_url(url).expect("a URL");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let server = (opts.ip_or_hostname().to_owned(), opts.tcp_port());
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.expect("accepted");
            let server = TcpStream::connect(server).await.expect("connected");
            forward(client, server, cut).await;
        });
        let through = OptsBuilder::from_opts(opts).ip_or_hostname("127.0.0.1").tcp_port(port).prefer_socket(false);
        Proxy { opts: through.into() }
    }

    pub(crate) fn opts(&self) -> Opts {
        self.opts.clone()
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, cut: Cut) {
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let sent = &from_client[..read.unwrap_or(0)];
                if sent.is_empty() {
                    return;
                }
                // COM_QUERY, and nothing behind the word: "READ COMMITTED" is another one.
                let commits = sent.ends_with(b"\x03COMMIT");
                if !commits || cut == Cut::TheReply {
                    server.write_all(sent).await.expect("forwarded");
                }
                if commits {
                    if cut == Cut::TheReply {
                        // Its first bytes show that the server has committed; nobody else sees them.
                        let _ = server.read(&mut from_server).await;
                    }
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let sent = &from_server[..read.unwrap_or(0)];
                if sent.is_empty() {
                    return;
                }
                client.write_all(sent).await.expect("forwarded");
            }
        }
    }
}
