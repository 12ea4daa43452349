//! Loaded libraries, as listed by ld.so.
#![allow(unsafe_code)]

use crate::arch::call_user;
use crate::process_info;
use crate::user::tls;
use std::ffi::c_void;
use understudy_elf::{LinkMap, LoadedModule, LoaderDebug, ProgramHeader};
use understudy_mpi::library;

/// Loaded library of the program side.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Library {
    pub path: String,
    pub base: u64,
    /// First address after the last segment.
    pub end: u64,
    /// Address of ld.so's record of the library, which dlopen(3) returns.
    pub handle: u64,
    /// Number of the thread-local storage; zero if the library has none.
    pub tls_module: u64,
    /// Largest alignment of the segments.
    pub alignment: u64,
}

/// Description of a library by dl_iterate_phdr(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    pub base: u64,
    pub end: u64,
    pub tls_module: u64,
    /// Thread-local block of this thread; zero if not allocated yet.
    pub tls_block: u64,
    /// True if the library uses static thread-local storage.
    ///
    /// Static data, of this library or of another one that it refers to, has an offset that is
    /// fixed when this library is opened.
    pub is_static: bool,
    /// Largest alignment of the segments.
    pub alignment: u64,
}

impl ModuleInfo {
    fn new(module: &LoadedModule) -> ModuleInfo {
        let base = module.base() as u64;
        let segments = || module.headers_of_kind(ProgramHeader::LOAD);
        ModuleInfo {
            base,
            end: segments()
                .map(|header| base + (header.address + header.size) as u64)
                .max()
                .unwrap_or(base),
            tls_module: module.tls_module as u64,
            tls_block: module.tls_block as u64,
            is_static: module.has_static_tls(),
            alignment: segments().map(|header| header.alignment).max().unwrap_or(1),
        }
    }
}

/// Returns the modules of the program side, in load order.
pub fn modules() -> Vec<ModuleInfo> {
    let mut modules: Vec<ModuleInfo> = Vec::new();
    tls::for_each_module(|module| modules.push(ModuleInfo::new(module)));
    modules
}

/// Returns the modules of the runtime side, followed by the MPI library's.
pub fn runtime_modules() -> Vec<ModuleInfo> {
    let mut modules: Vec<ModuleInfo> = Vec::new();
    let mut add = |module: &LoadedModule| modules.push(ModuleInfo::new(module));
    library::for_each_own_module(&mut add);
    library::for_each_module(&mut add);
    modules
}

/// Returns ld.so's records of the program side's libraries, in load order.
///
/// The records may be walked only while the program does not run.
pub fn link_maps() -> impl Iterator<Item = &'static LinkMap> {
    // SAFETY: ld.so's list of the program's namespace.
    unsafe { LinkMap::list(process_info::info().link_map.cast()) }
}

/// Returns all libraries of the program side, in load order.
pub fn libraries() -> Vec<Library> {
    let mut list = Vec::new();
    let modules = modules();
    let mut modules = modules.iter();
    for map in link_maps() {
        let path = String::from_utf8_lossy(map.name()).into_owned();
        let base = map.base() as u64;
        // dl_iterate_phdr(3) walks ld.so's list in equal order.
        let module = modules.next();
        list.push(Library {
            path,
            base,
            end: module.map_or(base, |module| module.end),
            handle: std::ptr::from_ref(map) as u64,
            tls_module: module.map_or(0, |module| module.tls_module),
            alignment: module.map_or(1, |module| module.alignment),
        });
    }
    list
}

/// Returns the number of link-map namespaces (dlmopen(3)).
pub fn namespaces() -> usize {
    // SAFETY: ld.so's list, or null.
    unsafe {
        LoaderDebug::count_namespaces(process_info::user_symbol("_r_debug") as *const LoaderDebug)
    }
}

/// Returns the address of a module's thread-local block; makes ld.so allocate it if needed.
pub fn allocate_block(tls_module: u64) -> u64 {
    let argument = [tls_module, 0];
    let function = process_info::user_symbol("__tls_get_addr");
    // SAFETY: the function that compiled code calls for thread-local data (ELF ABI), on the
    // program's stack, with a loaded module.
    unsafe {
        call_user(
            function as *const c_void,
            argument.as_ptr() as u64,
            0,
            0,
            0,
            0,
        )
    }
}

/// Makes ld.so record the blocks of libraries with static thread-local storage.
///
/// Code with fixed offsets uses a block without a call of ld.so, which therefore does not know the
/// block's address. Acts only if a library after the first `known` ones uses such storage. Must be
/// called in an MPI procedure of the program, whose stack is used.
pub fn record_static_blocks(known: usize) {
    let modules = modules();
    if modules.iter().skip(known).any(|module| module.is_static) {
        for module in modules
            .iter()
            .filter(|module| module.tls_module != 0 && module.tls_block == 0)
        {
            allocate_block(module.tls_module);
        }
    }
}
