//! A short-lived client of the launcher's PMIx server.
//!
//! Processes on several nodes exchange an address by such clients. The libpmix is that of the
//! launcher or of its daemon on this node, an ancestor of this process.
#![allow(unsafe_code)]

use super::abi::{Data, Info, Proc, Status, Type, Value};
use super::libpmix::{self, checked};
use super::values::{fixed, key_of};
use crate::Error;
use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr;
use understudy_formats::proc_maps::MappedFiles;
use understudy_formats::proc_stat;

/// Scope of data for processes of any node (PMIX_GLOBAL).
const GLOBAL: u8 = 3;

/// Functions of a PMIx client.
pub struct Functions {
    pub init: unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status,
    pub put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status,
    pub commit: unsafe extern "C" fn() -> Status,
    pub get: unsafe extern "C" fn(
        *const Proc,
        *const c_char,
        *const Info,
        usize,
        *mut *mut Value,
    ) -> Status,
    pub finalize: unsafe extern "C" fn(*const Info, usize) -> Status,
}

/// Returns the functions of this libpmix.
fn functions(path: &Path) -> Result<Functions, Error> {
    let library = libpmix::open(path)?;
    // SAFETY: all declarations are those of pmix.h in the supported versions, and the library is
    // never unloaded.
    unsafe {
        Ok(Functions {
            init: *library.get(b"PMIx_Init\0")?,
            put: *library.get(b"PMIx_Put\0")?,
            commit: *library.get(b"PMIx_Commit\0")?,
            get: *library.get(b"PMIx_Get\0")?,
            finalize: *library.get(b"PMIx_Finalize\0")?,
        })
    }
}

/// Connection of this process, as the rank that its environment gives.
///
/// A process can create one client.
pub struct PmixClient {
    functions: Functions,
    own: Proc,
}

impl PmixClient {
    /// Connects to the server of the launcher.
    ///
    /// # Errors
    /// [`Error::NotLaunched`], [`Error::Load`], [`Error::Version`], [`Error::Pmix`].
    pub fn connect() -> Result<PmixClient, Error> {
        let path = libpmix_of_launcher().ok_or(Error::NotLaunched)?;
        let functions = functions(&path)?;
        let mut own = Proc {
            namespace: fixed(""),
            rank: 0,
        };
        // SAFETY: the function has this declaration in this version; it fills in `own`.
        checked("PMIx_Init", unsafe {
            (functions.init)(&mut own, ptr::null_mut(), 0)
        })?;
        Ok(PmixClient { functions, own })
    }

    /// Publishes a text under a key for all processes; can be called once.
    ///
    /// # Errors
    /// [`Error::Pmix`].
    pub fn put(&self, key: &str, text: &str) -> Result<(), Error> {
        let text = CString::new(text).unwrap_or_default();
        let mut value = Value {
            of: Type::STRING,
            data: Data {
                string: text.as_ptr().cast_mut(),
            },
        };
        // SAFETY: the key ends with a zero; the value is copied.
        checked("PMIx_Put", unsafe {
            (self.functions.put)(GLOBAL, key_of(key).as_ptr(), &mut value)
        })?;
        // SAFETY: the function has no arguments.
        checked("PMIx_Commit", unsafe { (self.functions.commit)() })
    }

    /// Waits until a rank has put data under this key, and returns them.
    ///
    /// # Errors
    /// [`Error::Pmix`]; [`Error::NotLaunched`] if the data are not a text.
    pub fn get(&self, rank: u32, key: &str) -> Result<String, Error> {
        let publisher = Proc { rank, ..self.own };
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: the key ends with a zero; the call allocates the value, which is never freed in
        // this short-lived process.
        unsafe {
            let status =
                (self.functions.get)(&publisher, key_of(key).as_ptr(), ptr::null(), 0, &mut value);
            checked("PMIx_Get", status)?;
            match value.as_ref() {
                Some(value) if value.of == Type::STRING && !value.data.string.is_null() => {
                    Ok(CStr::from_ptr(value.data.string)
                        .to_string_lossy()
                        .into_owned())
                }
                _ => Err(Error::NotLaunched),
            }
        }
    }
}

impl Drop for PmixClient {
    fn drop(&mut self) {
        // SAFETY: the client was initialised, and no function is called afterwards.
        unsafe { (self.functions.finalize)(ptr::null(), 0) };
    }
}

/// Returns the libpmix of the nearest ancestor that has loaded a libpmix.
fn libpmix_of_launcher() -> Option<PathBuf> {
    let mut pid = std::os::unix::process::parent_id();
    while pid > 0 {
        let mapped = MappedFiles::read(pid);
        let mut files = mapped.paths();
        let is_libpmix = |file: &&Path| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libpmix") && name.contains(".so.2")
        };
        if let Some(found) = files.find(is_libpmix) {
            return Some(found.to_owned());
        }
        pid = proc_stat::number(pid, proc_stat::PARENT)?;
    }
    None
}
