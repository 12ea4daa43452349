//! Operators, error handlers and generalized requests (MPI 4.1, 6.9.5, 9.3 and 13.2).
//!
//! The callbacks are subroutines of the program, which take handles as integers. C callbacks of
//! operators and error handlers receive no extra argument by which they could find a subroutine. A
//! subroutine is therefore passed to the runtime as a [`Closure`]: a block of memory with the
//! address of a C function of this module and the address of the subroutine. The runtime calls the
//! C function with the block as an additional argument ([`understudy_abi::CLOSURE`]). C callbacks
//! of generalized requests find the subroutines by their extra state.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::mpi::*;
use alloc::boxed::Box;
use core::ffi::{c_int, c_void};
use understudy_abi::CLOSURE;

type Query = unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

unsafe extern "C" {
    fn PMPI_Op_create(function: *const c_void, commute: c_int, op: *mut Handle) -> c_int;
    fn PMPI_Comm_create_errhandler(function: *const c_void, errhandler: *mut Handle) -> c_int;
    fn PMPI_File_create_errhandler(function: *const c_void, errhandler: *mut Handle) -> c_int;
    fn PMPI_Win_create_errhandler(function: *const c_void, errhandler: *mut Handle) -> c_int;
    fn PMPI_Grequest_start(
        query: Query,
        free: Free,
        cancel: Cancel,
        extra_state: *mut c_void,
        request: *mut Handle,
    ) -> c_int;
}

/// A subroutine of the program, and the C function that calls the subroutine.
#[repr(C)]
struct Closure<F> {
    code: *const c_void,
    function: F,
}

/// Creates a closure, and returns its address with the mark of closures.
///
/// The address is passed as that of a function. The closure is never freed.
fn closure<F>(code: *const c_void, function: F) -> *const c_void {
    let block = Box::into_raw(Box::new(Closure { code, function }));
    block.cast::<c_void>().map_addr(|address| address | CLOSURE)
}

type Reduce = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);

/// Reduction function that calls a subroutine.
///
/// # Safety
/// Must be called with a closure.
unsafe extern "C" fn reduce(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut c_int,
    datatype: *const Handle,
    closure: *const Closure<Reduce>,
) {
    // SAFETY: MPI passes the arguments of a reduction function, and the runtime adds the closure;
    // the subroutine takes the datatype's number.
    unsafe {
        let mut number = PMPI_Type_c2f(*datatype);
        ((*closure).function)(invec, inoutvec, len, &mut number);
    }
}

pub unsafe extern "C" fn op_create(
    function: Reduce,
    commute: *const c_int,
    op: *mut c_int,
    ierr: *mut c_int,
) {
    let mut handle = NO_HANDLE;
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let rc = PMPI_Op_create(
            closure(reduce as *const c_void, function),
            c_int::from(*commute != 0),
            &mut handle,
        );
        if rc == SUCCESS {
            *op = PMPI_Op_c2f(handle);
        }
        put(ierr, rc);
    }
}

/// Subroutine that handles errors: handle and error code.
type ErrorSubroutine = unsafe extern "C" fn(*mut c_int, *mut c_int);
/// C function that handles errors, with a closure as its fifth argument.
///
/// The third and the fourth argument, which the standard declares as variadic, are unspecified.
type ErrorHandler<F> = unsafe extern "C" fn(*const Handle, *mut c_int, u64, u64, *const Closure<F>);

/// Error handler of communicators that calls a subroutine.
///
/// # Safety
/// Must be called with a closure.
unsafe extern "C" fn handle_comm_error(
    comm: *const Handle,
    code: *mut c_int,
    _: u64,
    _: u64,
    closure: *const Closure<ErrorSubroutine>,
) {
    // SAFETY: the runtime passes the arguments of an error handler and the closure; the subroutine
    // takes the communicator's number.
    unsafe { ((*closure).function)(&mut PMPI_Comm_c2f(*comm), code) }
}

/// Error handler of files that calls a subroutine.
///
/// # Safety
/// The requirements of [`handle_comm_error`] apply.
unsafe extern "C" fn handle_file_error(
    file: *const Handle,
    code: *mut c_int,
    _: u64,
    _: u64,
    closure: *const Closure<ErrorSubroutine>,
) {
    // SAFETY: the runtime passes the arguments of an error handler and the closure; the subroutine
    // takes the file's number.
    unsafe { ((*closure).function)(&mut PMPI_File_c2f(*file), code) }
}

