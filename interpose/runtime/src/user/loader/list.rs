//! The loaded libraries, as ld.so lists them.
#![allow(unsafe_code)]

use crate::arch::call_user;
use crate::told;
use crate::user::tls::{Header, ModuleInfo};
use std::ffi::{CStr, c_char, c_int, c_void};
use understudy_mpi::library;

/// A loaded library.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Library {
    pub path: String,
    pub base: u64,
    /// The first address behind its last segment.
    pub end: u64,
    /// ld.so's record of it, whose address is what dlopen(3) returns.
    pub handle: u64,
    /// The number of its thread-local storage; 0: it has none.
    pub tls_module: u64,
    /// The largest alignment of its segments.
    pub alignment: u64,
}

/// The public head of glibc's `struct link_map`.
#[repr(C)]
pub struct LinkMap {
    pub(super) base: u64,
    pub(super) name: *const c_char,
    pub(super) dynamic: *const c_void,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// What dl_iterate_phdr(3) tells of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    pub base: u64,
    pub end: u64,
    pub tls_module: u64,
    /// Its thread-local block in this thread; 0: not made yet.
    pub tls_block: u64,
    /// It uses thread-local data whose place is fixed when it is opened (static thread-local storage), its own or another's.
    pub is_static: bool,
    /// The largest alignment of its segments.
    pub alignment: u64,
}

unsafe extern "C" fn collect(info: *const ModuleInfo, _size: usize, modules: *mut c_void) -> c_int {
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const DT_FLAGS: u64 = 30;
    const DF_STATIC_TLS: u64 = 0x10;
    // SAFETY: dl_iterate_phdr passes a valid structure and our own argument.
    unsafe {
        let (info, modules) = (&*info, &mut *modules.cast::<Vec<Module>>());
        let headers: &[Header] =
            std::slice::from_raw_parts(info.headers, info.header_count as usize);
        let segments = || headers.iter().filter(|header| header.kind == PT_LOAD);
        let base = info.base as u64;
        let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC);
        let entries = dynamic.map_or(&[][..], |header| {
            let entries = (base + header.virtual_address) as *const [u64; 2];
            std::slice::from_raw_parts(entries, header.memory_size as usize / 16)
        });
        modules.push(Module {
            base,
            end: segments()
                .map(|header| base + header.virtual_address + header.memory_size)
                .max()
                .unwrap_or(base),
            tls_module: info.tls_module as u64,
            tls_block: info.tls_data as u64,
            is_static: entries
                .iter()
                .any(|&[tag, value]| tag == DT_FLAGS && value & DF_STATIC_TLS != 0),
            alignment: segments().map(|header| header.align).max().unwrap_or(1),
        });
    }
    0
}

type Callback = unsafe extern "C" fn(*const ModuleInfo, usize, *mut c_void) -> c_int;

/// The modules of the user side, in load order.
pub fn modules() -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    // SAFETY: the callback has the type that dl_iterate_phdr(3) calls.
    unsafe {
        (told::info().user_iterate)(
            collect as Callback as *const c_void,
            (&raw mut modules).cast(),
        )
    };
    modules
}

/// The modules of the runtime side, the runtime's before the MPI library's.
pub fn runtime_modules() -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    // SAFETY: libc's structure of that name is the head of ours; the procedures walk the runtime's namespace and the MPI library's.
    unsafe {
        let callback: unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int =
            std::mem::transmute(collect as Callback);
        libc::dl_iterate_phdr(Some(callback), (&raw mut modules).cast());
        library::iterate(callback, (&raw mut modules).cast());
    }
    modules
}

/// ld.so's records of the libraries of the user side, in load order. To be walked while the program does not run.
pub fn link_maps() -> impl Iterator<Item = &'static LinkMap> {
    // SAFETY: ld.so's list of the program's namespace.
    let map = |at: *const LinkMap| unsafe { at.as_ref() };
    std::iter::successors(map(told::info().link_map.cast()), move |before| {
        map(before.next)
    })
}

/// All libraries of the user side in load order.
pub fn libraries() -> Vec<Library> {
    let mut list = Vec::new();
    let modules = modules();
    let mut modules = modules.iter();
    for map in link_maps() {
        // SAFETY: ld.so keeps the name as long as the record.
        let path = unsafe { CStr::from_ptr(map.name) }
            .to_string_lossy()
            .into_owned();
        // dl_iterate_phdr(3) walks the same list.
        let module = modules.next();
        list.push(Library {
            path,
            base: map.base,
            end: module.map_or(map.base, |module| module.end),
            handle: std::ptr::from_ref(map) as u64,
            tls_module: module.map_or(0, |module| module.tls_module),
            alignment: module.map_or(1, |module| module.alignment),
        });
    }
    list
}

/// How many link-map namespaces there are (dlmopen(3)), from what ld.so keeps for debuggers (`struct r_debug_extended` of
/// glibc's `<link.h>`).
pub fn namespaces() -> usize {
    #[repr(C)]
    struct Debug {
        version: i32,
        head: [usize; 4],
        next: *const Debug,
    }
    const EXTENDED: i32 = 2;
    let mut at = told::user_symbol("_r_debug") as *const Debug;
    let mut count = 0;
    // SAFETY: ld.so's list; its elements have a successor from this version on.
    unsafe {
        while let Some(version) = at.cast::<i32>().as_ref() {
            count += 1;
            at = if *version < EXTENDED {
                std::ptr::null()
            } else {
                (*at).next
            };
        }
    }
    count
}

/// Has ld.so say where a module's thread-local block is, which makes it if need be.
pub fn use_block(tls_module: u64) -> u64 {
    let argument = [tls_module, 0];
    let function = told::user_symbol("__tls_get_addr");
    // SAFETY: the function that code calls for thread-local data (ELF ABI), on the program's stack, with a module that is loaded.
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

/// ld.so does not note where the block of a library is that only code with fixed offsets uses. Has it do so if there is one
/// such library behind the first `known` ones. To be called in a procedure of the program, whose stack is used.
pub fn find_static_blocks(known: usize) {
    let modules = modules();
    if modules.iter().skip(known).any(|module| module.is_static) {
        for module in modules
            .iter()
            .filter(|module| module.tls_module != 0 && module.tls_block == 0)
        {
            use_block(module.tls_module);
        }
    }
}
