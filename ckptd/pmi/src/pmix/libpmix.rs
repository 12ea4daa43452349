//! libpmix of an MPI installation: its file and its functions.
#![allow(unsafe_code)]

use super::abi::{DmodexDone, Info, Module, OpDone, Proc, Status, Version};
use crate::Error;
use crate::linked_libraries::linked_libraries;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Soname of libpmix since PMIx 2.
const SONAME: &str = "libpmix.so.2";

/// Prevents unloading (dlopen(3), RTLD_NODELETE), because libpmix has threads of its own.
const NO_UNLOAD: c_int = libc::RTLD_NODELETE;

/// Returns the libpmix that a libmpi loads.
///
/// The result is the bare name if a component of Open MPI loads libpmix later (4.x).
///
/// # Errors
/// [`Error::Unlisted`].
pub fn libpmix_of(libmpi: &Path) -> Result<PathBuf, Error> {
    let libraries = linked_libraries(libmpi)?;
    let found = libraries.into_iter().find(|library| library.name == SONAME);
    Ok(found
        .and_then(|library| library.path)
        .unwrap_or_else(|| SONAME.into()))
}

pub struct Functions {
    pub init: unsafe extern "C" fn(*mut Module, *mut Info, usize) -> Status,
    pub finalize: unsafe extern "C" fn() -> Status,
    pub register_namespace: unsafe extern "C" fn(
        *const c_char,
        c_int,
        *mut Info,
        usize,
        Option<OpDone>,
        *mut c_void,
    ) -> Status,
    pub deregister_namespace: unsafe extern "C" fn(*const c_char, Option<OpDone>, *mut c_void),
    pub register_client: unsafe extern "C" fn(
        *const Proc,
        libc::uid_t,
        libc::gid_t,
        *mut c_void,
        Option<OpDone>,
        *mut c_void,
    ) -> Status,
    pub deregister_client: unsafe extern "C" fn(*const Proc, Option<OpDone>, *mut c_void),
    pub setup_fork: unsafe extern "C" fn(*const Proc, *mut *mut *mut c_char) -> Status,
    pub dmodex_request:
        unsafe extern "C" fn(*const Proc, Option<DmodexDone>, *mut c_void) -> Status,
}

/// Converts the status of a call into a result.
///
/// # Errors
/// [`Error::Pmix`].
pub fn checked(call: &'static str, status: Status) -> Result<(), Error> {
    match status.is_good() {
        true => Ok(()),
        false => Err(Error::Pmix { call, status }),
    }
}

/// Opens a libpmix and checks its version.
///
/// # Errors
/// [`Error::Load`], [`Error::Version`].
pub fn open(path: &Path) -> Result<Library, Error> {
    // SAFETY: the constructors of libpmix and of its dependencies (libevent, hwloc) have no effect
    // on other code of this process.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL | NO_UNLOAD)? };
    // SAFETY: the function has this declaration in all versions, and returns a static string.
    let version = unsafe {
        let version: unsafe extern "C" fn() -> *const c_char =
            *library.get(b"PMIx_Get_version\0")?;
        CStr::from_ptr(version()).to_string_lossy()
    };
    match Version::of(&version).is_some_and(Version::is_supported) {
        true => Ok(library),
        false => Err(Error::Version {
            path: path.to_owned(),
            version: version.into_owned(),
        }),
    }
}

impl Functions {
    /// Opens a libpmix and returns the functions of a server.
    ///
    /// # Errors
    /// [`Error::Load`], [`Error::Version`].
    pub fn open(path: &Path) -> Result<Functions, Error> {
        let library = open(path)?;
        // SAFETY: all declarations are those of pmix_server.h in the supported versions, and the
        // library is never unloaded.
        unsafe {
            Ok(Functions {
                init: *library.get(b"PMIx_server_init\0")?,
                finalize: *library.get(b"PMIx_server_finalize\0")?,
                register_namespace: *library.get(b"PMIx_server_register_nspace\0")?,
                deregister_namespace: *library.get(b"PMIx_server_deregister_nspace\0")?,
                register_client: *library.get(b"PMIx_server_register_client\0")?,
                deregister_client: *library.get(b"PMIx_server_deregister_client\0")?,
                setup_fork: *library.get(b"PMIx_server_setup_fork\0")?,
                dmodex_request: *library.get(b"PMIx_server_dmodex_request\0")?,
            })
        }
    }
}
