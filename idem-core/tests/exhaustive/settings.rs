//! The explorations: each one is small enough to be finished, and together they reach every part of the machine.

use idem_core::OnUncertain;

use crate::properties::{
    A_CLEARED_RECORD, A_HELD_RECORD, A_PURGE, A_RELEASE, A_SECOND_EFFECT, A_SPENT_RECORD, A_STEP_BACK, A_SUCCESS,
    A_TAKEOVER, AN_IDLE_TAKEOVER, AN_OLD_RESULT, ANOTHER_REQUEST, THREE_ATTEMPTS,
};
use crate::setting::{Script, Setting, TAKE_OVER};

const TAKES: Script = Script::new(TAKE_OVER).calls(1);
const FORGETS: Script = TAKES.retaining(1);
const HOLDS: Script = Script::new(OnUncertain::Hold).calls(1);

/// Two workers under TakeOver; one crashes and comes back with a new token, the other repeats its claim.
pub(crate) fn take_over() -> Setting {
    Setting::of(vec![TAKES.calls(2), TAKES.repeats()], 3).reaching(&[A_SUCCESS, A_TAKEOVER, A_SECOND_EFFECT])
}

/// Three workers under TakeOver, two of which may end without knowing.
pub(crate) fn three_workers() -> Setting {
    Setting::of(vec![TAKES.panics(), TAKES.panics(), TAKES], 1).reaching(&[
        A_SUCCESS,
        A_TAKEOVER,
        A_SECOND_EFFECT,
        THREE_ATTEMPTS,
    ])
}

/// Heartbeats with checkpoints that overtake each other, and a worker that ends without knowing.
pub(crate) fn checkpoint() -> Setting {
    Setting::of(vec![TAKES.checkpoints(2), TAKES.panics()], 3).reaching(&[A_SUCCESS, A_TAKEOVER, A_SECOND_EFFECT])
}

/// Longer leases, which heartbeats lengthen by a part.
pub(crate) fn heartbeat() -> Setting {
    Setting::of(vec![TAKES.leasing(2).beats(), TAKES.panics()], 4).reaching(&[A_SUCCESS, A_TAKEOVER])
}

/// Two workers under Hold; one crashes and comes back.
pub(crate) fn hold() -> Setting {
    Setting::of(vec![HOLDS.calls(2), HOLDS], 2).reaching(&[A_SUCCESS, AN_IDLE_TAKEOVER, A_HELD_RECORD])
}

/// Under Hold, with a claim that is repeated while its first statements are still about.
pub(crate) fn hold_repeating() -> Setting {
    Setting::of(vec![HOLDS.repeats(), HOLDS], 2).reaching(&[A_SUCCESS, AN_IDLE_TAKEOVER, A_HELD_RECORD])
}

/// Under Hold, with somebody who decides.
pub(crate) fn resolved() -> Setting {
    Setting::of(vec![HOLDS.panics(), HOLDS, Script::resolver()], 1).reaching(&[
        A_SUCCESS,
        A_TAKEOVER,
        A_HELD_RECORD,
        A_CLEARED_RECORD,
        A_SECOND_EFFECT,
    ])
}

/// One policy each, and somebody who decides.
pub(crate) fn mixed() -> Setting {
    Setting::of(vec![HOLDS, TAKES, Script::resolver()], 2).reaching(&[
        A_SUCCESS,
        A_TAKEOVER,
        AN_IDLE_TAKEOVER,
        A_HELD_RECORD,
    ])
}

/// Attempts that are given back, and another request for the same key.
pub(crate) fn release() -> Setting {
    Setting::of(vec![TAKES.releases().calls(2), TAKES.releases()], 2).reaching(&[
        A_SUCCESS,
        A_TAKEOVER,
        A_RELEASE,
        A_SECOND_EFFECT,
    ])
}

/// Two requests that want the same key.
pub(crate) fn two_requests() -> Setting {
    Setting::of(vec![TAKES.releases().repeats(), TAKES.asking(2).releases()], 3).reaching(&[
        A_SUCCESS,
        A_RELEASE,
        ANOTHER_REQUEST,
    ])
}

/// Attempts under Hold that are given back.
pub(crate) fn release_held() -> Setting {
    Setting::of(vec![HOLDS.releases(), HOLDS.releases()], 3).reaching(&[A_SUCCESS, A_RELEASE, AN_IDLE_TAKEOVER])
}

/// Results that get over age without purge.
pub(crate) fn old_results() -> Setting {
    Setting::of(vec![TAKES, TAKES], 4).reaching(&[A_SUCCESS, AN_OLD_RESULT])
}

/// Results that get over age, and are remembered.
pub(crate) fn remembered() -> Setting {
    Setting::of(vec![FORGETS, FORGETS], 5).purging().remembering(3).reaching(&[A_SUCCESS, A_SPENT_RECORD])
}

/// Purge at any time, under TakeOver.
pub(crate) fn purge() -> Setting {
    Setting::of(vec![FORGETS, FORGETS], 5).purging().reaching(&[A_SUCCESS, A_PURGE, AN_OLD_RESULT])
}

/// Purge at any time, with releases: a released row is the first to go.
pub(crate) fn purge_released() -> Setting {
    Setting::of(vec![FORGETS.releases(), FORGETS], 4).purging().reaching(&[A_SUCCESS, A_PURGE, A_RELEASE])
}

/// Purge at any time, under Hold: evidence stays.
pub(crate) fn purge_held() -> Setting {
    Setting::of(vec![HOLDS.retaining(1), HOLDS.retaining(1)], 4).purging().reaching(&[
        A_SUCCESS,
        A_HELD_RECORD,
        A_PURGE,
    ])
}

/// A clock that steps back under Hold.
pub(crate) fn step_back() -> Setting {
    Setting::of(vec![HOLDS, HOLDS], 3).stepping_back(1).reaching(&[A_SUCCESS, AN_IDLE_TAKEOVER, A_STEP_BACK])
}

/// A clock that steps back by less than the quarantine, with purge at any time.
pub(crate) fn step_back_and_purge() -> Setting {
    Setting::of(vec![FORGETS, FORGETS], 4).purging().stepping_back(1).reaching(&[A_SUCCESS, A_PURGE])
}
