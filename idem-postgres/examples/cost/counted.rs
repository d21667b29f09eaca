//! A line to the server that counts how often it was gone there and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use idem_postgres::sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Outcome;

pub(crate) struct Counted {
    port: u16,
    trips: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) async fn to(options: &PgConnectOptions) -> Outcome<Counted> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (host, port) = (options.get_host().to_owned(), options.get_port());
        let counted = Counted { port: listener.local_addr()?.port(), trips: Arc::default() };
        let trips = Arc::clone(&counted.trips);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (host, trips) = (host.clone(), Arc::clone(&trips));
                tokio::spawn(async move {
                    // The client sees its connection end, as it would without this line.
                    if let Ok(server) = TcpStream::connect((host, port)).await {
                        let _ = pass(client, server, &trips).await;
                    }
                });
            }
        });
        Ok(counted)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn trips(&self) -> u64 {
        self.trips.load(Ordering::SeqCst)
    }
}

/// Passes everything on. A trip begins with the first words after the server spoke.
async fn pass(mut client: TcpStream, mut server: TcpStream, trips: &AtomicU64) -> std::io::Result<()> {
    let (mut question, mut answer) = ([0; 16 * 1024], [0; 16 * 1024]);
    let mut asked = false;
    loop {
        tokio::select! {
            read = client.read(&mut question) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                if !asked {
                    trips.fetch_add(1, Ordering::SeqCst);
                    asked = true;
                }
                server.write_all(&question[..read]).await?;
            }
            read = server.read(&mut answer) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                asked = false;
                client.write_all(&answer[..read]).await?;
            }
        }
    }
}
