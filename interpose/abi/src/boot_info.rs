//! Start-up data that the preload library passes to the shim and the runtime.

use crate::kernel_use::KernelUse;
use crate::loader_heap::{LoaderHeap, MAX_LIBRARY_ADDRESSES};
use crate::mpi_lock::MpiLockCode;
use crate::process_number::SeenNumber;
use crate::processor_time::CarriedTime;
use crate::stop_code::StopCode;
use core::ffi::{c_char, c_int, c_void};

/// Start-up data of the shim and the runtime, from the preload library.
///
/// All memory to which the pointers refer lives as long as the process.
#[repr(C)]
pub struct BootInfo {
    /// [`crate::ABI_VERSION`] of the preload library.
    pub version: u32,
    /// 1 if a failure to protect must stop the job (`UNDERSTUDY_REQUIRE`).
    pub require: u32,
    /// 1 if the runtime must not print why it refuses to protect the program.
    ///
    /// The value is 1 for programs that are not linked with libmpi, and may load it late or never,
    /// unless `UNDERSTUDY_LATE` is on.
    pub quiet: u32,
    /// Environment from the launcher: null-terminated array of `NAME=value`.
    pub environment: *const *const c_char,
    /// `argc` of the program.
    pub argc: c_int,
    /// `argv` of the program (on its stack).
    pub argv: *const *const c_char,
    /// Path of the program's file.
    pub program: *const c_char,
    /// Directory of understudy's libraries.
    pub directory: *const c_char,
    /// Address at which ld.so is mapped (`AT_BASE` of the auxiliary vector).
    pub loader_base: usize,
    /// Length of ld.so's mapping.
    pub loader_length: usize,
    /// First address of the preload library's mapping.
    pub preload_base: usize,
    /// Length of the preload library's mapping.
    pub preload_length: usize,
    /// Highest address of the main thread's stack, which contains argv and the environment.
    pub stack_end: usize,
    /// Head of the base namespace's link maps (`struct link_map *`).
    pub link_map: *const c_void,
    /// Addresses of libmpi's data symbols on the program side, in call table order.
    pub data_symbols: *const usize,
    /// Number of data symbols.
    pub data_symbol_count: usize,
    /// Handle of the MPI library (dlmopen(3)), in its own namespace.
    pub mpi: *mut c_void,
    /// Handle of the shim in the MPI library's namespace.
    pub mpi_shim: *mut c_void,
    /// Copy of the original standard error, for understudy's messages.
    ///
    /// Messages that are written to this descriptor do not pass through the relay.
    pub messages: c_int,
    /// Copy of the original standard output, which does not pass through the relay.
    pub output: c_int,
    /// Descriptor that replaces 1 in the MPI library's namespace ([`crate::ShimStart::output`]).
    pub library_output: c_int,
    /// Registers three functions for the end of the program.
    ///
    /// The first is called at exit(3), on the runtime's stack. The second is called at _exit(2),
    /// and may do only what is safe in a signal handler. The third returns true if exit(3) must
    /// first make a call of the slot
    /// [`libc_procedures::EXIT_SLOT`](crate::libc_procedures::EXIT_SLOT).
    pub call_at_exit: unsafe extern "C" fn(
        unsafe extern "C" fn(c_int),
        unsafe extern "C" fn(c_int),
        unsafe extern "C" fn() -> bool,
    ),
    /// Number of threads that the program side has created or tried to create so far.
    ///
    /// The preload library updates the number.
    pub program_threads: *const u32,
    /// Number of timers that start threads and that the program side has requested so far.
    ///
    /// For each such timer, `program_threads` also counts one thread.
    pub program_timer_threads: *const u32,
    /// Number of requests of the program side for shared mappings or huge pages so far.
    ///
    /// Requests for anonymous shared mappings do not count. The preload library updates the number.
    pub program_shared_maps: *const u32,
    /// Number of protection keys that the program side has requested.
    pub program_protection_keys: *const u32,
    /// Calls of the program side that leave state in the kernel.
    ///
    /// The preload library updates the counters.
    pub program_kernel_use: *const KernelUse,
    /// Process number that the program side sees.
    pub program_process_number: *const SeenNumber,
    /// Processor time and resource usage that are added to the kernel's values for the program.
    pub program_processor_time: *const CarriedTime,
    /// Makes libc's procedures add `program_processor_time` to their results from now on.
    pub carry_processor_time: unsafe extern "C" fn(),
    /// Base-namespace `dlopen`, for libraries that a replacement must open.
    ///
    /// Constructors of the libraries are not run.
    pub program_dlopen: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void,
    /// Base-namespace `dlsym(RTLD_DEFAULT, name)`.
    pub program_dlsym: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    /// Base-namespace `dlclose`.
    pub program_dlclose: unsafe extern "C" fn(*mut c_void) -> c_int,
    /// Writes the addresses of libc's procedures to an array.
    ///
    /// The order is that of
    /// [`libc_procedures::LIBC_PROCEDURES`](crate::libc_procedures::LIBC_PROCEDURES).
    pub program_libc_procedures: unsafe extern "C" fn(*mut *mut c_void),
    /// Routes the calling thread's calls of libc's procedures to the runtime (true) or libc
    /// (false).
    pub record_libc_procedures: unsafe extern "C" fn(bool),
    /// Hides the destructors of a base-namespace library that is about to be closed.
    ///
    /// The argument is a `struct link_map *`.
    pub program_hide_destructors: unsafe extern "C" fn(*const c_void),
    /// Addresses for the next libraries that ld.so maps for the program side.
    ///
    /// The addresses are in order; 0 ends the list.
    pub library_addresses: *mut [usize; MAX_LIBRARY_ADDRESSES],
    /// ld.so's writable data: first address and length.
    pub loader_data: (usize, usize),
    /// Memory that ld.so has allocated for the program side.
    pub loader_heap: LoaderHeap,
    /// Base-namespace `dl_iterate_phdr`.
    pub program_iterate_phdr:
        unsafe extern "C" fn(callback: *const c_void, data: *mut c_void) -> c_int,
    /// Sixteen integers of the program side, the values of predefined attributes.
    ///
    /// The address of the integers is equal in every rank.
    pub attribute_cells: *mut c_int,
    /// Code that stops threads of the program.
    pub stop: StopCode,
    /// State and code of the MPI lock.
    pub mpi_lock: MpiLockCode,
    /// Word with the address of the entry for procedures with at most six arguments.
    ///
    /// Thunks read the word at each call, and enter with the slot in eax.
    pub entry: *const usize,
}
