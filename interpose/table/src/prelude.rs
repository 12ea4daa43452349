//! Generator of the handle types and the status.

use crate::model::Handle;
use std::fmt::Write;

/// Writes a type of handle; `owner` completes its documentation.
fn handle_type(out: &mut String, prefix: &str, owner: &str, handle: Handle) {
    let name = handle.name();
    let _ = write!(
        out,
        "/// `MPI_{name}` {owner}.\n#[repr(transparent)]\n#[derive(Clone, Copy, PartialEq, Eq, \
         Hash, Debug)]\npub struct {prefix}{name}(pub *mut core::ffi::c_void);\n\n// SAFETY: an \
         address that only the real library dereferences.\nunsafe impl Send for {prefix}{name} \
         {{}}\n// SAFETY: as above.\nunsafe impl Sync for {prefix}{name} {{}}\n\n"
    );
}

pub(crate) fn virt_types() -> String {
    let mut out = String::new();
    for &handle in Handle::ALL {
        handle_type(&mut out, "Virt", "of the program: a virtual handle", handle);
    }
    out
}

/// Source of the status, in the layout of Open MPI.
///
/// A status has three fields of the standard, then a cancelled flag and a byte count (Open MPI's
/// `mpi.h`).
const STATUS: &str = "\
/// `MPI_Status`, equal on both sides.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Status {
    pub source: core::ffi::c_int,
    pub tag: core::ffi::c_int,
    pub error: core::ffi::c_int,
    /// True (not 0) if the operation was cancelled.
    pub cancelled: core::ffi::c_int,
    /// Number of bytes received.
    pub bytes: usize,
}
";

pub(crate) fn real_types() -> String {
    let kinds: Vec<&str> = Handle::ALL.iter().map(|handle| handle.name()).collect();
    let mut out = format!(
        "/// Kinds of handles.\n#[allow(missing_docs)]\n#[derive(Clone, Copy, Debug, PartialEq, \
         Eq, Hash)]\npub enum HandleKind {{ {} }}\n\n",
        kinds.join(", ")
    );
    for &handle in Handle::ALL {
        handle_type(&mut out, "Real", "of the real library", handle);
    }
    out + STATUS
}
