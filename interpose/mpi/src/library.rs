//! The opened MPI library: its procedures and variables, by name.
#![allow(unsafe_code)]

pub mod scope;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use understudy_elf::{Callback, LinkMap, LoadedModule, ProgramHeader};

/// Handle of the library (dlmopen(3)); null in unit tests, which have no library.
static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Handle of the shim in the library's namespace; null in unit tests.
static SHIM: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Procedure of the library, by its name.
#[repr(C)]
pub(crate) struct Procedure {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    /// Address of the library's procedure while `address` leads to other code.
    library: AtomicPtr<c_void>,
}

impl Procedure {
    /// Offset of the address in bytes.
    pub(crate) const ADDRESS: usize = std::mem::offset_of!(Procedure, address);
    /// Offset of the library's address in bytes.
    pub(crate) const LIBRARY: usize = std::mem::offset_of!(Procedure, library);

    pub(crate) const fn new(name: &'static CStr) -> Procedure {
        Procedure {
            name,
            address: AtomicPtr::new(missing_procedure as *mut c_void),
            library: AtomicPtr::new(missing_procedure as *mut c_void),
        }
    }

    /// Looks up the procedure in the library, and stores its address.
    pub(crate) fn find(&self) {
        let mut address = symbol(self.name);
        if address.is_null() {
            address = other_name(self.name).map_or(std::ptr::null_mut(), |name| symbol(&name));
        }
        if !address.is_null() {
            self.set(address);
        }
    }

    pub(crate) fn set(&self, address: *mut c_void) {
        self.address.store(address, Relaxed);
    }

    /// Makes calls lead to `code`, which calls the library's procedure.
    pub(crate) fn lead_through(&self, code: *mut c_void) {
        self.library.store(self.address.load(Relaxed), Relaxed);
        self.set(code);
    }

    pub(crate) fn is_found(&self) -> bool {
        self.address.load(Relaxed) != missing_procedure as *mut c_void
    }

    pub(crate) fn name(&self) -> &'static CStr {
        self.name
    }
}

/// Returns another name by which some libraries have a procedure.
///
/// Conversions of handles end in `_toint` and `_fromint` in libraries of the standard ABI (MPI
/// 5.0), instead of `_c2f` and `_f2c`. Open MPI 4 has persistent collectives with the prefix
/// `PMPIX_`.
fn other_name(name: &CStr) -> Option<CString> {
    let name = name.to_str().ok()?;
    let other = if let Some(kind) = name.strip_suffix("_c2f") {
        format!("{kind}_toint")
    } else if let Some(kind) = name.strip_suffix("_f2c") {
        format!("{kind}_fromint")
    } else {
        format!(
            "PMPIX_{}",
            name.strip_prefix("PMPI_")
                .filter(|rest| rest.ends_with("_init"))?
        )
    };
    CString::new(other).ok()
}

/// Stands for procedures that the library does not have.
extern "C" fn missing_procedure() -> ! {
    panic!(
        "the MPI library does not have a procedure that understudy needs; use a version of the \
         library that understudy supports"
    );
}

/// Looks up the procedures in this library; `shim` is in the library's namespace.
pub(crate) fn resolve_procedures(library: *mut c_void, shim: *mut c_void) {
    LIBRARY.store(library, Relaxed);
    SHIM.store(shim, Relaxed);
    crate::procedures::PROCEDURES
        .iter()
        .for_each(Procedure::find);
}

/// Returns a symbol of the library or of its dependencies; null if there is none.
pub fn symbol(name: &CStr) -> *mut c_void {
    find(&LIBRARY, name)
}

/// Makes the library's libc release the last error of ld.so (dlerror(3)).
///
/// The text of the error is in ld.so's heap, which a reset of the MPI side does not restore. If
/// libc's pointer to the text were part of the restored memory, the next use of ld.so after each
/// reset would release the same text again.
pub(crate) fn release_error() {
    let dlerror = symbol(c"dlerror");
    if !dlerror.is_null() {
        // SAFETY: dlerror(3) of the library's libc: the first call returns the error, the second
        // call releases the error.
        unsafe {
            let dlerror: extern "C" fn() -> *mut c_void = std::mem::transmute(dlerror);
            dlerror();
            dlerror();
        }
    }
}

