//! Checks and completion of the procedures that open or close an epoch.

use crate::Runtime;
use crate::error_handling::finish_win;
use crate::errors::{ERR_NO_MEM, ERR_RMA_SYNC, ERR_WIN, SUCCESS};
use crate::generated::Proc;
use crate::handles::VirtWin;
use crate::objects::window::{self, DirectWindow, Epochs};
use std::ffi::c_int;
use std::rc::Rc;

/// Message for a failed exchange between the two sides of an epoch.
pub(super) const EXCHANGE_FAILED: &str = "the processes of a window cannot exchange their states";

/// Completes a procedure that opens or closes an epoch.
///
/// Records the change if the procedure has succeeded.
pub(super) fn finish_and_record(
    rt: &Runtime,
    procedure: Proc,
    rc: c_int,
    win: VirtWin,
    change: impl FnOnce(&mut Epochs),
) -> c_int {
    if rc == SUCCESS {
        window::change_epochs(rt, win, change);
    }
    finish_win(rt, procedure, rc, win)
}

/// Returns the direct access to the window if its locks are the runtime's.
pub(super) fn direct_access(rt: &Runtime, win: VirtWin) -> Result<Option<Rc<DirectWindow>>, c_int> {
    window::passive::with_own_locks(rt, win).map_err(|_| ERR_NO_MEM)
}

/// Returns `MPI_ERR_RMA_SYNC` unless the epochs of a window satisfy a condition.
pub(super) fn check(
    rt: &Runtime,
    win: VirtWin,
    condition: impl Fn(&Epochs) -> bool,
) -> Result<(), c_int> {
    match window::get(rt, win).map(|window| condition(&window.epochs)) {
        None => Err(ERR_WIN),
        Some(false) => Err(ERR_RMA_SYNC),
        Some(true) => Ok(()),
    }
}

/// Evaluates to the value of a result; returns from the handler after an error.
macro_rules! or_end {
    ($rt:expr, $procedure:expr, $win:expr, $result:expr) => {
        match $result {
            Ok(value) => value,
            Err(rc) => return finish_win($rt, $procedure, rc, $win),
        }
    };
}
pub(super) use or_end;
