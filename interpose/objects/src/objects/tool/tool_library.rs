//! Tool interface of the library: variables, and handles of variables.
#![allow(unsafe_code)]

use super::tool_handles::{ToolHandleKind, handle, index, set_entry};
use super::tool_variables::{Cvar, Pvar};
use crate::Runtime;
use crate::abi;
use crate::errors::{SUCCESS, check};
use crate::generated::real;
use crate::handles::{
    VirtComm, VirtDatatype, VirtInfo, VirtOp, predefined_handle, real_comm, real_datatype,
    real_info, real_op,
};
use crate::objects::objects;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use understudy_mpi::call::NeverAbandoned;
use understudy_mpi::real_types::RealDatatype;

pub const NOT_INITIALIZED: c_int = 55;
pub const INVALID_HANDLE: c_int = 59;
pub const INVALID_SESSION: c_int = 62;
pub const NO_STARTSTOP: c_int = 65;
pub const NO_WRITE: c_int = 66;
const INVALID: c_int = 72;
pub const ALL: *mut c_void = usize::MAX as *mut c_void;

/// Size of the buffer for names, which truncates longer names.
const NAME_CAPACITY: usize = 512;

/// Returns the real handle, or null if it does not exist.
pub fn real_of(rt: &Runtime, kind: ToolHandleKind, program_handle: *mut c_void) -> *mut c_void {
    let tools = rt.objects.tools.borrow();
    let list = match kind {
        ToolHandleKind::Cvar => &tools.cvars,
        ToolHandleKind::Session => &tools.sessions,
        ToolHandleKind::Pvar => &tools.pvars,
        ToolHandleKind::CvarEnum | ToolHandleKind::PvarEnum => return null_mut(),
    };
    let real = index(kind, program_handle).and_then(|index| list.get(index as usize).copied());
    real.unwrap_or(null_mut())
}

/// Sets the real handle of a handle of the program.
pub fn set_real(rt: &Runtime, kind: ToolHandleKind, index: u32, real: *mut c_void) {
    let tools = &mut *rt.objects.tools.borrow_mut();
    match kind {
        ToolHandleKind::Cvar => set_entry(&mut tools.cvars, index, real),
        ToolHandleKind::Session => set_entry(&mut tools.sessions, index, real),
        ToolHandleKind::Pvar => set_entry(&mut tools.pvars, index, real),
        ToolHandleKind::CvarEnum | ToolHandleKind::PvarEnum => {}
    }
}

/// Initialises the library's interface, once in each MPI instance.
///
/// The interface is never finalised. `is_before` is true before `MPI_Init`: all resets of the
/// library then leave the interface initialised.
pub fn open(rt: &Runtime, required: c_int, provided: &mut c_int, is_before: bool) -> c_int {
    let _never_abandoned = NeverAbandoned::new();
    // SAFETY: an integer, and a variable for the result.
    let rc = unsafe { real::PMPI_T_init_thread(required, provided) };
    let mut tools = rt.objects.tools.borrow_mut();
    tools.is_open |= rc == SUCCESS;
    tools.was_open |= rc == SUCCESS && is_before;
    rc
}

/// True if the program may use the interface.
pub fn is_open(rt: &Runtime) -> bool {
    objects(rt).tool.users > 0
}

/// Discards the handles of a library that has been reset.
pub fn discard_reals(rt: &Runtime) {
    let tools = &mut *rt.objects.tools.borrow_mut();
    for list in [&mut tools.cvars, &mut tools.sessions, &mut tools.pvars] {
        list.clear();
    }
    tools.is_open = tools.was_open;
}

/// Real object that a variable is bound to.
pub struct BoundObject(*mut c_void);

impl BoundObject {
    /// Returns the real object of the program's handle, if this kind of binding is supported.
    ///
    /// With other ABIs than Open MPI's, no object is bound.
    pub fn new(rt: &Runtime, bind: c_int, object: u64) -> Option<BoundObject> {
        let object = object as *mut c_void;
        Some(BoundObject(match bind {
            _ if abi::is_foreign_abi() => null_mut(),
            0 => null_mut(),
            1 => real_comm(rt, VirtComm(object)).0,
            2 => real_datatype(rt, VirtDatatype(object)).0,
            6 => real_op(rt, VirtOp(object)).0,
            10 => real_info(rt, VirtInfo(object)).0,
            _ => return None,
        }))
    }

    /// Returns the argument for the library: a pointer to the handle, or null.
    pub fn pointer(&mut self) -> *mut c_void {
        if self.0.is_null() {
            null_mut()
        } else {
            (&raw mut self.0).cast()
        }
    }
}

/// Description of a variable by the library.
pub struct VariableInfo {
    pub name: Vec<u8>,
    /// Class of a performance variable.
    pub class: c_int,
    /// Kind of object that the variable is bound to.
    pub bind: c_int,
    /// Datatype of the variable's values.
    pub datatype: RealDatatype,
    /// Library's enumeration of the values, or null.
    pub enumtype: *mut c_void,
}

