//! The rules of families that are not built yet: part of the catalogue from the start, so that no report can pass over
//! them in silence.

use crate::rules::{Check, Profile, Rule};

const CONC_RULE: Rule = Rule { check: Check::Later("needs concurrent histories"), ..Rule::of(Profile::Core) };

pub(super) const CONC: &[Rule] = &[
    Rule {
        id: "CONC-004",
        slug: "winner_rolls_back",
        clause: "C9, J2",
        text: "When the winner of a one-transaction claim rolls back, exactly one of those behind it goes on.",
        why: "Nobody may conclude that somebody else did it.",
        profile: Profile::Transactional,
        ..CONC_RULE
    },
    Rule {
        id: "CONC-005",
        slug: "more_claimants_than_connections",
        clause: "C11, X2",
        text: "More claimants than connections all end, and none holds one connection while it waits for another.",
        why: "A pool that waits for itself is a standstill.",
        ..CONC_RULE
    },
    Rule {
        id: "CONC-006",
        slug: "opposite_orders_surface_no_deadlock",
        clause: "X4",
        text: "Many keys in opposite orders surface no deadlock.",
        why: "Gap locks on distinct keys are the application's problem otherwise.",
        ..CONC_RULE
    },
];

const XPROC_RULE: Rule = Rule { check: Check::Later("needs worker processes"), ..Rule::of(Profile::Shared) };

pub(super) const XPROC: &[Rule] = &[
    Rule {
        id: "XPROC-001",
        slug: "eight_processes_one_acquired",
        clause: "C9",
        text: "Of eight processes behind a barrier exactly one is Acquired.",
        why: "A lock that is local to a process looks right in every test of one process.",
        ..XPROC_RULE
    },
    Rule {
        id: "XPROC-002",
        slug: "eight_processes_one_takeover",
        clause: "C6, C9",
        text: "Of eight processes that contend for a lapsed lease exactly one takes over.",
        why: "The same, when it matters most: after a crash.",
        ..XPROC_RULE
    },
];

const LIN_RULE: Rule =
    Rule { check: Check::Later("needs the model and the history checker"), ..Rule::of(Profile::Core) };

pub(super) const LIN: &[Rule] = &[
    Rule {
        id: "LIN-001",
        slug: "random_programs_agree_with_the_model",
        clause: "all",
        text: "Random sequential programs are answered as the model answers them.",
        why: "Rules look where somebody thought of looking.",
        ..LIN_RULE
    },
    Rule {
        id: "LIN-002",
        slug: "concurrent_histories_are_linearizable",
        clause: "C9",
        text: "Concurrent histories of tasks are linearizable for each identity.",
        why: "Some order has to explain every answer.",
        ..LIN_RULE
    },
    Rule {
        id: "LIN-003",
        slug: "histories_of_processes_are_linearizable",
        clause: "C9",
        text: "Concurrent histories of processes are linearizable for each identity.",
        why: "The same, without shared memory.",
        profile: Profile::Shared,
        ..LIN_RULE
    },
    Rule {
        id: "LIN-004",
        slug: "histories_under_faults_are_linearizable",
        clause: "C9, X4",
        text: "Histories with connection faults and unknown outcomes are linearizable.",
        why: "The same, when the network is what it is.",
        profile: Profile::Networked,
        ..LIN_RULE
    },
];

const CACHE_RULE: Rule = Rule { check: Check::Later("needs caches"), ..Rule::of(Profile::Cached) };

pub(super) const CACHE: &[Rule] = &[
    Rule {
        id: "CACHE-001",
        slug: "empty_cache",
        clause: "C9",
        text: "With an empty cache every answer is the arbiter's.",
        why: "A cache may save work, and decide nothing.",
        ..CACHE_RULE
    },
    Rule {
        id: "CACHE-002",
        slug: "flushed_and_restarted_cache",
        clause: "C9",
        text: "A cache that is flushed or restarted in the middle changes no answer.",
        why: "Caches evict and fail over.",
        ..CACHE_RULE
    },
    Rule {
        id: "CACHE-003",
        slug: "cache_that_is_down",
        clause: "X5",
        text: "With the cache down or slow the store still answers, in time.",
        why: "A cache must not be what idempotency depends on.",
        ..CACHE_RULE
    },
    Rule {
        id: "CACHE-004",
        slug: "lying_cache",
        clause: "C9",
        text: "A cache that says \"done\" or \"in flight\" of an absent key misleads no longer than the declared staleness.",
        why: "A stale answer loses a request.",
        ..CACHE_RULE
    },
    Rule {
        id: "CACHE-005",
        slug: "no_replay_after_retention",
        clause: "C1",
        text: "Nothing is replayed from a cache after its retention.",
        why: "Two clocks decide then.",
        ..CACHE_RULE
    },
    Rule {
        id: "CACHE-006",
        slug: "late_write_never_overwrites",
        clause: "X1",
        text: "A late write into the cache never overwrites the newer owner's.",
        why: "A stale owner's answer would be replayed.",
        ..CACHE_RULE
    },
];
