//! Operators (MPI 4.1, 6.9.5) and local reduction (6.9.7). `MPI_Op_commutative` is generated.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::Runtime;
use crate::calls::runtime;
use crate::error_handling::{finish, handle_error};
use crate::errors::{ERR_ARG, ERR_OP, SUCCESS};
use crate::generated::callbacks::UserFunction;
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, VirtOp, real_datatype, real_op};
use crate::journal;
use crate::objects::op;
use std::ffi::{c_int, c_void};

/// Implements `MPI_Op_create`, also for functions that get a pointer to an `MPI_Count`.
///
/// # Safety
/// `op` is the program's address for the handle, or null.
pub(super) unsafe fn create(
    rt: &Runtime,
    procedure: Proc,
    function: UserFunction<VirtDatatype>,
    commute: c_int,
    op: *mut VirtOp,
) -> c_int {
    if op.is_null() {
        return handle_error(rt, procedure, ERR_OP, None);
    }
    let Some(function) = function else {
        return handle_error(rt, procedure, ERR_ARG, None);
    };
    let is_large = procedure == Proc::MPI_Op_create_c;
    match op::create(rt, function as usize as u64, commute != 0, is_large) {
        Ok(handle) => {
            // SAFETY: MPI requires the program's address for the handle to be valid.
            unsafe { *op = handle };
            SUCCESS
        }
        Err(rc) => handle_error(rt, procedure, rc, None),
    }
}

/// Sets the program's function for an operator of Open MPI 4's C++ bindings.
///
/// The bindings have just created this operator with a function of the bindings. That function
/// calls the program's function, whose address it receives as an additional argument.
pub unsafe extern "C" fn ompi_op_set_cxx_callback(
    op: VirtOp,
    function: UserFunction<VirtDatatype>,
) {
    let rt = runtime();
    // The journal does not record this call, so a replay would fail.
    journal::drop_recording(rt);
    let inner = function.map_or(0, |function| function as usize as u64);
    if !op::set_inner(rt, op, inner) {
        handle_error(rt, Proc::MPI_Op_create, ERR_OP, None);
    }
}

pub unsafe extern "C" fn MPI_Op_free(op: *mut VirtOp) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Op_free;
    if op.is_null() {
        return handle_error(rt, procedure, ERR_OP, None);
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let rc = op::free(rt, unsafe { *op });
    if rc == SUCCESS {
        // SAFETY: MPI requires the program's address of a handle to be valid.
        unsafe { *op = op::null_handle(rt) };
    }
    finish(rt, procedure, rc, None)
}

/// Defines handlers; arguments: the procedure, the real one, and its type of counts.
macro_rules! reduce_local {
    ($($name:ident, $real:ident, $count:ty;)*) => { $(
        pub unsafe extern "C" fn $name(
            inbuf: *const c_void,
            inoutbuf: *mut c_void,
            count: $count,
            datatype: VirtDatatype,
            op: VirtOp,
        ) -> c_int {
            let rt = runtime();
            let (real_datatype, real_op) = (real_datatype(rt, datatype), real_op(rt, op));
            // The real library dereferences the handle of the datatype before it checks the
            // handle.
            if real_datatype.0.is_null() {
                return handle_error(rt, Proc::$name, crate::errors::ERR_TYPE, None);
            }
            // SAFETY: MPI requires the program's arguments to be valid.
            let rc = unsafe { real::$real(inbuf, inoutbuf, count, real_datatype, real_op) };
            finish(rt, Proc::$name, rc, None)
        }
    )* };
}

reduce_local! {
    MPI_Reduce_local, PMPI_Reduce_local, c_int;
    MPI_Reduce_local_c, PMPI_Reduce_local_c, i64;
}
