//! Performance variables (MPI 4.1, section 15.3.7): sessions and handles.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::tool::{free_handle, must_be_open, object_at, real_of, returned};
use crate::Runtime;
use crate::calls::runtime;
use crate::errors::check;
use crate::generated::real;
use crate::objects::tool::{
    self, ALL, INVALID_HANDLE, INVALID_SESSION, NO_STARTSTOP, NO_WRITE, Pvar, ToolHandleKind,
};
use crate::objects::{objects, objects_mut};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use understudy_mpi::call::NeverAbandoned;

pub unsafe extern "C" fn MPI_T_pvar_session_create(session: *mut *mut c_void) -> c_int {
    let rt = runtime();
    let make = || {
        must_be_open(rt)?;
        let real = tool::make_session()?;
        let index = objects_mut(rt).tool.sessions.insert(());
        tool::set_real(rt, ToolHandleKind::Session, index, real);
        // SAFETY: MPI requires the program's argument to be valid.
        unsafe { session.write(tool::handle(ToolHandleKind::Session, index)) };
        Ok(())
    };
    returned(make())
}

/// `MPI_T_pvar_session_free`: also frees the handles of the session.
pub unsafe extern "C" fn MPI_T_pvar_session_free(session: *mut *mut c_void) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    let program_handle = unsafe { &mut *session };
    let mut free = || {
        must_be_open(rt)?;
        let session_index =
            tool::index(ToolHandleKind::Session, *program_handle).ok_or(INVALID_SESSION)?;
        objects_mut(rt)
            .tool
            .sessions
            .remove(session_index)
            .ok_or(INVALID_SESSION)?;
        for index in pvars_of(rt, session_index) {
            objects_mut(rt).tool.pvars.remove(index);
            tool::set_real(rt, ToolHandleKind::Pvar, index, null_mut());
        }
        // SAFETY: a session of the library, which is freed once.
        free_handle(
            rt,
            ToolHandleKind::Session,
            session_index,
            program_handle,
            |real| unsafe { real::PMPI_T_pvar_session_free(real) },
        )
    };
    returned(free())
}

/// Returns the indices of a session's handles.
fn pvars_of(rt: &Runtime, session: u32) -> Vec<u32> {
    let tool = &objects(rt).tool;
    let all = tool
        .pvars
        .iter()
        .filter(|(_, pvar)| pvar.session == session);
    all.map(|(index, _)| index).collect()
}

pub unsafe extern "C" fn MPI_T_pvar_handle_alloc(
    session: *mut c_void,
    pvar_index: c_int,
    obj_handle: *mut c_void,
    handle: *mut *mut c_void,
    count: *mut c_int,
) -> c_int {
    let rt = runtime();
    let make = || {
        real_of(rt, ToolHandleKind::Session, session)?;
        let variable = tool::describe_pvar(rt, pvar_index)?;
        let pvar = Pvar {
            session: tool::index(ToolHandleKind::Session, session).ok_or(INVALID_SESSION)?,
            name: variable.name,
            class: variable.class,
            // SAFETY: MPI requires the program's argument to be valid.
            object: unsafe { object_at(variable.bind, obj_handle) },
            started: false,
        };
        let (real, elements) = tool::make_pvar(rt, &pvar)?;
        let index = objects_mut(rt).tool.pvars.insert(pvar);
        tool::set_real(rt, ToolHandleKind::Pvar, index, real);
        // SAFETY: MPI requires the program's arguments to be valid.
        unsafe {
            handle.write(tool::handle(ToolHandleKind::Pvar, index));
            count.write(elements);
        }
        Ok(())
    };
    returned(make())
}

pub unsafe extern "C" fn MPI_T_pvar_handle_free(
    session: *mut c_void,
    handle: *mut *mut c_void,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    let program_handle = unsafe { &mut *handle };
    let mut free = || {
        let session = real_of(rt, ToolHandleKind::Session, session)?;
        let index = tool::index(ToolHandleKind::Pvar, *program_handle).ok_or(INVALID_HANDLE)?;
        objects_mut(rt)
            .tool
            .pvars
            .remove(index)
            .ok_or(INVALID_HANDLE)?;
        // SAFETY: a handle of the library, which is freed once.
        free_handle(
            rt,
            ToolHandleKind::Pvar,
            index,
            program_handle,
            |real| unsafe { real::PMPI_T_pvar_handle_free(session, real) },
        )
    };
    returned(free())
}

/// Calls a procedure with a handle of a session.
fn call_with_handle(
    rt: &Runtime,
    session: *mut c_void,
    handle: *mut c_void,
    call: impl Fn(*mut c_void, *mut c_void) -> c_int,
) -> Result<(), c_int> {
    let real_session = real_of(rt, ToolHandleKind::Session, session)?;
    let real = real_of(rt, ToolHandleKind::Pvar, handle)?;
    let _apart = NeverAbandoned::new();
    check(call(real_session, real))
}

/// Calls a procedure with one handle, or with all handles of a session.
///
/// With [`ALL`], handles for which the procedure is not allowed are skipped. The constant is never
/// passed to the library: MPICH would use the constant of the standard ABI as an address.
fn call_with_handles(
    rt: &Runtime,
    session: *mut c_void,
    handle: *mut c_void,
    call: impl Fn(*mut c_void, *mut c_void) -> c_int,
) -> Result<(), c_int> {
    if handle != ALL {
        return call_with_handle(rt, session, handle, call);
    }
    must_be_open(rt)?;
    let session_index = tool::index(ToolHandleKind::Session, session).ok_or(INVALID_SESSION)?;
    for index in pvars_of(rt, session_index) {
        match call_with_handle(
            rt,
            session,
            tool::handle(ToolHandleKind::Pvar, index),
            &call,
        ) {
            Err(NO_STARTSTOP | NO_WRITE) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

fn record_started(rt: &Runtime, session: *mut c_void, handle: *mut c_void, started: bool) {
    let handles = match tool::index(ToolHandleKind::Session, session) {
        Some(session) if handle == ALL => pvars_of(rt, session),
        _ => tool::index(ToolHandleKind::Pvar, handle)
            .into_iter()
            .collect(),
    };
    for index in handles {
        if let Some(pvar) = objects_mut(rt).tool.pvars.get_mut(index) {
            pvar.started = started;
        }
    }
}

macro_rules! pvars {
    ($($name:ident, $real:ident($($argument:ident: $type:ty)?) $with:ident
        $(records $started:literal)?;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub unsafe extern "C" fn $name(
            session: *mut c_void, handle: *mut c_void $(, $argument: $type)?
        ) -> c_int {
            let rt = $crate::calls::runtime();
            returned($with(rt, session, handle, |real_session, real| {
                // SAFETY: handles of the library; MPI requires the program's buffer to be valid.
                unsafe { real::$real(real_session, real $(, $argument)?) }
            }).inspect(|()| { $(record_started(rt, session, handle, $started);)? }))
        }
    )*};
}

pvars! {
    MPI_T_pvar_start, PMPI_T_pvar_start() call_with_handles records true;
    MPI_T_pvar_stop, PMPI_T_pvar_stop() call_with_handles records false;
    MPI_T_pvar_read, PMPI_T_pvar_read(buf: *mut c_void) call_with_handle;
    MPI_T_pvar_write, PMPI_T_pvar_write(buf: *const c_void) call_with_handle;
    MPI_T_pvar_reset, PMPI_T_pvar_reset() call_with_handles;
    MPI_T_pvar_readreset, PMPI_T_pvar_readreset(buf: *mut c_void) call_with_handle;
}
