//! The rules of each family, with the functions that check them.

mod claim;
mod key;
mod complete;
mod replay;
mod lease;
mod fence;
mod renew;
mod checkpoint;
mod release;
mod spent;
mod purge;
mod time;
mod iso;
mod transaction;
mod errors;
mod call;
mod conc;
mod durable;
mod crash;
mod net;
mod cancel;
mod schema;
mod later;
mod meta;

use crate::Rule;

/// The families, in the order of the catalogue.
pub(crate) const FAMILIES: &[&[Rule]] = &[
    claim::RULES,
    key::RULES,
    complete::RULES,
    replay::RULES,
    lease::RULES,
    fence::RULES,
    renew::RULES,
    checkpoint::RULES,
    release::RULES,
    spent::RULES,
    purge::RULES,
    time::RULES,
    iso::RULES,
    transaction::RULES,
    errors::RULES,
    conc::RULES,
    later::CONC,
    later::XPROC,
    later::LIN,
    durable::RULES,
    crash::RULES,
    net::RULES,
    cancel::RULES,
    later::CACHE,
    schema::RULES,
    meta::RULES,
];
