//! Procedures of MPI 4.0 and later, and of MPICH (`MPIX_…`), that are not generated.
//!
//! Each procedure is implemented with procedures of the call table.
#![allow(unsafe_code, clippy::missing_safety_doc)]

use super::additions::{self as constant, BYTE, HANDLE, STATUS_ERROR, STATUS_SOURCE, STATUS_TAG};
use super::large::thunk;
use core::ffi::{c_char, c_int};

const UNDEFINED: i64 = -32766;
const SUCCESS: c_int = 0;

type QueryLarge = unsafe extern "C" fn(usize, *mut i64) -> c_int;

pub unsafe extern "C" fn get_count_c(status: usize, datatype: usize, count: *mut i64) -> c_int {
    type Count = unsafe extern "C" fn(usize, usize, *mut c_int) -> c_int;
    type Elements = unsafe extern "C" fn(usize, usize, *mut i64) -> c_int;
    let mut int_count = 0;
    // SAFETY: the program passes these arguments, for whose validity MPI makes it responsible; the
    // thunks of the procedures have these types.
    unsafe {
        let rc = thunk!(PMPI_Get_count: Count)(status, datatype, &mut int_count);
        if rc != SUCCESS {
            return rc;
        }
        let mut result = i64::from(int_count);
        if result == UNDEFINED {
            // The bytes are not a whole number of elements, or the number exceeds an int.
            let (mut bytes, mut size) = (0, 0);
            let codes = [
                thunk!(PMPI_Get_elements_x: Elements)(status, BYTE, &mut bytes),
                thunk!(PMPI_Type_size_x: QueryLarge)(datatype, &mut size),
            ];
            if codes == [SUCCESS; 2] && size > 0 && bytes % size == 0 {
                result = bytes / size;
            }
        }
        count.write(result);
    }
    SUCCESS
}

/// `MPI_Comm_toint` and similar conversions: returns the handle, which is an integer.
#[cfg(not(feature = "standard"))]
pub extern "C" fn itself(handle: c_int) -> c_int {
    handle
}

/// Pairs for `MPI_MAXLOC` and `MPI_MINLOC` (MPI 4.1, 6.9.4): value and pair.
///
/// All indices are `MPI_INT`.
const PAIRS: [(usize, usize); 6] = [
    (constant::FLOAT, constant::FLOAT_INT),
    (constant::DOUBLE, constant::DOUBLE_INT),
    (constant::LONG, constant::LONG_INT),
    (constant::INT, constant::_2INT),
    (constant::SHORT, constant::SHORT_INT),
    (constant::LONG_DOUBLE, constant::LONG_DOUBLE_INT),
];

/// `MPI_Type_get_value_index` (MPI 4.1, 6.9.4): returns the predefined pair of two datatypes.
pub unsafe extern "C" fn type_get_value_index(value: usize, index: usize, pair: *mut u8) -> c_int {
    for datatype in [value, index] {
        let mut bytes = 0;
        // SAFETY: the thunk has this type, and its procedure checks the handle.
        let rc = unsafe { thunk!(PMPI_Type_size_x: QueryLarge)(datatype, &mut bytes) };
        if rc != SUCCESS {
            return rc;
        }
    }
    // The upper half of an int argument is undefined.
    let [value, index] = [value, index].map(|handle| handle & (usize::MAX >> (64 - 8 * HANDLE)));
    let predefined = PAIRS
        .iter()
        .find(|(pair_value, _)| *pair_value == value && index == constant::INT);
    let result = predefined.map_or(constant::DATATYPE_NULL, |(_, pair)| *pair);
    // SAFETY: MPI makes the program responsible for the pointer, which refers to a handle.
    unsafe { core::ptr::copy_nonoverlapping((&raw const result).cast(), pair, HANDLE) };
    SUCCESS
}

