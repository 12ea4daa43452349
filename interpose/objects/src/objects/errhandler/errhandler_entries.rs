//! Error handlers in the table.

use super::error_handler::{Errhandler, ErrhandlerKind, ErrorAction};
use crate::Runtime;
use crate::errors::{ERR_ARG, SUCCESS};
use crate::generated::HandleKind;
use crate::handles::{DenotedObject, VirtErrhandler, VirtFile, denoted_object, virtual_handle};
use crate::objects::lookup::{PredefinedHandle, created_index};
use crate::objects::{objects, objects_mut};
use std::ffi::c_int;

static NULL: PredefinedHandle = PredefinedHandle::new("ompi_mpi_errhandler_null");
pub(super) static FATAL: PredefinedHandle = PredefinedHandle::new("ompi_mpi_errors_are_fatal");
static ABORT: PredefinedHandle = PredefinedHandle::new("ompi_mpi_errors_abort");
pub(super) static RETURN: PredefinedHandle = PredefinedHandle::new("ompi_mpi_errors_return");
static THROW: PredefinedHandle = PredefinedHandle::new("ompi_mpi_errors_throw_exceptions");

/// Returns the program's handle of `MPI_ERRHANDLER_NULL`.
pub fn null_handle(rt: &Runtime) -> VirtErrhandler {
    VirtErrhandler(NULL.get(rt))
}

/// Returns the program's handle of `MPI_FILE_NULL`.
pub fn null_file(rt: &Runtime) -> VirtFile {
    static NO_FILE: PredefinedHandle = PredefinedHandle::new("ompi_mpi_file_null");
    VirtFile(NO_FILE.get(rt))
}

/// Returns the error handler of `MPI_FILE_NULL`, which a newly opened file gets.
///
/// Zero for the default.
pub fn default_of_files(rt: &Runtime) -> u64 {
    objects(rt).file_errhandler
}

/// Returns the action of an error handler.
///
/// `None` for `MPI_ERRHANDLER_NULL` and for invalid handles.
pub(super) fn action(rt: &Runtime, errhandler: VirtErrhandler) -> Option<ErrorAction> {
    if let Some(index) = created_index(HandleKind::Errhandler, errhandler.0) {
        return Some(ErrorAction::Call(
            objects(rt).errhandlers.get(index)?.function,
        ));
    }
    if !matches!(denoted_object(errhandler.0), DenotedObject::Predefined(_)) {
        return None;
    }
    match errhandler.0 {
        handle if handle == FATAL.get(rt) => Some(ErrorAction::Fatal),
        handle if handle == ABORT.get(rt) => Some(ErrorAction::Abort),
        handle if handle == RETURN.get(rt) => Some(ErrorAction::Return),
        handle if handle == THROW.get(rt) => Some(ErrorAction::Throw),
        _ => None,
    }
}

/// Returns the kind of objects for which the program's error handler may be set.
///
/// `None` for predefined error handlers, which may be set for all objects, and invalid handles.
pub(super) fn kind_of(rt: &Runtime, errhandler: VirtErrhandler) -> Option<ErrhandlerKind> {
    let index = created_index(HandleKind::Errhandler, errhandler.0)?;
    objects(rt).errhandlers.get(index).map(|entry| entry.kind)
}

/// True for an error handler that may be set for objects of a kind.
pub fn is_valid_for(rt: &Runtime, errhandler: VirtErrhandler, kind: ErrhandlerKind) -> bool {
    let has_kind = kind_of(rt, errhandler).is_none_or(|required| required == kind);
    action(rt, errhandler).is_some() && has_kind
}

/// Creates an error handler that calls the function at this address of the program side.
pub fn create(rt: &Runtime, kind: ErrhandlerKind, function: u64) -> VirtErrhandler {
    remove_unused(rt);
    let index = objects_mut(rt).errhandlers.insert(Errhandler {
        kind,
        function,
        handles: 1,
    });
    VirtErrhandler(virtual_handle(HandleKind::Errhandler, index))
}

/// Frees a handle of the program.
///
/// Predefined handles may be freed, since `MPI_Comm_get_errhandler` returns them.
pub fn free(rt: &Runtime, errhandler: VirtErrhandler) -> c_int {
    match created_index(HandleKind::Errhandler, errhandler.0) {
        Some(index) => {
            match objects_mut(rt).errhandlers.get_mut(index) {
                Some(entry) if entry.handles > 0 => entry.handles -= 1,
                _ => return ERR_ARG,
            }
            remove_unused(rt);
            SUCCESS
        }
        None => action(rt, errhandler).map_or(ERR_ARG, |_| SUCCESS),
    }
}

/// Removes error handlers that the program has freed and no object uses (9.3.4).
fn remove_unused(rt: &Runtime) {
    let mut all = objects_mut(rt);
    let freed = all
        .errhandlers
        .iter()
        .filter(|(_, entry)| entry.handles == 0);
    let used = |index: u32| {
        let handle = virtual_handle(HandleKind::Errhandler, index) as u64;
        all.file_errhandler == handle
            || all.files.iter().any(|(_, file)| file.errhandler == handle)
            || all
                .windows
                .iter()
                .any(|(_, window)| window.errhandler == handle)
            || all
                .sessions
                .iter()
                .any(|(_, session)| session.errhandler == handle)
            || all.comms.iter().any(|(_, comm)| comm.errhandler == handle)
    };
    let unused: Vec<u32> = freed
        .map(|(index, _)| index)
        .filter(|&index| !used(index))
        .collect();
    for index in unused {
        all.errhandlers.remove(index);
    }
}
