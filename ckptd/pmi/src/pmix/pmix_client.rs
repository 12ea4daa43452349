//! A client of the launcher's PMIx server, for a moment: processes that a launcher has started on
//! several nodes find each other so.
//!
//! The libpmix is that of the launcher, which an ancestor of this process is, or of its daemon on
//! this node.
#![allow(unsafe_code)]

use super::abi::{Data, Info, Proc, Status, Type, Value};
use super::libpmix::{self, checked};
use super::values::{fixed, key_of};
use crate::Error;
use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr;
use understudy_formats::proc_stat;

/// To processes of any node (PMIX_GLOBAL).
const GLOBAL: u8 = 3;

/// The functions of a client.
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

/// Those of this libpmix.
fn functions(path: &Path) -> Result<Functions, Error> {
    let library = libpmix::open(path)?;
    // SAFETY: all declarations are those of pmix.h in the known versions, and the library stays.
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

/// This process, as the rank that its environment says it is. There is one client in the life of a
/// process.
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
        let path = of_launcher().ok_or(Error::NotLaunched)?;
        let functions = functions(&path)?;
        let mut own = Proc {
            namespace: fixed(""),
            rank: 0,
        };
        // SAFETY: as declared for this version; it fills in who this is.
        checked("PMIx_Init", unsafe {
            (functions.init)(&mut own, ptr::null_mut(), 0)
        })?;
        Ok(PmixClient { functions, own })
    }

    /// Lets all know a text by a key; once.
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
        // SAFETY: nothing is handed over.
        checked("PMIx_Commit", unsafe { (self.functions.commit)() })
    }

    /// What a rank has put, as soon as it has.
    ///
    /// # Errors
    /// [`Error::Pmix`].
    pub fn get(&self, rank: u32, key: &str) -> Result<String, Error> {
        let of = Proc { rank, ..self.own };
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: the key ends with a zero; a value is made by the call, and stays until the end of
        // this short process.
        unsafe {
            let status =
                (self.functions.get)(&of, key_of(key).as_ptr(), ptr::null(), 0, &mut value);
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
        // SAFETY: it has been initialised, and nothing is called after this.
        unsafe { (self.functions.finalize)(ptr::null(), 0) };
    }
}

/// The libpmix that the nearest ancestor has that has one.
fn of_launcher() -> Option<PathBuf> {
    let mut pid = std::os::unix::process::parent_id();
    while pid > 0 {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mut files = maps
            .lines()
            .filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
        let is_it = |file: &&Path| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libpmix") && name.contains(".so.2")
        };
        if let Some(found) = files.find(is_it) {
            return Some(found.to_owned());
        }
        pid = proc_stat::number(pid, proc_stat::PARENT)?;
    }
    None
}
