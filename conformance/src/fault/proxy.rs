//! The proxy.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::plan::{Armed, Plan};
use super::{Fault, Line, Window, connection};

/// Longer than a driver takes to think.
const MOMENT: Duration = Duration::from_millis(25);

/// A proxy before a server, on an ephemeral port of this machine. It knows no protocol. Dropped, it cuts everything.
pub struct Proxy {
    address: SocketAddr,
    plan: Arc<Plan>,
    listens: JoinHandle<()>,
}

impl Proxy {
    /// Listens before the server at this address.
    ///
    /// # Errors
    /// There is no port.
    pub async fn before(server: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let plan = Arc::new(Plan::new(server));
        let listens = tokio::spawn(listen(listener, Arc::clone(&plan)));
        Ok(Proxy { address, plan, listens })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads new connections to another address: a server that was started again may have another port.
    pub fn lead_to(&self, server: SocketAddr) {
        self.plan.lead_to(server);
    }

    /// How many requests there have been, over all connections.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.plan.requests()
    }

    /// Waits until no request has come for a moment. A driver may have something to say after its call has ended: it
    /// tests a connection that it takes back.
    pub async fn quiet(&self) {
        loop {
            let before = self.requests();
            tokio::time::sleep(MOMENT).await;
            if self.requests() == before {
                return;
            }
        }
    }

    /// Changes the line. What was connected before is cut, except that a black hole swallows it.
    pub fn set(&self, line: Line) {
        self.plan.set(line);
    }

    /// Lets a fault wait for the nth request from now, the first being 1; from then on the line is as said.
    #[must_use]
    pub fn arm(&self, fault: Fault, nth: u64, then: Line) -> Window {
        let (opens, opened) = oneshot::channel();
        self.plan.arm(Armed::new(fault, nth, then, opens));
        Window::new(opened, nth, Arc::clone(&self.plan))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn listen(listener: TcpListener, plan: Arc<Plan>) {
    // Their tasks end with this one.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                connections.spawn(connection::run(client, Arc::clone(&plan)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
