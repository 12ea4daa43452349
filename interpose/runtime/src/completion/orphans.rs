//! Removal of orphans: requests that the program has freed while they were active.

use super::{generalized, test};
use crate::Runtime;
use crate::arch::Rewound;
use crate::errors::SUCCESS;
use crate::requests::{self, get, is_active, release_real, remove};

/// Tests all orphans and removes those that have completed.
pub fn reap_orphans(rt: &Runtime) -> Result<(), Rewound> {
    let mut left = 0;
    for index in requests::indices(rt) {
        left += u32::from(!reap(rt, index)?);
    }
    requests::until_reaped(rt).set(left.max(MIN_SEARCHED_ORPHANS));
    Ok(())
}

/// Minimum number of tests of single orphans between two tests of all orphans.
const MIN_SEARCHED_ORPHANS: u32 = 16;

/// Removes the request if it is an orphan that has completed.
///
/// All orphans are tested when their number has about doubled since the last time.
pub fn reap_orphan(rt: &Runtime, index: u32) -> Result<(), Rewound> {
    if reap(rt, index)? {
        return Ok(());
    }
    match requests::until_reaped(rt).get().checked_sub(1) {
        Some(remaining) => requests::until_reaped(rt).set(remaining),
        None => reap_orphans(rt)?,
    }
    Ok(())
}

/// Removes an orphan that has completed; returns false for an orphan that is still active.
fn reap(rt: &Runtime, index: u32) -> Result<bool, Rewound> {
    if !get(rt, index).is_some_and(|request| request.is_freed) {
        return Ok(true);
    }
    if is_active(rt, index) && !test(rt, index)? {
        return Ok(false);
    }
    if let Some(general) = requests::general(rt, index) {
        generalized::free(general, SUCCESS);
    }
    release_real(rt, index);
    remove(rt, index);
    Ok(true)
}
