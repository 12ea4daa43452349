//! Values that the program has written to control variables.
//!
//! The library reads some variables when it creates a communicator (Open MPI's
//! `coll_tuned_allreduce_algorithm`), others when a procedure is called. A recovery therefore
//! writes the last values before it rebuilds the program's communicators. A communicator that the
//! program created with other values would be rebuilt with the last ones, so no checkpoint is taken
//! while such a communicator exists. Variables that are bound to an object are written when all
//! objects exist.
#![allow(unsafe_code)]

use super::tool_library::{is_open, make_cvar, open};
use super::tool_variables::Cvar;
use super::written_values::Write;
use crate::Runtime;
use crate::errors::{SUCCESS, check};
use crate::generated::real;
use crate::objects::comm::{Comm, SELF};
use crate::objects::rebuild_error::log_not_rebuilt;
use crate::objects::{objects, objects_mut};
use crate::world;
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_mpi::call::NeverAbandoned;

/// Returns the number of writes that have changed an unbound variable.
///
/// A new communicator records this number, because its behaviour may depend on these values.
pub fn changes(rt: &Runtime) -> u64 {
    objects(rt).tool.written.changes
}

/// Records the value that the program has written to a control variable.
pub fn record(rt: &Runtime, cvar: &Cvar, value: Vec<u8>) {
    objects_mut(rt).tool.written.record(Write {
        name: cvar.name.clone(),
        object: cvar.object,
        value,
    });
}

/// Returns false if an unbound variable has changed since a communicator was created.
///
/// Logs the first such case in the process. `MPI_COMM_WORLD` and `MPI_COMM_SELF`, which
/// `MPI_Init` creates, are not checked.
pub fn check_communicators(rt: &Runtime) -> bool {
    let objects = objects(rt);
    let written = &objects.tool.written;
    // `MPI_COMM_SELF` is the last predefined communicator.
    let is_older =
        |index: u32, comm: &Comm| index > SELF && comm.variable_changes != written.changes;
    let mut comms = objects.comms.iter();
    let Some((_, comm)) = comms.find(|&(index, comm)| is_older(index, comm)) else {
        return true;
    };
    if !std::mem::replace(&mut rt.objects.tools.borrow_mut().is_older_logged, true) {
        let is_first_member = comm.members.first() == Some(&world::worker(rt));
        log::log!(
            if is_first_member {
                log::Level::Warn
            } else {
                log::Level::Info
            },
            "{}",
            message::control_variable_written(String::from_utf8_lossy(written.last_name()))
        );
    }
    false
}

/// Initialises the library's tool interface, if the program needs it.
///
/// The program needs the interface if it has the interface open, or has written a variable. Returns
/// true if the program needs the interface, and the library's interface is initialised.
pub(super) fn reopen(rt: &Runtime) -> bool {
    if !is_open(rt) && objects(rt).tool.written.last.is_empty() {
        return false;
    }
    let is_library_open = rt.objects.tools.borrow().is_open;
    let opened = is_library_open || open(rt, 0, &mut 0, false) == SUCCESS;
    if !opened {
        log::error!("{}", message::TOOL_INTERFACE_NOT_REBUILT);
    }
    opened
}

/// Writes the last values of unbound variables, before communicators are rebuilt.
pub fn write_before_communicators(rt: &Runtime) {
    if reopen(rt) {
        write_all(rt, |write| write.object == 0);
    }
}

/// Writes the last values of variables that are bound to objects.
pub(super) fn write_bound(rt: &Runtime) {
    write_all(rt, |write| write.object != 0);
}

fn write_all(rt: &Runtime, is_selected: impl Fn(&Write) -> bool) {
    let written = objects(rt).tool.written.clone();
    for write in written.last.iter().filter(|write| is_selected(write)) {
        if let Err(rc) = rewrite(rt, write) {
            let name = String::from_utf8_lossy(&write.name);
            log_not_rebuilt(&format!("variable {name}"), rc);
        }
    }
}

fn rewrite(rt: &Runtime, write: &Write) -> Result<(), c_int> {
    let cvar = Cvar {
        name: write.name.clone(),
        object: write.object,
        count: 0,
    };
    let (mut handle, _) = make_cvar(rt, &cvar)?;
    let _never_abandoned = NeverAbandoned::new();
    // SAFETY: a handle of the variable to which this value was written.
    let rc = unsafe { real::PMPI_T_cvar_write(handle, write.value.as_ptr().cast()) };
    // SAFETY: a handle that this function has created.
    unsafe { real::PMPI_T_cvar_handle_free(&mut handle) };
    check(rc)
}
