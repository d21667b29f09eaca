//! What breaks between a client and its server: a proxy that knows no protocol, and whatever happens to bytes.
//!
//! A *request* is what a client sends after the server's last word: its bytes are one round trip, in every protocol that
//! takes turns. So each point at which a connection can break is a number, and a rule can try all of them.

mod proxy;
mod plan;
mod connection;
mod window;
#[cfg(test)]
mod tests;

pub use plan::{Fault, Line};
pub use proxy::Proxy;
pub use window::{Held, Window};
