//! Operators, error handlers and generalized requests (MPI 4.1, 6.9.5, 9.3 and 13.2).
//!
//! The callbacks are subroutines of the program, which take objects as numbers.
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

/// A subroutine of the program and the code that calls it.
#[repr(C)]
struct Closure<F> {
    code: *const c_void,
    function: F,
}

/// Returns the address of a closure, with the mark of closures.
///
/// The runtime takes the address for a function's. The closure is never freed.
fn closure<F>(code: *const c_void, function: F) -> *const c_void {
    let block = Box::into_raw(Box::new(Closure { code, function }));
    block.cast::<c_void>().map_addr(|address| address | CLOSURE)
}

type Reduce = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);

/// # Safety
/// Must be called with a closure.
unsafe extern "C" fn reduce(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut c_int,
    datatype: *const Handle,
    closure: *const Closure<Reduce>,
) {
    // SAFETY: the arguments are those of a reduction function; the subroutine takes the datatype's
    // number.
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
    let mut made = NO_HANDLE;
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let rc = PMPI_Op_create(
            closure(reduce as *const c_void, function),
            c_int::from(*commute != 0),
            &mut made,
        );
        if rc == SUCCESS {
            *op = PMPI_Op_c2f(made);
        }
        put(ierr, rc);
    }
}

type OnError = unsafe extern "C" fn(*mut c_int, *mut c_int);
/// The arguments between the code and the closure are unspecified.
type ErrorCode<N> = unsafe extern "C" fn(*const Handle, *mut c_int, u64, u64, *const Closure<N>);

/// # Safety
/// Must be called with a closure.
unsafe extern "C" fn on_comm(
    comm: *const Handle,
    code: *mut c_int,
    _: u64,
    _: u64,
    closure: *const Closure<OnError>,
) {
    // SAFETY: the arguments are those of an error handler; the subroutine takes the communicator's
    // number.
    unsafe { ((*closure).function)(&mut PMPI_Comm_c2f(*comm), code) }
}

/// # Safety
/// As [`on_comm`].
unsafe extern "C" fn on_file(
    file: *const Handle,
    code: *mut c_int,
    _: u64,
    _: u64,
    closure: *const Closure<OnError>,
) {
    // SAFETY: the arguments are those of an error handler; the subroutine takes the file's number.
    unsafe { ((*closure).function)(&mut PMPI_File_c2f(*file), code) }
}

/// # Safety
/// As [`on_comm`].
unsafe extern "C" fn on_win(
    win: *const Handle,
    code: *mut c_int,
    _: u64,
    _: u64,
    closure: *const Closure<OnError>,
) {
    // SAFETY: the arguments are those of an error handler; the subroutine takes the window's
    // number.
    unsafe { ((*closure).function)(&mut PMPI_Win_c2f(*win), code) }
}

type Create = unsafe extern "C" fn(*const c_void, *mut Handle) -> c_int;

/// # Safety
/// The program must pass valid arguments, as the standard requires.
unsafe fn create(
    procedure: Create,
    code: ErrorCode<OnError>,
    function: OnError,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    let mut made = NO_HANDLE;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let rc = procedure(closure(code as *const c_void, function), &mut made);
        if rc == SUCCESS {
            *errhandler = PMPI_Errhandler_c2f(made);
        }
        put(ierr, rc);
    }
}

pub unsafe extern "C" fn comm_create_errhandler(
    function: OnError,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        create(
            PMPI_Comm_create_errhandler,
            on_comm,
            function,
            errhandler,
            ierr,
        )
    }
}

pub unsafe extern "C" fn errhandler_create(
    function: OnError,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        create(
            PMPI_Comm_create_errhandler,
            on_comm,
            function,
            errhandler,
            ierr,
        )
    }
}

pub unsafe extern "C" fn file_create_errhandler(
    function: OnError,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        create(
            PMPI_File_create_errhandler,
            on_file,
            function,
            errhandler,
            ierr,
        )
    }
}

pub unsafe extern "C" fn win_create_errhandler(
    function: OnError,
    errhandler: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        create(
            PMPI_Win_create_errhandler,
            on_win,
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

/// # Safety
/// MPI must call this function and the next two with a [`GeneralizedRequest`] as the extra state.
unsafe extern "C" fn query(general: *mut c_void, status: *mut Status) -> c_int {
    let (general, mut rc) = (general.cast::<GeneralizedRequest>(), SUCCESS);
    // SAFETY: guaranteed by the caller.
    unsafe { ((*general).query)((*general).extra_state, status, &mut rc) };
    rc
}

unsafe extern "C" fn free(general: *mut c_void) -> c_int {
    let rc = &mut { SUCCESS };
    // SAFETY: guaranteed by the caller; MPI makes no further call for the request.
    unsafe {
        let general = Box::from_raw(general.cast::<GeneralizedRequest>());
        (general.free)(general.extra_state, rc);
    }
    *rc
}

unsafe extern "C" fn cancel(general: *mut c_void, complete: c_int) -> c_int {
    let (general, mut rc) = (general.cast::<GeneralizedRequest>(), SUCCESS);
    // SAFETY: guaranteed by the caller.
    unsafe { ((*general).cancel)((*general).extra_state, &mut logical(complete != 0), &mut rc) };
    rc
}

pub unsafe extern "C" fn grequest_start(
    queries: unsafe extern "C" fn(*mut isize, *mut Status, *mut c_int),
    frees: unsafe extern "C" fn(*mut isize, *mut c_int),
    cancels: unsafe extern "C" fn(*mut isize, *mut c_int, *mut c_int),
    extra_state: *mut isize,
    request: *mut c_int,
    ierr: *mut c_int,
) {
    // SAFETY: the program passes valid arguments, as the standard requires.
    unsafe {
        let general = GeneralizedRequest {
            query: queries,
            free: frees,
            cancel: cancels,
            extra_state,
        };
        let mut made = NO_HANDLE;
        let rc = PMPI_Grequest_start(
            query,
            free,
            cancel,
            Box::into_raw(Box::new(general)).cast(),
            &mut made,
        );
        if rc == SUCCESS {
            *request = PMPI_Request_c2f(made);
        }
        put(ierr, rc);
    }
}