/// Returns the library's description of a variable.
///
/// `get_info` calls the library with a buffer for the name, and with variables for the other
/// results; the array is for results that are not used.
fn describe(
    rt: &Runtime,
    get_info: impl FnOnce(*mut c_char, &mut c_int, &mut VariableInfo, &mut [c_int; 5]) -> c_int,
) -> Result<VariableInfo, c_int> {
    let (mut name, mut length) = ([0 as c_char; NAME_CAPACITY], NAME_CAPACITY as c_int);
    let null = VirtDatatype(predefined_handle(rt, "ompi_mpi_datatype_null"));
    let mut variable = VariableInfo {
        name: Vec::new(),
        class: 0,
        bind: 0,
        datatype: real_datatype(rt, null),
        enumtype: null_mut(),
    };
    let _never_abandoned = NeverAbandoned::new();
    check(get_info(
        name.as_mut_ptr(),
        &mut length,
        &mut variable,
        &mut [0; 5],
    ))?;
    // SAFETY: the library has written a C string to this array.
    variable.name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_bytes().to_vec();
    Ok(variable)
}

/// Returns the description of the control variable with this index.
pub fn describe_cvar(rt: &Runtime, index: c_int) -> Result<VariableInfo, c_int> {
    // SAFETY: there is a variable for each result.
    describe(
        rt,
        |name, length, variable, [verbosity, desc, scope, ..]| unsafe {
            let (datatype, enumtype, bind) = (
                &mut variable.datatype,
                &mut variable.enumtype,
                &mut variable.bind,
            );
            real::PMPI_T_cvar_get_info(
                index,
                name,
                length,
                verbosity,
                datatype,
                enumtype,
                null_mut(),
                desc,
                bind,
                scope,
            )
        },
    )
}

/// Returns the description of the performance variable with this index.
pub fn describe_pvar(rt: &Runtime, index: c_int) -> Result<VariableInfo, c_int> {
    // SAFETY: there is a variable for each result.
    describe(
        rt,
        |name, length, variable, [verbosity, desc, readonly, continuous, atomic]| unsafe {
            let (class, bind) = (&mut variable.class, &mut variable.bind);
            let (datatype, enumtype) = (&mut variable.datatype, &mut variable.enumtype);
            real::PMPI_T_pvar_get_info(
                index,
                name,
                length,
                verbosity,
                class,
                datatype,
                enumtype,
                null_mut(),
                desc,
                bind,
                readonly,
                continuous,
                atomic,
            )
        },
    )
}

/// Returns the description of the control variable with this name.
pub fn find_cvar(rt: &Runtime, name: &[u8]) -> Result<VariableInfo, c_int> {
    describe_cvar(rt, index_of(name)?)
}

fn index_of(name: &[u8]) -> Result<c_int, c_int> {
    let (name, mut index) = (c_name(name), 0);
    let _never_abandoned = NeverAbandoned::new();
    // SAFETY: a C string, and a variable for the index.
    check(unsafe { real::PMPI_T_cvar_get_index(name.as_ptr(), &mut index) })?;
    Ok(index)
}

fn c_name(name: &[u8]) -> Vec<c_char> {
    name.iter()
        .chain(&[0])
        .map(|&byte| byte as c_char)
        .collect()
}

/// Creates a real handle of a control variable.
///
/// Returns the handle with the number of its elements.
pub fn make_cvar(rt: &Runtime, cvar: &Cvar) -> Result<(*mut c_void, c_int), c_int> {
    let index = index_of(&cvar.name)?;
    let mut object =
        BoundObject::new(rt, describe_cvar(rt, index)?.bind, cvar.object).ok_or(INVALID)?;
    let (mut handle, mut count) = (null_mut(), 0);
    let _never_abandoned = NeverAbandoned::new();
    // SAFETY: a variable of the library.
    check(unsafe {
        real::PMPI_T_cvar_handle_alloc(index, object.pointer(), &mut handle, &mut count)
    })?;
    Ok((handle, count))
}

/// Creates a real handle of a performance variable, which is not started.
///
/// Returns the handle with the number of its elements.
pub fn make_pvar(rt: &Runtime, pvar: &Pvar) -> Result<(*mut c_void, c_int), c_int> {
    let (name, mut index) = (c_name(&pvar.name), 0);
    let _never_abandoned = NeverAbandoned::new();
    // SAFETY: a C string, and a variable for the index.
    check(unsafe { real::PMPI_T_pvar_get_index(name.as_ptr(), pvar.class, &mut index) })?;
    let mut object =
        BoundObject::new(rt, describe_pvar(rt, index)?.bind, pvar.object).ok_or(INVALID)?;
    let session = real_of(
        rt,
        ToolHandleKind::Session,
        handle(ToolHandleKind::Session, pvar.session),
    );
    let (mut new, mut count) = (null_mut(), 0);
    // SAFETY: a session and a variable of the library.
    check(unsafe {
        real::PMPI_T_pvar_handle_alloc(session, index, object.pointer(), &mut new, &mut count)
    })?;
    Ok((new, count))
}

pub fn make_session() -> Result<*mut c_void, c_int> {
    let mut session = null_mut();
    let _never_abandoned = NeverAbandoned::new();
    // SAFETY: a variable for the handle.
    check(unsafe { real::PMPI_T_pvar_session_create(&mut session) })?;
    Ok(session)
}