/// Returns the path of the library's file (dladdr(3)); empty if there is no library.
pub fn file() -> String {
    // SAFETY: dladdr(3) fills the structure, for which zeros are valid; the names in the structure
    // belong to the open library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let procedure = symbol(c"MPI_Init");
        if procedure.is_null() || libc::dladdr(procedure, &mut info) == 0 {
            return String::new();
        }
        CStr::from_ptr(info.dli_fname)
            .to_string_lossy()
            .into_owned()
    }
}

/// Returns a function of the shim in the library's namespace; null if there is none.
pub fn shim_function(name: &CStr) -> *mut c_void {
    find(&SHIM, name)
}

fn find(handle: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let handle = handle.load(Relaxed);
    if handle.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: dlsym(3) with an open handle.
    unsafe { libc::dlsym(handle, name.as_ptr()) }
}

/// Returns the text of `MPI_Get_library_version`, and the length that the procedure reports.
///
/// Open MPI 5.0 includes the terminating zero in the length, contrary to the standard. The library
/// is called at most once.
pub fn version() -> (&'static str, c_int) {
    static VERSION: OnceLock<(String, c_int)> = OnceLock::new();
    let (text, length) = VERSION.get_or_init(query_version);
    (text, *length)
}

/// Returns major and minor version of MPICH; zeros for other libraries, such as Intel MPI.
///
/// Libraries with MPICH's ABI report the version of the standard that MPICH reports, and do not
/// behave as that MPICH where the standard leaves a choice.
pub fn mpich_version() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| parse_mpich_version(version().0))
}

fn parse_mpich_version(text: &str) -> (u32, u32) {
    let number = text.strip_prefix("MPICH Version:").map(str::trim_start);
    let mut parts = number.unwrap_or("").split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    (part(), part())
}

fn query_version() -> (String, c_int) {
    let function = symbol(c"MPI_Get_library_version");
    if function.is_null() {
        return ("unknown".into(), 7);
    }
    let mut text = [0 as c_char; VERSION_CAPACITY];
    let mut length = 0;
    // SAFETY: MPI_Get_library_version may be called before MPI_Init; the text has at most this
    // length.
    unsafe {
        let function: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
            std::mem::transmute(function);
        function(text.as_mut_ptr(), &mut length);
        (
            CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned(),
            length,
        )
    }
}

/// Opens libraries in the library's namespace by paths; returns the number of opened ones.
///
/// Libraries that are open already are not opened again, and relative paths are ignored.
pub fn open_ahead<'a>(paths: impl Iterator<Item = &'a str>) -> usize {
    let loaded = modules();
    let is_new =
        |path: &&str| path.starts_with('/') && loaded.iter().all(|module| module.name != **path);
    paths
        .filter(is_new)
        .filter(|path| !open(path).is_null())
        .count()
}

/// Makes the library's libc open libgcc's unwinder, by one call of backtrace(3).
///
/// A library that is first opened after the snapshot of the MPI side would make resets fail.
pub fn backtrace() {
    type Backtrace = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
    // SAFETY: backtrace(3) of the library's libc has this type, or is missing; the array has space
    // for one frame.
    unsafe {
        let function: Option<Backtrace> = std::mem::transmute(symbol(c"backtrace"));
        if let Some(function) = function {
            function(&mut std::ptr::null_mut(), 1);
        }
    }
}

/// Returns a symbol of the first library in the MPI side whose path contains `path_part`.
///
/// Null if there is no such library or symbol.
pub fn symbol_of(path_part: &str, name: &CStr) -> *mut c_void {
    let library = modules()
        .into_iter()
        .find(|module| module.name.contains(path_part));
    let handle = library.map_or(std::ptr::null_mut(), |module| open(&module.name));
    find(&AtomicPtr::new(handle), name)
}

