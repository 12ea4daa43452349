//! Tool interface (MPI 4.1, section 15.3).
//!
//! Errors are only returned, and not passed to any error handler.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use crate::Runtime;
use crate::calls::runtime;
use crate::errors::{SUCCESS, check};
use crate::generated::real;
use crate::handles::{VirtDatatype, predefined_handle, predefined_of, real_datatype};
use crate::objects::tool::{
    self, Cvar, INVALID_HANDLE, INVALID_SESSION, NOT_INITIALIZED, ToolHandleKind,
};
use crate::objects::{objects, objects_mut};
use crate::world;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use understudy_catalogue::message;
use understudy_mpi::call::NeverAbandoned;
use understudy_mpi::real_types::RealDatatype;

/// Converts a result to the return code of a procedure of the tool interface.
pub(super) fn returned(outcome: Result<(), c_int>) -> c_int {
    outcome.err().unwrap_or(SUCCESS)
}

pub(super) fn must_be_open(rt: &Runtime) -> Result<(), c_int> {
    if tool::is_open(rt) {
        Ok(())
    } else {
        Err(NOT_INITIALIZED)
    }
}

/// Implements procedures that only query the library's variables and categories.
///
/// The handlers are generated; an example is `MPI_T_cvar_get_num`. `call` is the real procedure.
pub(super) fn query(rt: &Runtime, call: impl FnOnce() -> c_int) -> c_int {
    if !tool::is_open(rt) {
        return NOT_INITIALIZED;
    }
    let _never_abandoned = NeverAbandoned::new();
    call()
}

pub unsafe extern "C" fn MPI_T_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    let rt = runtime();
    let mut level = 0;
    let rc = tool::open(rt, required, &mut level, !world::is_initialised());
    if rc == SUCCESS {
        objects_mut(rt).tool.users += 1;
        // SAFETY: MPI requires the program's argument to be valid.
        unsafe { provided.write(level) };
    }
    rc
}

/// Counts down the program's initialisations of the interface.
///
/// The library's interface stays initialised: the runtime never finalises it.
pub unsafe extern "C" fn MPI_T_finalize() -> c_int {
    let rt = runtime();
    let users = &mut objects_mut(rt).tool.users;
    match users.checked_sub(1) {
        Some(left) => *users = left,
        None => return NOT_INITIALIZED,
    }
    SUCCESS
}

/// Datatype and enumeration of a variable, which are translated for the program.
struct TranslatedTypes {
    datatype: RealDatatype,
    enumtype: *mut c_void,
}

impl TranslatedTypes {
    /// Queries a variable from the library, and translates its types for the program.
    ///
    /// # Safety
    /// `datatype` and `enumtype` are the program's addresses, or null.
    unsafe fn query_variable(
        rt: &Runtime,
        (datatype, enumtype): (*mut VirtDatatype, *mut *mut c_void),
        (kind, index): (ToolHandleKind, c_int),
        get_info: impl FnOnce(&mut RealDatatype, &mut *mut c_void) -> c_int,
    ) -> c_int {
        if !tool::is_open(rt) {
            return NOT_INITIALIZED;
        }
        let null = || predefined_handle(rt, "ompi_mpi_datatype_null");
        let mut types = TranslatedTypes {
            datatype: real_datatype(rt, VirtDatatype(null())),
            enumtype: null_mut(),
        };
        let rc = {
            let _never_abandoned = NeverAbandoned::new();
            get_info(&mut types.datatype, &mut types.enumtype)
        };
        if rc != SUCCESS {
            return rc;
        }
        // SAFETY: null is excluded; MPI requires other addresses to be valid.
        unsafe {
            if !datatype.is_null() {
                datatype.write(VirtDatatype(
                    predefined_of(rt, types.datatype.0).unwrap_or_else(null),
                ));
            }
            if !enumtype.is_null() {
                let is_none = types.enumtype.is_null();
                enumtype.write(if is_none {
                    null_mut()
                } else {
                    tool::handle(kind, index as u32)
                });
            }
        }
        SUCCESS
    }
}

pub unsafe extern "C" fn MPI_T_cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut VirtDatatype,
    enumtype: *mut *mut c_void,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        TranslatedTypes::query_variable(
            rt,
            (datatype, enumtype),
            (ToolHandleKind::CvarEnum, cvar_index),
            |real_type, real_enum| {
                real::PMPI_T_cvar_get_info(
                    cvar_index, name, name_len, verbosity, real_type, real_enum, desc, desc_len,
                    bind, scope,
                )
            },
        )
    }
}

