//! Performance variables (MPI 4.1, section 15.3.7): sessions and handles.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::tool::{give_back, must_be_open, object_at, real_of, returned};
use crate::Runtime;
use crate::calls::runtime;
use crate::errors::succeeded;
use crate::generated::real;
use crate::objects::tool::{
    self, ALL, INVALID_HANDLE, INVALID_SESSION, NO_STARTSTOP, NO_WRITE, Of, Pvar,
};
use crate::objects::{objects, objects_mut};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use understudy_mpi::call::Apart;

pub unsafe extern "C" fn MPI_T_pvar_session_create(session: *mut *mut c_void) -> c_int {
    let rt = runtime();
    let make = || {
        must_be_open(rt)?;
        let real = tool::make_session()?;
        let index = objects_mut(rt).tool.sessions.insert(());
        tool::set_real(rt, Of::Session, index, real);
        // SAFETY: MPI requires the program's argument to be valid.
        unsafe { session.write(tool::handle(Of::Session, index)) };
        Ok(())
    };
    returned(make())
}

/// `MPI_T_pvar_session_free`: also frees the handles of the session.
pub unsafe extern "C" fn MPI_T_pvar_session_free(session: *mut *mut c_void) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    let given = unsafe { &mut *session };
    let mut free = || {
        must_be_open(rt)?;
        let number = tool::index(Of::Session, *given).ok_or(INVALID_SESSION)?;
        objects_mut(rt)
            .tool
            .sessions
            .remove(number)
            .ok_or(INVALID_SESSION)?;
        for index in pvars_of(rt, number) {
            objects_mut(rt).tool.pvars.remove(index);
            tool::set_real(rt, Of::Pvar, index, null_mut());
        }
        // SAFETY: a session of the library.
        give_back(rt, Of::Session, number, given, |real| unsafe {
            real::PMPI_T_pvar_session_free(real)
        })
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
        real_of(rt, Of::Session, session)?;
        let variable = tool::describe_pvar(rt, pvar_index)?;
        let pvar = Pvar {
            session: tool::index(Of::Session, session).ok_or(INVALID_SESSION)?,
            name: variable.name,
            class: variable.class,
            // SAFETY: MPI requires the program's argument to be valid.
            object: unsafe { object_at(variable.bind, obj_handle) },
            started: false,
        };
        let (real, elements) = tool::make_pvar(rt, &pvar)?;
        let index = objects_mut(rt).tool.pvars.insert(pvar);
        tool::set_real(rt, Of::Pvar, index, real);
        // SAFETY: MPI requires the program's arguments to be valid.
        unsafe {
            handle.write(tool::handle(Of::Pvar, index));
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
    let given = unsafe { &mut *handle };
    let mut free = || {
        let session = real_of(rt, Of::Session, session)?;
        let index = tool::index(Of::Pvar, *given).ok_or(INVALID_HANDLE)?;
        objects_mut(rt)
            .tool
            .pvars
            .remove(index)
            .ok_or(INVALID_HANDLE)?;
        // SAFETY: a handle of the library.
        give_back(rt, Of::Pvar, index, given, |real| unsafe {
            real::PMPI_T_pvar_handle_free(session, real)
        })
    };
    returned(free())
}

/// Calls a procedure with a handle of a session.
fn with_one(
    rt: &Runtime,
    session: *mut c_void,
    handle: *mut c_void,
    call: impl Fn(*mut c_void, *mut c_void) -> c_int,
) -> Result<(), c_int> {
    let real_session = real_of(rt, Of::Session, session)?;
    let real = real_of(rt, Of::Pvar, handle)?;
    let _apart = Apart::new();
    succeeded(call(real_session, real))
}

/// Calls a procedure with one handle, or with all handles of a session.
///
/// Handles for which the procedure is not allowed are skipped then. The library never gets the
/// constant for all handles: MPICH's library uses that of the standard ABI as an address.
fn with_any(
    rt: &Runtime,
    session: *mut c_void,
    handle: *mut c_void,
    call: impl Fn(*mut c_void, *mut c_void) -> c_int,
) -> Result<(), c_int> {
    if handle != ALL {
        return with_one(rt, session, handle, call);
    }
    must_be_open(rt)?;
    let number = tool::index(Of::Session, session).ok_or(INVALID_SESSION)?;
    for index in pvars_of(rt, number) {
        match with_one(rt, session, tool::handle(Of::Pvar, index), &call) {
            Err(NO_STARTSTOP | NO_WRITE) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

fn note_started(rt: &Runtime, session: *mut c_void, handle: *mut c_void, started: bool) {
    let handles = match tool::index(Of::Session, session) {
        Some(session) if handle == ALL => pvars_of(rt, session),
        _ => tool::index(Of::Pvar, handle).into_iter().collect(),
    };
    for index in handles {
        if let Some(pvar) = objects_mut(rt).tool.pvars.get_mut(index) {
            pvar.started = started;
        }
    }
}

macro_rules! pvars {
    ($($name:ident, $real:ident($($argument:ident: $type:ty)?) $with:ident
        $(notes $started:literal)?;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub unsafe extern "C" fn $name(
            session: *mut c_void, handle: *mut c_void $(, $argument: $type)?
        ) -> c_int {
            let rt = $crate::calls::runtime();
            returned($with(rt, session, handle, |real_session, real| {
                // SAFETY: handles of the library, and the program's buffer.
                unsafe { real::$real(real_session, real $(, $argument)?) }
            }).inspect(|()| { $(note_started(rt, session, handle, $started);)? }))
        }
    )*};
}

pvars! {
    MPI_T_pvar_start, PMPI_T_pvar_start() with_any notes true;
    MPI_T_pvar_stop, PMPI_T_pvar_stop() with_any notes false;
    MPI_T_pvar_read, PMPI_T_pvar_read(buf: *mut c_void) with_one;
    MPI_T_pvar_write, PMPI_T_pvar_write(buf: *const c_void) with_one;
    MPI_T_pvar_reset, PMPI_T_pvar_reset() with_any;
    MPI_T_pvar_readreset, PMPI_T_pvar_readreset(buf: *mut c_void) with_one;
}
