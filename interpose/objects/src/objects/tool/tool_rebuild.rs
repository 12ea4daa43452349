//! Rebuild of handles of the tool interface in the next MPI instance.
#![allow(unsafe_code)]

use super::tool_handles::{ToolHandleKind, handle};
use super::tool_library::{make_cvar, make_pvar, make_session, real_of, set_real};
use super::written;
use crate::Runtime;
use crate::generated::real;
use crate::objects::objects;
use crate::objects::rebuild_error::log_not_rebuilt;
use std::ffi::{c_int, c_void};
use understudy_mpi::call::NeverAbandoned;

/// Recreates the real handles in a new MPI instance, whose communicators must exist.
///
/// Also writes the last values of variables that are bound to objects.
///
/// A handle of a variable that the library does not have any more stays invalid.
pub fn rebuild(rt: &Runtime) {
    if !written::reopen(rt) {
        return;
    }
    written::write_bound(rt);
    let tool = objects(rt).tool.clone();
    for (index, cvar) in tool.cvars.iter() {
        connect(
            rt,
            ToolHandleKind::Cvar,
            index,
            make_cvar(rt, cvar).map(|(handle, _)| handle),
        );
    }
    for (index, ()) in tool.sessions.iter() {
        connect(rt, ToolHandleKind::Session, index, make_session());
    }
    for (index, pvar) in tool.pvars.iter() {
        let made = make_pvar(rt, pvar).map(|(handle, _)| handle);
        connect(rt, ToolHandleKind::Pvar, index, made);
        if pvar.started && made.is_ok() {
            let session = real_of(
                rt,
                ToolHandleKind::Session,
                handle(ToolHandleKind::Session, pvar.session),
            );
            let pvar = real_of(
                rt,
                ToolHandleKind::Pvar,
                handle(ToolHandleKind::Pvar, index),
            );
            let _never_abandoned = NeverAbandoned::new();
            // SAFETY: the session of the variable, and a handle that was created in this session.
            unsafe { real::PMPI_T_pvar_start(session, pvar) };
        }
    }
}

fn connect(rt: &Runtime, kind: ToolHandleKind, index: u32, made: Result<*mut c_void, c_int>) {
    match made {
        Ok(real) => set_real(rt, kind, index, real),
        Err(rc) => log_not_rebuilt(&format!("handle {index} of the tool interface"), rc),
    }
}