pub unsafe extern "C" fn MPI_T_pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    var_class: *mut c_int,
    datatype: *mut VirtDatatype,
    enumtype: *mut *mut c_void,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        TranslatedTypes::query_variable(
            rt,
            (datatype, enumtype),
            (ToolHandleKind::PvarEnum, pvar_index),
            |real_type, real_enum| {
                real::PMPI_T_pvar_get_info(
                    pvar_index, name, name_len, verbosity, var_class, real_type, real_enum, desc,
                    desc_len, bind, readonly, continuous, atomic,
                )
            },
        )
    }
}

/// Returns the library's enumeration for the program's handle.
fn real_enum(rt: &Runtime, program_handle: *mut c_void) -> Result<*mut c_void, c_int> {
    must_be_open(rt)?;
    let enumtype = if let Some(index) = tool::index(ToolHandleKind::CvarEnum, program_handle) {
        tool::describe_cvar(rt, index as c_int)?.enumtype
    } else if let Some(index) = tool::index(ToolHandleKind::PvarEnum, program_handle) {
        tool::describe_pvar(rt, index as c_int)?.enumtype
    } else {
        null_mut()
    };
    if enumtype.is_null() {
        Err(INVALID_HANDLE)
    } else {
        Ok(enumtype)
    }
}

pub unsafe extern "C" fn MPI_T_enum_get_info(
    enumtype: *mut c_void,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    let rt = runtime();
    returned(real_enum(rt, enumtype).and_then(|real| {
        let _never_abandoned = NeverAbandoned::new();
        // SAFETY: MPI requires the program's arguments to be valid.
        check(unsafe { real::PMPI_T_enum_get_info(real, num, name, name_len) })
    }))
}

pub unsafe extern "C" fn MPI_T_enum_get_item(
    enumtype: *mut c_void,
    index: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    let rt = runtime();
    returned(real_enum(rt, enumtype).and_then(|real| {
        let _never_abandoned = NeverAbandoned::new();
        // SAFETY: MPI requires the program's arguments to be valid.
        check(unsafe { real::PMPI_T_enum_get_item(real, index, value, name, name_len) })
    }))
}

/// Returns the program's handle of the object to which a variable is bound.
///
/// Zero if the variable is unbound. Also zero in ABIs other than Open MPI's, in which the
/// runtime binds no variable to an object.
///
/// # Safety
/// If the variable is bound, `object` must be the address of the handle.
pub(super) unsafe fn object_at(bind: c_int, object: *const c_void) -> u64 {
    if bind == 0 || object.is_null() || crate::abi::is_foreign_abi() {
        return 0;
    }
    // SAFETY: the variable is bound, so `object` is the address of a handle of 8 bytes.
    unsafe { object.cast::<u64>().read_unaligned() }
}

pub unsafe extern "C" fn MPI_T_cvar_handle_alloc(
    cvar_index: c_int,
    obj_handle: *mut c_void,
    handle: *mut *mut c_void,
    count: *mut c_int,
) -> c_int {
    let rt = runtime();
    let make = || {
        must_be_open(rt)?;
        let variable = tool::describe_cvar(rt, cvar_index)?;
        let mut cvar = Cvar {
            name: variable.name,
            // SAFETY: MPI requires the program's argument to be valid.
            object: unsafe { object_at(variable.bind, obj_handle) },
            count: 0,
        };
        let (real, elements) = tool::make_cvar(rt, &cvar)?;
        cvar.count = elements;
        let index = objects_mut(rt).tool.cvars.insert(cvar);
        tool::set_real(rt, ToolHandleKind::Cvar, index, real);
        // SAFETY: MPI requires the program's arguments to be valid.
        unsafe {
            handle.write(tool::handle(ToolHandleKind::Cvar, index));
            count.write(elements);
        }
        Ok(())
    };
    returned(make())
}

/// Returns the library's handle for a handle of the program.
pub(super) fn real_of(
    rt: &Runtime,
    kind: ToolHandleKind,
    handle: *mut c_void,
) -> Result<*mut c_void, c_int> {
    must_be_open(rt)?;
    let real = tool::real_of(rt, kind, handle);
    match (real.is_null(), kind) {
        (false, _) => Ok(real),
        (true, ToolHandleKind::Session) => Err(INVALID_SESSION),
        (true, _) => Err(INVALID_HANDLE),
    }
}