/// `MPI_Get_hw_resource_info` (MPI 4.1, 11.1.2): returns an empty info object.
///
/// No hardware information is reported, because a process on another node may replace the worker.
pub unsafe extern "C" fn get_hw_resource_info(info: usize) -> c_int {
    type Create = unsafe extern "C" fn(usize) -> c_int;
    // SAFETY: MPI makes the program responsible for the pointer; the thunk has this type.
    unsafe { thunk!(PMPI_Info_create: Create)(info) }
}

/// `MPI_Abi_get_version` (MPI 5.0, 20.2.1): version and subversion of the standard ABI.
///
/// Both numbers are -1 for other ABIs.
pub unsafe extern "C" fn abi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    let [major, minor] = match cfg!(feature = "standard") {
        true => [1, 0],
        false => [-1; 2],
    };
    // SAFETY: MPI makes the program responsible for the pointers.
    unsafe {
        version.write(major);
        subversion.write(minor);
    }
    SUCCESS
}

/// `MPI_Abi_get_info` (MPI 5.0, 20.2.2): sizes of the integers in bytes.
pub unsafe extern "C" fn abi_get_info(info: *mut u8) -> c_int {
    type Create = unsafe extern "C" fn(*mut u8) -> c_int;
    type Set = unsafe extern "C" fn(usize, *const c_char, *const c_char) -> c_int;
    const KEYS: [&core::ffi::CStr; 3] = [c"mpi_aint_size", c"mpi_count_size", c"mpi_offset_size"];
    let mut new = 0usize;
    // SAFETY: MPI makes the program responsible for the pointer; the thunks have these types.
    unsafe {
        let rc = thunk!(PMPI_Info_create: Create)(info);
        if rc != SUCCESS {
            return rc;
        }
        core::ptr::copy_nonoverlapping(info, (&raw mut new).cast(), HANDLE);
        let codes = KEYS.map(|key| thunk!(PMPI_Info_set: Set)(new, key.as_ptr(), c"8".as_ptr()));
        codes
            .into_iter()
            .find(|&rc| rc != SUCCESS)
            .unwrap_or(SUCCESS)
    }
}

/// Returns `result` if the tool interface is initialized, else the interface's error.
///
/// The procedures on events (MPI 4.0, 15.3.8) use this function, because the interface offers no
/// events.
fn without_events_result(result: c_int) -> c_int {
    let mut variables = 0;
    // SAFETY: the address of a local variable, and the thunk of a procedure that fails if the
    // interface is closed.
    let rc = unsafe {
        thunk!(PMPI_T_cvar_get_num: unsafe extern "C" fn(*mut c_int) -> c_int)(&mut variables)
    };
    if rc == SUCCESS { result } else { rc }
}

pub unsafe extern "C" fn t_event_get_num(number: *mut c_int) -> c_int {
    let rc = without_events_result(SUCCESS);
    if rc == SUCCESS {
        // SAFETY: MPI makes the program responsible for the pointer.
        unsafe { number.write(0) };
    }
    rc
}
pub use t_event_get_num as t_source_get_num;

pub unsafe extern "C" fn t_category_get_events(
    category: c_int,
    _max_indices: c_int,
    _indices: *mut c_int,
) -> c_int {
    type QueryCategory = unsafe extern "C" fn(c_int, c_int, *mut c_int) -> c_int;
    // SAFETY: the thunk has this type. Its procedure checks the category, and writes no entries.
    unsafe { thunk!(PMPI_T_category_get_pvars: QueryCategory)(category, 0, core::ptr::null_mut()) }
}

pub unsafe extern "C" fn t_category_get_num_events(category: c_int, number: *mut c_int) -> c_int {
    // SAFETY: MPI makes the program responsible for the pointer.
    unsafe {
        let rc = t_category_get_events(category, 0, core::ptr::null_mut());
        if rc == SUCCESS {
            number.write(0);
        }
        rc
    }
}

/// Defines procedures on events, sources, registrations or instances, none of which exist.
macro_rules! without_events {
    ($($result:ident: $($name:ident)*;)*) => { $($(
        pub unsafe extern "C" fn $name() -> c_int {
            without_events_result(constant::$result)
        }
    )*)* };
}

