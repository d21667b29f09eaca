//! By which way a client reaches a server.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::harness::{Guard, OpenError, Reach};

/// The address that stands for the server's, and what must be kept for as long as it does.
pub(super) fn way_in(reach: Reach) -> Result<(Guard, Option<SocketAddr>), OpenError> {
    match reach {
        Reach::Direct => Ok((Guard::none(), None)),
        Reach::Through(address) => Ok((Guard::none(), Some(address))),
        Reach::Nowhere => {
            // Connections are made, and never answered: a refusal would be an answer.
            let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(OpenError::environment)?;
            let address = silent.local_addr().map_err(OpenError::environment)?;
            Ok((Guard::of(silent), Some(address)))
        }
    }
}