/// Invalidates the program's handle, and frees the library's handle if it exists.
pub(super) fn free_handle(
    rt: &Runtime,
    kind: ToolHandleKind,
    index: u32,
    program_handle: &mut *mut c_void,
    free: impl FnOnce(&mut *mut c_void) -> c_int,
) -> Result<(), c_int> {
    let mut real = tool::real_of(rt, kind, *program_handle);
    tool::set_real(rt, kind, index, null_mut());
    *program_handle = null_mut();
    if real.is_null() {
        return Ok(());
    }
    let _never_abandoned = NeverAbandoned::new();
    check(free(&mut real))
}

pub unsafe extern "C" fn MPI_T_cvar_handle_free(handle: *mut *mut c_void) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    let program_handle = unsafe { &mut *handle };
    let mut free = || {
        must_be_open(rt)?;
        let index = tool::index(ToolHandleKind::Cvar, *program_handle).ok_or(INVALID_HANDLE)?;
        objects_mut(rt)
            .tool
            .cvars
            .remove(index)
            .ok_or(INVALID_HANDLE)?;
        // SAFETY: a handle of the library, which is freed once.
        free_handle(
            rt,
            ToolHandleKind::Cvar,
            index,
            program_handle,
            |real| unsafe { real::PMPI_T_cvar_handle_free(real) },
        )
    };
    returned(free())
}

pub unsafe extern "C" fn MPI_T_cvar_read(handle: *mut c_void, buf: *mut c_void) -> c_int {
    let rt = runtime();
    returned(real_of(rt, ToolHandleKind::Cvar, handle).and_then(|real| {
        let _never_abandoned = NeverAbandoned::new();
        // SAFETY: a handle of the library; MPI requires the program's buffer to be valid.
        check(unsafe { real::PMPI_T_cvar_read(real, buf) })
    }))
}

/// Returns a copy of a variable's value; `None` if its datatype is not supported.
///
/// A value of type `ompi_mpi_char` is a string that ends with a null byte; its `count` is ignored.
///
/// # Safety
/// `value` must be the address of `count` elements of `datatype`, or of such a string.
unsafe fn value_of(
    rt: &Runtime,
    datatype: *mut c_void,
    count: c_int,
    value: *const c_void,
) -> Option<Vec<u8>> {
    let is_type = |name: &str| predefined_of(rt, datatype) == Some(predefined_handle(rt, name));
    if is_type("ompi_mpi_char") {
        // SAFETY: the caller passes a C string for this datatype.
        return Some(
            unsafe { CStr::from_ptr(value.cast()) }
                .to_bytes_with_nul()
                .to_vec(),
        );
    }
    let element_sizes = [
        ("ompi_mpi_c_bool", 1),
        ("ompi_mpi_int", size_of::<c_int>()),
        ("ompi_mpi_unsigned", size_of::<c_int>()),
        ("ompi_mpi_int32_t", 4),
        ("ompi_mpi_uint32_t", 4),
        ("ompi_mpi_int64_t", 8),
        ("ompi_mpi_uint64_t", 8),
        ("ompi_mpi_long", 8),
        ("ompi_mpi_unsigned_long", 8),
        ("ompi_mpi_unsigned_long_long", 8),
        ("ompi_mpi_count", 8),
        ("ompi_mpi_double", 8),
    ];
    let (_, size) = element_sizes.into_iter().find(|(name, _)| is_type(name))?;
    // SAFETY: the caller passes `count` elements, of `size` bytes each for this datatype.
    Some(unsafe { std::slice::from_raw_parts(value.cast(), size * count.max(0) as usize) }.to_vec())
}

pub unsafe extern "C" fn MPI_T_cvar_write(handle: *mut c_void, buf: *const c_void) -> c_int {
    let rt = runtime();
    let write = || {
        let real = real_of(rt, ToolHandleKind::Cvar, handle)?;
        let index = tool::index(ToolHandleKind::Cvar, handle).ok_or(INVALID_HANDLE)?;
        let cvar = objects(rt)
            .tool
            .cvars
            .get(index)
            .cloned()
            .ok_or(INVALID_HANDLE)?;
        {
            let _never_abandoned = NeverAbandoned::new();
            // SAFETY: a handle of the library; MPI requires the program's buffer to be valid.
            check(unsafe { real::PMPI_T_cvar_write(real, buf) })?;
        }
        let variable = tool::find_cvar(rt, &cvar.name)?;
        // SAFETY: the library has just read a value at this address.
        match unsafe { value_of(rt, variable.datatype.0, cvar.count, buf) } {
            Some(value) => tool::written::record(rt, &cvar, value),
            None => log::warn!(
                "{}",
                message::control_variable_type(String::from_utf8_lossy(&cvar.name))
            ),
        }
        Ok(())
    };
    returned(write())
}
