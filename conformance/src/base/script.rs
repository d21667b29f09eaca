//! What the scripts of all backends have in common.

use idem_core::{End, Final, Replay};

use crate::harness::{HookError, Hooked};

/// What `once` records at its end.
pub(super) fn replay(end: End) -> Hooked<Replay> {
    match end {
        End::Succeeded(recorded) => Ok(Replay { end: Final::Succeeded, recorded }),
        End::Failed(recorded) => Ok(Replay { end: Final::Failed, recorded }),
        End::Unknown(_) => Err(HookError::failed("`once` ends as succeeded or failed")),
    }
}
