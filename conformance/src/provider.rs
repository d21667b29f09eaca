//! Where the servers of the suite come from, and how they are killed, frozen and brought back.
//!
//! [`start`] tries, in this order, a URL from the environment, a container, and a server program of this machine. The
//! choice and every try that failed are kept for the report; a kind that no way gives is [`NotRun`], with the reason of
//! each try and a remedy. What was started here is ended here: when the [`Server`] is dropped, at [`shutdown`], on
//! SIGINT, SIGTERM and SIGHUP, and, by a watchdog that outlives this process for a moment, also after a SIGKILL.
//!
//! | variable | meaning |
//! |---|---|
//! | `IDEM_POSTGRES_URL`, `IDEM_MYSQL_URL`, `IDEM_MARIADB_URL`, `IDEM_REDIS_URL`, `IDEM_VALKEY_URL` | use this server |
//! | `IDEM_POSTGRES_IMAGE`, … | another image, with its tag |
//! | `IDEM_PROVIDER=url,container,local` | only these ways |
//! | `IDEM_REQUIRE=postgres,mysql,…` | what is named here and not run is an error; `faketime` and `pgbouncer` too |
//! | `IDEM_FAKETIME`, `IDEM_PGBOUNCER` | the file of such a [`Tool`] |

mod kind;
mod policy;
mod tool;
mod spec;

mod endpoint;
mod outcome;
mod server;
mod servers;

mod client;
mod container;
mod local;
mod url;

mod backend;
mod host;
mod offer;
mod start;
mod wanted;
mod watchdog;

mod command;

pub use backend::ControlError;
pub use client::{Facts, Setting};
pub use command::{ServersArgs, servers};
pub use endpoint::Endpoint;
pub use host::shutdown;
pub use kind::Kind;
pub use offer::{Offer, offers};
pub use outcome::{NotRun, Origin, Try, Way};
pub use policy::{Policy, PolicyError};
pub use server::Server;
pub use servers::Servers;
pub use spec::{ContainerSpec, LocalSpec, ServerSpec, Step};
pub use start::{available, start, take};
pub use tool::{NoTool, Tool};
pub use wanted::wanted;