/// Opens a library in the library's namespace; null if that is impossible.
fn open(path: &str) -> *mut c_void {
    let mut namespace: libc::Lmid_t = 0;
    let handle = LIBRARY.load(Relaxed);
    if handle.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: dlinfo(3) with an open handle writes the namespace's number.
    if unsafe { libc::dlinfo(handle, libc::RTLD_DI_LMID, (&raw mut namespace).cast()) } != 0 {
        return std::ptr::null_mut();
    }
    let Ok(path) = std::ffi::CString::new(path) else {
        return std::ptr::null_mut();
    };
    // SAFETY: dlmopen(3). Constructors of the opened library run, as they would in MPI_Init.
    unsafe { libc::dlmopen(namespace, path.as_ptr(), libc::RTLD_NOW) }
}

/// Sets or, for `None`, removes a variable of the library's environment.
///
/// Leaves the runtime's own environment unchanged.
///
/// # Safety
/// No other thread of the MPI side may use the environment (setenv(3)).
pub unsafe fn set_variable(name: &CStr, value: Option<&CStr>) {
    type Set = unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int;
    type Unset = unsafe extern "C" fn(*const c_char) -> c_int;
    // SAFETY: setenv(3) and unsetenv(3) of the library's libc have these types, or there is no
    // library.
    unsafe {
        let set: Option<Set> = std::mem::transmute(symbol(c"setenv"));
        let unset: Option<Unset> = std::mem::transmute(symbol(c"unsetenv"));
        match (value, set, unset) {
            (Some(value), Some(set), _) => {
                set(name.as_ptr(), value.as_ptr(), 1);
            }
            (None, _, Some(unset)) => {
                unset(name.as_ptr());
            }
            _ => {}
        }
    }
}

/// Library of the MPI side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Path of the file.
    pub name: String,
    /// Difference between addresses in the file and in memory.
    pub base: usize,
    /// Module number of the library's thread-local data; zero if the library has none.
    pub thread_local_number: usize,
    /// Size of the thread-local data in bytes.
    pub thread_local: usize,
}

/// Returns ld.so's records of the libraries in the library's namespace.
pub fn link_maps() -> impl Iterator<Item = &'static LinkMap> {
    let library = LIBRARY.load(Relaxed).cast_const().cast();
    // SAFETY: `library` is a handle of dlmopen(3), which is ld.so's record, or null if there is no
    // library.
    unsafe { LinkMap::list(LinkMap::first_of(library)) }
}

/// `MPI_MAX_LIBRARY_VERSION_STRING` of MPICH, the greatest value of all libraries.
const VERSION_CAPACITY: usize = 8192;

/// Calls `visit` for each of the MPI side's libraries, in load order.
pub fn for_each_module(visit: impl FnMut(&LoadedModule)) {
    let iterate = |callback: Callback, data: *mut c_void| {
        // SAFETY: the shim exports a function of this type, or there is no library.
        unsafe {
            let iterate: Option<unsafe extern "C" fn(Callback, *mut c_void) -> c_int> =
                std::mem::transmute(shim_function(c"understudy_shim_iterate"));
            if let Some(iterate) = iterate {
                iterate(callback, data);
            }
        }
    };
    // SAFETY: the shim passes the arguments to dl_iterate_phdr(3), which iterates over the shim's
    // namespace.
    unsafe { understudy_elf::for_each_module(iterate, visit) };
}

/// Calls `visit` for each library of the namespace of this code, in load order.
pub fn for_each_own_module(visit: impl FnMut(&LoadedModule)) {
    unsafe extern "C" {
        fn dl_iterate_phdr(callback: Callback, data: *mut c_void) -> c_int;
    }
    let iterate = |callback, data| {
        // SAFETY: `for_each_module` passes a callback and the data for this callback.
        unsafe { dl_iterate_phdr(callback, data) };
    };
    // SAFETY: dl_iterate_phdr(3), which iterates over the namespace of this code.
    unsafe { understudy_elf::for_each_module(iterate, visit) };
}

impl Module {
    fn of(module: &LoadedModule) -> Module {
        let thread_local = module.headers_of_kind(ProgramHeader::TLS).next();
        Module {
            name: String::from_utf8_lossy(module.name()).into_owned(),
            base: module.base(),
            thread_local_number: module.tls_module,
            thread_local: thread_local.map_or(0, |header| header.size),
        }
    }
}

/// Returns the MPI side's libraries in load order.
pub fn modules() -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    for_each_module(|module| modules.push(Module::of(module)));
    modules
}
