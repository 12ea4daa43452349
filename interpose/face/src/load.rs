//! Loads the runtime side: one namespace with the runtime, and one with the MPI library.
//!
//! Each namespace begins with the shim and its own libc. Mappings of the first namespace are in the
//! first half of the reserved range, mappings of the second one in its second half.
#![allow(unsafe_code)]

use crate::aside::Program;
use crate::auxv::Auxv;
use crate::launched;
use crate::ldheap::HeapError;
use crate::link::{self, Extent, OUR_SONAME, Path};
use crate::relay::{Copies, Streams};
use crate::zone::{self, Half, Library, PatchError, Patched};
use crate::{
    at_exit, closing, entry, environ, late, ldheap, passive, services, sharing, sources, stop, sys,
    threads, turns,
};
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use understudy_abi::{
    ABI_VERSION, BootInfo, EntryPoints, MPI_FD_BASE, MPI_FIRST_KEY, RUNTIME_FD_BASE,
    RUNTIME_FIRST_KEY, ShimStart,
};
use understudy_catalogue::message;

unsafe extern "C" {
    fn dlmopen(namespace: c_long, path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlinfo(handle: *mut c_void, request: c_int, info: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;
const LM_ID_NEWLM: c_long = -1;
const RTLD_DI_LMID: c_int = 1;

/// Data of execution 2 about the process.
pub struct Second<'a> {
    pub argc: c_int,
    pub argv: *const *const c_char,
    pub program: Program,
    pub personality: usize,
    pub auxv: &'a Auxv,
    pub stack_end: usize,
}

/// Reason for which execution 2 could not be completed.
pub enum Failure {
    Text(&'static str),
    NoMpiLibrary,
    Patch(&'static str, &'static str, PatchError),
    Heap(HeapError),
    /// dlerror(3) returns the reason.
    Loader(&'static str),
    /// The runtime has printed the reason; the program is run unprotected.
    Runtime,
    /// The runtime has printed the reason; the process exits with this status.
    Stop(c_int),
}

/// Loads the runtime side, on a stack in the reserved range.
///
/// For this stack, ld.so's mappings are in the reserved range, too.
pub fn load(second: &Second<'_>) -> Result<(), Failure> {
    // SAFETY: ld.so, at the address that the kernel has passed, and this library are mapped.
    let (loader, face) = unsafe {
        (
            link::extent(second.auxv.loader),
            link::extent(link::own_base()),
        )
    };
    zone::make_stubs().map_err(|_| Failure::Text(message::STUB_PAGE_TAKEN))?;
    patch(Library::Loader, Patched::Mmap, &loader, "ld.so", "mmap")?;
    threads::remember_main();
    ldheap::install(&loader).map_err(Failure::Heap)?;
    threads::make_libc_multithreaded()
        .map_err(|_| Failure::Text(message::NO_THREAD_FOR_RUNTIME))?;

    let directory = Path::directory(link::own_path());
    let copies = Copies::make();
    let start = |half| start_of(half, second, copies);
    let (_, namespace) = open_namespace(directory, Half::Runtime, &start(Half::Runtime))?;
    let runtime = open_sibling(directory, b"/libunderstudy_runtime.so", namespace)?;
    zone::load_into(Half::Mpi).map_err(|_| Failure::Text(message::STUB_PAGE_NOT_WRITABLE))?;
    let (shim, namespace) = open_namespace(directory, Half::Mpi, &start(Half::Mpi))?;
    let mut mpi = Path::new();
    // SAFETY: the saved environment.
    let library_path =
        unsafe { environ::value(second.program.environment, b"LD_LIBRARY_PATH=") }.unwrap_or(b"");
    if !link::find_library(OUR_SONAME, library_path, &mut mpi) {
        return Err(Failure::NoMpiLibrary);
    }
    let mpi =
        open(namespace, &mpi).map_err(|_| Failure::Loader(message::MPI_LIBRARY_NOT_LOADED))?;
    // SAFETY: the shim exports its function with this type; the handle is that of libmpi.
    unsafe {
        let function = shim_function(shim, c"understudy_shim_find_real")?;
        let function: unsafe extern "C" fn(*mut c_void) = core::mem::transmute(function);
        function(mpi);
    }
    let mpi = Mpi {
        library: mpi,
        shim,
        copies,
    };
    start_runtime(runtime, &mpi, second, &loader, &face)
}

/// Handles of dlmopen(3) in the MPI library's namespace, and its standard output and error.
struct Mpi {
    library: *mut c_void,
    shim: *mut c_void,
    copies: Copies,
}

fn patch(
    library: Library,
    call: Patched,
    at: &Extent,
    name: &'static str,
    call_name: &'static str,
) -> Result<(), Failure> {
    // SAFETY: the code is mapped; the process has one thread, which is not in that call.
    unsafe { zone::patch(library, call, at.code, at.code_length) }
        .map_err(|error| Failure::Patch(name, call_name, error))
}

/// Opens a new namespace with the shim and a libc that the shim prepares.
///
/// Returns the shim's handle and the namespace.
fn open_namespace(
    directory: &[u8],
    half: Half,
    start: &ShimStart,
) -> Result<(*mut c_void, c_long), Failure> {
    let shim = open_sibling(directory, b"/libunderstudy_shim.so", LM_ID_NEWLM)?;
    // SAFETY: dlsym(3) with the shim's handle.
    let own_function = unsafe { dlsym(shim, c"understudy_shim_start".as_ptr()) };
    zone::check(half, own_function as usize)
        .map_err(|error| Failure::Patch("ld.so", "mmap", error))?;
    let mut namespace: c_long = 0;
    // SAFETY: RTLD_DI_LMID writes a c_long.
    unsafe { dlinfo(shim, RTLD_DI_LMID, (&raw mut namespace).cast()) };
    start_shim(shim, half, start)?;
    Ok((shim, namespace))
}

fn open(namespace: c_long, path: &Path) -> Result<*mut c_void, Failure> {
    // SAFETY: dlmopen(3).
    let handle = unsafe { dlmopen(namespace, path.as_ptr(), RTLD_NOW) };
    if handle.is_null() {
        Err(Failure::Loader(message::LIBRARY_NOT_LOADED))
    } else {
        Ok(handle)
    }
}

fn open_sibling(directory: &[u8], name: &[u8], namespace: c_long) -> Result<*mut c_void, Failure> {
    let mut path = Path::new();
    path.push(directory).push(name);
    open(namespace, &path).map_err(|_| Failure::Loader(message::OWN_LIBRARY_NOT_LOADED))
}

fn shim_function(shim: *mut c_void, name: &CStr) -> Result<*mut c_void, Failure> {
    // SAFETY: dlsym(3) with the shim's handle.
    let function = unsafe { dlsym(shim, name.as_ptr()) };
    if function.is_null() {
        return Err(Failure::Loader(message::SHIM_VERSION));
    }
    Ok(function)
}

/// Fails unless the namespace's libc maps memory in its half of the reserved range.
///
/// # Safety
/// `shim` must be a handle whose scope has a libc.
unsafe fn check_libc(shim: *mut c_void, half: Half) -> Result<(), Failure> {
    type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, c_long) -> usize;
    type Remap = unsafe extern "C" fn(usize, usize, usize, c_int, ...) -> usize;
    const PROT_NONE: c_int = 0;
    const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
    const MREMAP_MAYMOVE: c_int = 1;
    const PAGE: usize = 4096;
    let failed = |call| move |error| Failure::Patch("libc", call, error);
    // SAFETY: libc's functions have these types; only this function uses the mapping.
    unsafe {
        let map: Map = core::mem::transmute(shim_function(shim, c"mmap")?);
        let remap: Remap = core::mem::transmute(shim_function(shim, c"mremap")?);
        let small = map(
            core::ptr::null_mut(),
            PAGE,
            PROT_NONE,
            MAP_PRIVATE_ANONYMOUS,
            -1,
            0,
        );
        zone::check(half, small).map_err(failed("mmap"))?;
        let large = remap(small, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
        zone::check(half, large).map_err(failed("mremap"))?;
        sys::unmap(large, 2 * PAGE);
    }
    Ok(())
}

/// Start function of the shim, which returns 0 or an errno.
type StartShim = unsafe extern "C" fn(*const ShimStart) -> c_int;

/// Returns the start-up data of a shim.
///
/// The runtime uses the program's descriptors 1 and 2; the MPI library has other descriptors in
/// their place.
fn start_of(half: Half, second: &Second<'_>, copies: Copies) -> ShimStart {
    let (first_descriptor, first_key) = match half {
        Half::Runtime => (RUNTIME_FD_BASE, RUNTIME_FIRST_KEY),
        Half::Mpi => (MPI_FD_BASE, MPI_FIRST_KEY),
    };
    // The runtime prints nothing itself and handles the program's descriptors.
    let [output, errors] = match half {
        Half::Runtime => [1, 2],
        Half::Mpi => [copies.library_output, copies.errors],
    };
    ShimStart {
        environment: second.program.environment,
        first_descriptor,
        first_key,
        output,
        errors,
        layers: &raw const closing::LAYERS,
    }
}

fn start_shim(shim: *mut c_void, half: Half, start: &ShimStart) -> Result<(), Failure> {
    // SAFETY: the patched code is that of the namespace's libc. Only its initialisation has run,
    // and it must map nothing before the patch. The shim exports its function with this type.
    unsafe {
        let malloc = dlsym(shim, c"malloc".as_ptr());
        let libc = link::extent(link::base_of(malloc as usize));
        for (call, name) in Patched::ALL {
            patch(Library::Libc(half), call, &libc, "libc", name)?;
        }
        check_libc(shim, half)?;
        let function: StartShim =
            core::mem::transmute(shim_function(shim, c"understudy_shim_start")?);
        if function(start) != 0 {
            return Err(Failure::Text(message::OWN_LIBC_NOT_PREPARED));
        }
    }
    Ok(())
}

/// Start function of the runtime.
///
/// It returns 0 if it has filled in the entry points, 1 if the program must run unprotected, or an
/// exit status. In the latter two cases it has printed the reason.
type RuntimeStart = unsafe extern "C" fn(*const BootInfo, *mut EntryPoints) -> c_int;

fn start_runtime(
    runtime: *mut c_void,
    mpi: &Mpi,
    second: &Second<'_>,
    loader: &Extent,
    face: &Extent,
) -> Result<(), Failure> {
    let symbols = entry::data_symbol_addresses();
    let mut directory = Path::new();
    directory.push(Path::directory(link::own_path()));
    // SAFETY: a valid environment.
    let required = unsafe { launched::is_protection_required(second.program.environment) };
    let info = BootInfo {
        version: ABI_VERSION,
        require: u32::from(required),
        quiet: u32::from(second.program.is_quiet()),
        environment: second.program.environment,
        argc: second.argc,
        argv: second.argv,
        program: second.program.path.as_ptr(),
        directory: directory.as_ptr(),
        loader_base: loader.base,
        loader_length: loader.length,
        face_base: face.base,
        face_length: face.length,
        stack_end: second.stack_end,
        link_map: link::first().cast(),
        data_symbols: symbols.as_ptr().cast(),
        data_symbol_count: symbols.len(),
        mpi: mpi.library,
        mpi_shim: mpi.shim,
        messages: mpi.copies.errors,
        output: mpi.copies.output,
        library_output: mpi.copies.library_output,
        call_at_exit: at_exit::call_at_exit,
        user_threads: threads::created(),
        user_timer_threads: threads::created_for_timers(),
        user_shared_maps: sharing::made(),
        user_keys: sharing::keys(),
        user_kernel: &raw const crate::kernel_use::KERNEL_USE,
        user_number: &raw const crate::process_number::SEEN_NUMBER,
        user_time: &raw const crate::processor_time::CARRIED_TIME,
        carry_user_time: sources::carry_processor_time,
        user_dlopen: passive::open,
        user_dlsym: services::dlsym,
        user_dlclose: services::dlclose,
        user_sources: sources::addresses,
        watch_user_sources: sources::watch,
        user_hide_destructors: passive::hide_destructors,
        library_places: &raw mut zone::LIBRARY_PLACES,
        loader_data: (loader.data, loader.data_length),
        loader_heap: ldheap::told(),
        user_iterate: services::iterate,
        attribute_cells: (&raw mut services::ATTRIBUTE_CELLS).cast(),
        stop: stop::code(),
        turns: turns::code(),
        entry: entry::ENTRY[0].as_ptr().cast(),
    };
    let mut points = EntryPoints {
        version: 0,
        slot_count: 0,
        enter: [core::ptr::null(); understudy_abi::ENTRIES],
        file_effect: core::ptr::null(),
        written: core::ptr::null(),
        fatal_signal: core::ptr::null(),
        cancelled: core::ptr::null(),
        source: core::ptr::null(),
    };
    // SAFETY: the runtime exports this function with this type, and copies the data of `info` that
    // it needs.
    let status = unsafe {
        let function = dlsym(runtime, c"understudy_runtime_start".as_ptr());
        if function.is_null() {
            return Err(Failure::Loader(message::RUNTIME_VERSION));
        }
        let function: RuntimeStart = core::mem::transmute(function);
        function(&info, &mut points)
    };
    match status {
        0 if points.version == ABI_VERSION && points.slot_count as usize == entry::slot_count() => {
            // SAFETY: the runtime exports this function with this type.
            let streams =
                unsafe { Streams::of(runtime) }.ok_or(Failure::Loader(message::RUNTIME_VERSION))?;
            crate::told::tell_runtime(points.file_effect);
            crate::overwrites::tell_runtime(points.written);
            crate::fatal::listen(points.fatal_signal);
            crate::cancellation::connect(points.cancelled);
            closing::begin();
            sources::connect(points.source, entry::slot_count());
            if second.program.is_late {
                late::await_first_call(&points.enter, streams);
            } else {
                entry::connect(&points.enter);
                // An unprotected program keeps its own streams, so this is the last step.
                streams.start();
            }
            Ok(())
        }
        0 => Err(Failure::Text(message::LIBRARY_VERSIONS)),
        1 => Err(Failure::Runtime),
        status => Err(Failure::Stop(status)),
    }
}