/// Error handler of windows that calls a subroutine.
///
/// # Safety
/// The requirements of [`handle_comm_error`] apply.
unsafe extern "C" fn handle_win_error(
    win: *const Handle,
    code: *mut c_int,
    _: u64,
    _: u64,
    closure: *const Closure<ErrorSubroutine>,
) {
    // SAFETY: the runtime passes the arguments of an error handler and the closure; the subroutine
    // takes the window's number.
    unsafe { ((*closure).function)(&mut PMPI_Win_c2f(*win), code) }
}

/// C procedure that creates an error handler.
type Create = unsafe extern "C" fn(*const c_void, *mut Handle) -> c_int;

/// Creates an error handler whose C function is `handler` and whose subroutine is `function`.
///
/// # Safety
/// The program must pass valid arguments, as the standard requires.
unsafe fn create(
    procedure: Create,
    handler: ErrorHandler<ErrorSubroutine>,
    function: ErrorSubroutine,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    let mut handle = NO_HANDLE;
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let rc = procedure(closure(handler as *const c_void, function), &mut handle);
        if rc == SUCCESS {
            *errhandler = PMPI_Errhandler_c2f(handle);
        }
        put(ierr, rc);
    }
}

pub unsafe extern "C" fn comm_create_errhandler(
    function: ErrorSubroutine,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        create(
            PMPI_Comm_create_errhandler,
            handle_comm_error,
            function,
            errhandler,
            ierr,
        )
    }
}

pub unsafe extern "C" fn errhandler_create(
    function: ErrorSubroutine,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        create(
            PMPI_Comm_create_errhandler,
            handle_comm_error,
            function,
            errhandler,
            ierr,
        )
    }
}

pub unsafe extern "C" fn file_create_errhandler(
    function: ErrorSubroutine,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        create(
            PMPI_File_create_errhandler,
            handle_file_error,
            function,
            errhandler,
            ierr,
        )
    }
}

pub unsafe extern "C" fn win_create_errhandler(
    function: ErrorSubroutine,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        create(
            PMPI_Win_create_errhandler,
            handle_win_error,
            function,
            errhandler,
            ierr,
        )
    }
}

/// Subroutines of a generalized request with their extra state.
///
/// The extra state is the address of the program's variable, not its value (as in Open MPI and
/// MPICH).
struct GeneralizedRequest {
    query: unsafe extern "C" fn(*mut isize, *mut Status, *mut c_int),
    free: unsafe extern "C" fn(*mut isize, *mut c_int),
    cancel: unsafe extern "C" fn(*mut isize, *mut c_int, *mut c_int),
    extra_state: *mut isize,
}

/// C callback that calls the query subroutine.
///
/// # Safety
/// MPI must call this function with a [`GeneralizedRequest`] as the extra state.
unsafe extern "C" fn query(state: *mut c_void, status: *mut Status) -> c_int {
    let (state, mut rc) = (state.cast::<GeneralizedRequest>(), SUCCESS);
    // SAFETY: the extra state is a `GeneralizedRequest`.
    unsafe { ((*state).query)((*state).extra_state, status, &mut rc) };
    rc
}

/// C callback that calls the free subroutine.
///
/// # Safety
/// The requirements of [`query`] apply.
unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    let rc = &mut { SUCCESS };
    // SAFETY: the extra state is a `GeneralizedRequest`; MPI makes no further call for the
    // request.
    unsafe {
        let state = Box::from_raw(state.cast::<GeneralizedRequest>());
        (state.free)(state.extra_state, rc);
    }
    *rc
}

/// C callback that calls the cancel subroutine.
///
/// # Safety
/// The requirements of [`query`] apply.
unsafe extern "C" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    let (state, mut rc) = (state.cast::<GeneralizedRequest>(), SUCCESS);
    // SAFETY: the extra state is a `GeneralizedRequest`.
    unsafe { ((*state).cancel)((*state).extra_state, &mut logical(complete != 0), &mut rc) };
    rc
}

pub unsafe extern "C" fn grequest_start(
    query_subroutine: unsafe extern "C" fn(*mut isize, *mut Status, *mut c_int),
    free_subroutine: unsafe extern "C" fn(*mut isize, *mut c_int),
    cancel_subroutine: unsafe extern "C" fn(*mut isize, *mut c_int, *mut c_int),
    extra_state: *mut isize,
    request: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let state = GeneralizedRequest {
            query: query_subroutine,
            free: free_subroutine,
            cancel: cancel_subroutine,
            extra_state,
        };
        let mut handle = NO_HANDLE;
        let rc = PMPI_Grequest_start(
            query,
            free,
            cancel,
            Box::into_raw(Box::new(state)).cast(),
            &mut handle,
        );
        if rc == SUCCESS {
            *request = PMPI_Request_c2f(handle);
        }
        put(ierr, rc);
    }
}
