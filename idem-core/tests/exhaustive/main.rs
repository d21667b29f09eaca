//! Exhaustive exploration of the machine at the level of statements: every interleaving of a few workers with a
//! network that loses, delays and repeats, with crashes, lapses, ages, purges and a clock that steps back.
//!
//! Reading order: [`values`], [`setting`] and [`decisions`] say what takes part; [`network`], [`server`] and [`worker`]
//! are the parts; [`ledger`] writes down what really happened; [`world`] puts them together; [`properties`] says what
//! must hold. [`settings`] are the explorations that are run, and [`broken`] the machines that they must see through.

mod broken;
mod decisions;
mod ledger;
mod network;
mod properties;
mod server;
mod setting;
mod settings;
mod values;
mod worker;
mod world;

use std::collections::BTreeSet;
use std::time::Instant;

use setting::Setting;
use stateright::{Checker, HasDiscoveries, Model};

/// Visits every state of this setting.
fn explore(name: &str, setting: Setting) {
    let started = Instant::now();
    let checker = setting.checker().spawn_bfs().join();
    let (unique, depth, took) = (checker.unique_state_count(), checker.max_depth(), started.elapsed());
    println!("{name}: {unique} unique states, {depth} steps deep, {took:.1?}");
    checker.assert_properties();
}

macro_rules! explorations {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                explore(stringify!($name), settings::$name());
            }
        )*
    };
}

explorations![
    take_over,
    three_workers,
    checkpoint,
    heartbeat,
    hold,
    hold_repeating,
    resolved,
    mixed,
    release,
    two_requests,
    release_held,
    old_results,
    remembered,
    purge,
    purge_released,
    purge_held,
    step_back,
    step_back_and_purge,
];

#[test]
fn every_broken_machine_is_found() {
    for broken in broken::ALL {
        let setting = (broken.setting)().deciding(broken.decisions);
        let wanted = BTreeSet::from([broken.breaks]);
        let checker = setting.checker().finish_when(HasDiscoveries::AllOf(wanted)).spawn_bfs().join();
        let steps = checker.discovery(broken.breaks).map(|path| path.into_actions().len());
        println!("{}: {:?} steps, {} states", broken.defect, steps, checker.unique_state_count());
        assert!(steps.is_some(), "{}: not found to break {:?}", broken.defect, broken.breaks);
    }
}

#[test]
fn every_promise_is_broken_by_some_machine() {
    let broken: BTreeSet<_> = broken::ALL.iter().map(|broken| broken.breaks).collect();
    assert_eq!(broken, BTreeSet::from(properties::PROMISES));
}
