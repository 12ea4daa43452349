//! Loads the runtime and the MPI library, each into a namespace of its own.
//!
//! Each namespace begins with the shim and a libc of its own. Mappings of the runtime's namespace
//! are in the first half of the reserved range, mappings of the MPI library's in the second half.
#![allow(unsafe_code)]

use crate::auxv::Auxv;
use crate::bypass::Program;
use crate::launched;
use crate::ldheap::HeapError;
use crate::link::{self, Extent, OUR_SONAME, Path};
use crate::relay::{StreamCopies, StreamFunctions};
use crate::zone::{self, Library, PatchError, PatchableCall, ReservedHalf};
use crate::{
    at_exit, closing, entry, environ, late_mpi, ldheap, libc_procedures, mpi_lock_entry,
    passive_libraries, program_namespace, shared_mappings, stop, sys, threads,
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
pub struct SecondExecution<'a> {
    pub argc: c_int,
    pub argv: *const *const c_char,
    pub program: Program,
    pub personality: usize,
    pub auxv: &'a Auxv,
    pub stack_end: usize,
}

/// Reason for which execution 2 could not be completed.
pub enum LoadFailure {
    /// The text is the reason.
    Text(&'static str),
    NoMpiLibrary,
    /// The library and the call in it that could not be patched, and the reason.
    Patch(&'static str, &'static str, PatchError),
    Heap(HeapError),
    /// A library could not be loaded, for the reason that dlerror(3) returns.
    Loader(&'static str),
    /// The runtime has printed the reason; the program is run unprotected.
    Runtime,
    /// The runtime has printed the reason; the process exits with this status.
    Stop(c_int),
}

/// Loads the runtime and MPI sides, on a stack in the reserved range.
///
/// The stack pointer is in the reserved range, so ld.so's patched mmap places all libraries in the
/// reserved range, too ([`crate::zone`]).
pub fn load(second: &SecondExecution<'_>) -> Result<(), LoadFailure> {
    // SAFETY: ld.so, at the address that the kernel has passed, and this library are mapped.
    let (loader, preload_library) = unsafe {
        (
            link::extent(second.auxv.loader),
            link::extent(link::own_base()),
        )
    };
    zone::make_stubs().map_err(|_| LoadFailure::Text(message::STUB_PAGE_TAKEN))?;
    patch(
        Library::Loader,
        PatchableCall::Mmap,
        &loader,
        "ld.so",
        "mmap",
    )?;
    threads::remember_main();
    ldheap::install(&loader).map_err(LoadFailure::Heap)?;
    threads::make_libc_multithreaded()
        .map_err(|_| LoadFailure::Text(message::NO_THREAD_FOR_RUNTIME))?;

    let directory = Path::directory(link::own_path());
    let copies = StreamCopies::make();
    let start = |half| start_of(half, second, copies);
    let (_, namespace) = open_namespace(
        directory,
        ReservedHalf::Runtime,
        &start(ReservedHalf::Runtime),
    )?;
    let runtime = open_sibling(directory, b"/libunderstudy_runtime.so", namespace)?;
    zone::load_into(ReservedHalf::Mpi)
        .map_err(|_| LoadFailure::Text(message::STUB_PAGE_NOT_WRITABLE))?;
    let (shim, namespace) =
        open_namespace(directory, ReservedHalf::Mpi, &start(ReservedHalf::Mpi))?;
    let mut mpi = Path::new();
    // SAFETY: the caller of `Program::new` guarantees a valid environment.
    let library_path =
        unsafe { environ::value(second.program.environment, b"LD_LIBRARY_PATH=") }.unwrap_or(b"");
    if !link::find_library(OUR_SONAME, library_path, &mut mpi) {
        return Err(LoadFailure::NoMpiLibrary);
    }
    let mpi =
        open(namespace, &mpi).map_err(|_| LoadFailure::Loader(message::MPI_LIBRARY_NOT_LOADED))?;
    // SAFETY: the shim exports its function with this type; the handle is that of libmpi.
    unsafe {
        let function = shim_function(shim, c"understudy_shim_find_real")?;
        let function: unsafe extern "C" fn(*mut c_void) = core::mem::transmute(function);
        function(mpi);
    }
    let mpi = MpiNamespace {
        library: mpi,
        shim,
        copies,
    };
    start_runtime(runtime, &mpi, second, &loader, &preload_library)
}

/// Handles of dlmopen(3) in the MPI library's namespace, and its standard output and error.
struct MpiNamespace {
    library: *mut c_void,
    shim: *mut c_void,
    copies: StreamCopies,
}

fn patch(
    library: Library,
    call: PatchableCall,
    at: &Extent,
    name: &'static str,
    call_name: &'static str,
) -> Result<(), LoadFailure> {
    // SAFETY: the code is mapped; the process has one thread, which is not executing the call.
    unsafe { zone::patch(library, call, at.code, at.code_length) }
        .map_err(|error| LoadFailure::Patch(name, call_name, error))
}

/// Opens a new namespace with the shim and a libc that the shim prepares.
///
/// Returns the shim's handle and the namespace.
fn open_namespace(
    directory: &[u8],
    half: ReservedHalf,
    start: &ShimStart,
) -> Result<(*mut c_void, c_long), LoadFailure> {
    let shim = open_sibling(directory, b"/libunderstudy_shim.so", LM_ID_NEWLM)?;
    // SAFETY: dlsym(3) with the shim's handle and a terminated string.
    let own_function = unsafe { dlsym(shim, c"understudy_shim_start".as_ptr()) };
    zone::check(half, own_function as usize)
        .map_err(|error| LoadFailure::Patch("ld.so", "mmap", error))?;
    let mut namespace: c_long = 0;
    // SAFETY: RTLD_DI_LMID writes a c_long.
    unsafe { dlinfo(shim, RTLD_DI_LMID, (&raw mut namespace).cast()) };
    start_shim(shim, half, start)?;
    Ok((shim, namespace))
}

fn open(namespace: c_long, path: &Path) -> Result<*mut c_void, LoadFailure> {
    // SAFETY: dlmopen(3) with a terminated path.
    let handle = unsafe { dlmopen(namespace, path.as_ptr(), RTLD_NOW) };
    if handle.is_null() {
        Err(LoadFailure::Loader(message::LIBRARY_NOT_LOADED))
    } else {
        Ok(handle)
    }
}

fn open_sibling(
    directory: &[u8],
    name: &[u8],
    namespace: c_long,
) -> Result<*mut c_void, LoadFailure> {
    let mut path = Path::new();
    path.push(directory).push(name);
    open(namespace, &path).map_err(|_| LoadFailure::Loader(message::OWN_LIBRARY_NOT_LOADED))
}

fn shim_function(shim: *mut c_void, name: &CStr) -> Result<*mut c_void, LoadFailure> {
    // SAFETY: the callers pass the shim's handle; the name is terminated.
    let function = unsafe { dlsym(shim, name.as_ptr()) };
    if function.is_null() {
        return Err(LoadFailure::Loader(message::SHIM_VERSION));
    }
    Ok(function)
}

/// Fails unless the namespace's libc maps memory in its half of the reserved range.
///
/// # Safety
/// `shim` must be a handle whose scope has a libc.
unsafe fn check_libc(shim: *mut c_void, half: ReservedHalf) -> Result<(), LoadFailure> {
    type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, c_long) -> usize;
    type Remap = unsafe extern "C" fn(usize, usize, usize, c_int, ...) -> usize;
    const PROT_NONE: c_int = 0;
    const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
    const MREMAP_MAYMOVE: c_int = 1;
    const PAGE: usize = 4096;
    let failed = |call| move |error| LoadFailure::Patch("libc", call, error);
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
fn start_of(half: ReservedHalf, second: &SecondExecution<'_>, copies: StreamCopies) -> ShimStart {
    let (first_descriptor, first_key) = match half {
        ReservedHalf::Runtime => (RUNTIME_FD_BASE, RUNTIME_FIRST_KEY),
        ReservedHalf::Mpi => (MPI_FD_BASE, MPI_FIRST_KEY),
    };
    // The runtime never prints to 1 or 2 itself; it saves and restores these descriptors as the
    // program's.
    let [output, errors] = match half {
        ReservedHalf::Runtime => [1, 2],
        ReservedHalf::Mpi => [copies.library_output, copies.errors],
    };
    ShimStart {
        environment: second.program.environment,
        first_descriptor,
        first_key,
        output,
        errors,
        reserved_descriptors: &raw const closing::RESERVED_DESCRIPTORS,
    }
}

fn start_shim(shim: *mut c_void, half: ReservedHalf, start: &ShimStart) -> Result<(), LoadFailure> {
    // SAFETY: the patched code is that of the namespace's libc. Only the initialisation of this
    // libc has run, so no thread executes the code. The shim exports its function with this type.
    unsafe {
        let malloc = dlsym(shim, c"malloc".as_ptr());
        let libc = link::extent(link::base_of(malloc as usize));
        for (call, name) in PatchableCall::ALL {
            patch(Library::Libc(half), call, &libc, "libc", name)?;
        }
        check_libc(shim, half)?;
        let function: StartShim =
            core::mem::transmute(shim_function(shim, c"understudy_shim_start")?);
        if function(start) != 0 {
            return Err(LoadFailure::Text(message::OWN_LIBC_NOT_PREPARED));
        }
    }
    Ok(())
}

/// Start function of the runtime.
///
/// Returns 0 if the function has filled in the entry points, 1 if the program must run unprotected,
/// or an exit status. The function has printed the reason in the latter two cases.
type RuntimeStart = unsafe extern "C" fn(*const BootInfo, *mut EntryPoints) -> c_int;

fn start_runtime(
    runtime: *mut c_void,
    mpi: &MpiNamespace,
    second: &SecondExecution<'_>,
    loader: &Extent,
    preload_library: &Extent,
) -> Result<(), LoadFailure> {
    let symbols = entry::data_symbol_addresses();
    let mut directory = Path::new();
    directory.push(Path::directory(link::own_path()));
    // SAFETY: the caller of `Program::new` guarantees a valid environment.
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
        preload_base: preload_library.base,
        preload_length: preload_library.length,
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
        program_threads: threads::created(),
        program_timer_threads: threads::created_for_timers(),
        program_shared_maps: shared_mappings::mapping_count(),
        program_protection_keys: shared_mappings::key_count(),
        program_kernel_use: &raw const crate::kernel_use::KERNEL_USE,
        program_process_number: &raw const crate::process_number::SEEN_NUMBER,
        program_processor_time: &raw const crate::processor_time::CARRIED_TIME,
        carry_processor_time: libc_procedures::carry_processor_time,
        program_dlopen: passive_libraries::open,
        program_dlsym: program_namespace::dlsym,
        program_dlclose: program_namespace::dlclose,
        program_libc_procedures: libc_procedures::addresses,
        record_libc_procedures: libc_procedures::set_recording,
        program_hide_destructors: passive_libraries::hide_destructors,
        library_addresses: &raw mut zone::LIBRARY_ADDRESSES,
        loader_data: (loader.data, loader.data_length),
        loader_heap: ldheap::layout(),
        program_iterate_phdr: program_namespace::iterate,
        attribute_cells: (&raw mut program_namespace::ATTRIBUTE_CELLS).cast(),
        stop: stop::code(),
        mpi_lock: mpi_lock_entry::code(),
        entry: entry::ENTRY[0].as_ptr().cast(),
    };
    let mut points = EntryPoints {
        version: 0,
        slot_count: 0,
        enter: [core::ptr::null(); understudy_abi::ENTRIES],
        file_effect: core::ptr::null(),
        descriptor_facts: core::ptr::null(),
        fatal_signal: core::ptr::null(),
        claimed_signals: 0,
        after_cancellation: core::ptr::null(),
        enter_libc_procedure: core::ptr::null(),
    };
    // SAFETY: the runtime exports this function with this type, and copies the data of `info` that
    // it needs.
    let status = unsafe {
        let function = dlsym(runtime, c"understudy_runtime_start".as_ptr());
        if function.is_null() {
            return Err(LoadFailure::Loader(message::RUNTIME_VERSION));
        }
        let function: RuntimeStart = core::mem::transmute(function);
        function(&info, &mut points)
    };
    match status {
        0 if points.version == ABI_VERSION && points.slot_count as usize == entry::slot_count() => {
            // SAFETY: the runtime exports this function with this type.
            let streams = unsafe { StreamFunctions::of(runtime) }
                .ok_or(LoadFailure::Loader(message::RUNTIME_VERSION))?;
            crate::effect_reports::connect(points.file_effect);
            crate::overwrites::connect(points.descriptor_facts);
            crate::fatal_signals::connect(points.fatal_signal, points.claimed_signals);
            crate::cancellation::connect(points.after_cancellation);
            closing::begin();
            libc_procedures::connect(points.enter_libc_procedure, entry::slot_count());
            if second.program.is_late {
                late_mpi::await_first_call(&points.enter, streams);
            } else {
                entry::connect(&points.enter);
                // This step is the last one: if an earlier step fails, the program may run
                // unprotected, with its own streams.
                streams.start();
            }
            Ok(())
        }
        0 => Err(LoadFailure::Text(message::LIBRARY_VERSIONS)),
        1 => Err(LoadFailure::Runtime),
        status => Err(LoadFailure::Stop(status)),
    }
}