without_events! {
    T_ERR_INVALID_INDEX:
        t_event_get_info t_event_handle_alloc t_source_get_info t_source_get_timestamp;
    T_ERR_INVALID_NAME: t_event_get_index;
    T_ERR_INVALID_HANDLE:
        t_event_handle_free t_event_handle_get_info t_event_handle_set_info
        t_event_register_callback
        t_event_callback_get_info t_event_callback_set_info t_event_set_dropped_handler
        t_event_copy t_event_read t_event_get_source t_event_get_timestamp;
}

/// `MPIX_GPU_query_support`: protected programs do not pass accelerator memory to the library.
pub unsafe extern "C" fn mpix_gpu_query_support(_kind: c_int, is_supported: *mut c_int) -> c_int {
    // SAFETY: MPICH makes the program responsible for the pointer.
    unsafe { is_supported.write(0) };
    SUCCESS
}

pub extern "C" fn mpix_query_hip_support() -> c_int {
    0
}
pub use mpix_query_hip_support as mpix_query_ze_support;

/// `MPIX_Request_is_complete`: returns 1 if the request is complete, and does not free it.
pub unsafe extern "C" fn mpix_request_is_complete(request: usize) -> c_int {
    type GetStatus = unsafe extern "C" fn(usize, *mut c_int, usize) -> c_int;
    let mut is_complete = 0;
    // SAFETY: the thunk has this type, and its procedure checks the request. The flag is a local
    // variable, and the constant means that no status is written.
    let rc = unsafe {
        thunk!(PMPI_Request_get_status: GetStatus)(
            request,
            &mut is_complete,
            constant::STATUS_IGNORE,
        )
    };
    c_int::from(rc == SUCCESS && is_complete != 0)
}

/// `MPIX_Info_set_hex`: sets a value to these bytes in hexadecimal digits.
pub unsafe extern "C" fn mpix_info_set_hex(
    info: usize,
    key: *const c_char,
    value: *const u8,
    bytes: c_int,
) -> c_int {
    type Set = unsafe extern "C" fn(usize, *const c_char, *const u8) -> c_int;
    /// MPI_MAX_INFO_VAL, including the zero at the end.
    const MAX_INFO_VAL: usize = 1024;
    let mut text = [0u8; MAX_INFO_VAL + 1];
    let bytes = usize::try_from(bytes).unwrap_or(0).min(MAX_INFO_VAL / 2);
    for (digits, index) in text.chunks_exact_mut(2).zip(0..bytes) {
        // SAFETY: MPICH makes the program responsible for a buffer with this number of bytes.
        let byte = usize::from(unsafe { value.add(index).read() });
        digits.copy_from_slice(&[byte >> 4, byte & 15].map(|digit| b"0123456789ABCDEF"[digit]));
    }
    // SAFETY: MPICH makes the program responsible for the key; the value is terminated, and the
    // thunk has this type.
    unsafe { thunk!(PMPI_Info_set: Set)(info, key, text.as_ptr()) }
}

/// Defines procedures that read and write members of a status.
macro_rules! members {
    ($($get:ident $set:ident $offset:expr;)*) => { $(
        pub unsafe extern "C" fn $get(status: *const u8, value: *mut c_int) -> c_int {
            // SAFETY: MPI makes the program responsible for the status and the pointer.
            unsafe { value.write(status.add($offset).cast::<c_int>().read()) };
            SUCCESS
        }

        pub unsafe extern "C" fn $set(status: *mut u8, value: c_int) -> c_int {
            // SAFETY: MPI makes the program responsible for the status.
            unsafe { status.add($offset).cast::<c_int>().write(value) };
            SUCCESS
        }
    )* };
}

members! {
    status_get_source status_set_source STATUS_SOURCE;
    status_get_tag status_set_tag STATUS_TAG;
    status_get_error status_set_error STATUS_ERROR;
}
