//! Start-up data that the face hands to the shim and the runtime.

use crate::kernel_use::KernelUse;
use crate::loader_heap::{LIBRARY_PLACES, LoaderHeap};
use crate::process_number::SeenNumber;
use crate::processor_time::CarriedTime;
use crate::stop_code::StopCode;
use crate::turn::TurnCode;
use core::ffi::{c_char, c_int, c_void};

/// Start-up data of the shim and the runtime, from the face.
///
/// Everything that it points to lives as long as the process.
#[repr(C)]
pub struct BootInfo {
    /// [`crate::ABI_VERSION`] of the face.
    pub version: u32,
    /// 1 if a failure to protect must stop the job (`UNDERSTUDY_REQUIRE`).
    pub require: u32,
    /// 1 if the runtime must not say why it refuses: the program may have nothing to do with MPI.
    pub quiet: u32,
    /// The environment as the launcher gave it: null-terminated array of `NAME=value`.
    pub environment: *const *const c_char,
    /// `argc` of the program.
    pub argc: c_int,
    /// `argv` of the program (on its stack).
    pub argv: *const *const c_char,
    /// Path of the program's file.
    pub program: *const c_char,
    pub directory: *const c_char,
    /// The auxiliary vector's `AT_BASE`: where ld.so is mapped.
    pub loader_base: usize,
    /// Length of ld.so's mapping.
    pub loader_length: usize,
    /// First address of the face's own mapping.
    pub face_base: usize,
    /// Length of the face's own mapping.
    pub face_length: usize,
    /// Highest address of the main thread's stack, which holds argv and the environment.
    pub stack_end: usize,
    /// The head of the base namespace's link maps (`struct link_map *`).
    pub link_map: *const c_void,
    /// Address that each data symbol of libmpi has on the user side, in the order of the call
    /// table.
    pub data_symbols: *const usize,
    /// Number of data symbols.
    pub data_symbol_count: usize,
    /// Handle of the MPI library (dlmopen(3)), in its own namespace.
    pub mpi: *mut c_void,
    /// Handle of the shim of that namespace.
    pub mpi_shim: *mut c_void,
    /// Copy of the original standard error, for the layer's messages.
    ///
    /// They do not pass through the relay.
    pub messages: c_int,
    /// Copy of the original standard output, which does not pass through the relay.
    pub output: c_int,
    /// Descriptor in place of 1 in the MPI library's namespace ([`crate::ShimStart::output`]).
    pub library_output: c_int,
    /// Registers three functions for the end of the program.
    ///
    /// The first is called at exit(3), on the runtime's stack; the second at _exit(2), and may do
    /// only what is safe in a signal handler; the third returns true if exit(3) is to make a call
    /// of the slot [`source::LEAVE`](crate::source::LEAVE) first.
    pub call_at_exit: unsafe extern "C" fn(
        unsafe extern "C" fn(c_int),
        unsafe extern "C" fn(c_int),
        unsafe extern "C" fn() -> bool,
    ),
    /// Number of threads that the user side has created so far (updated by the face).
    pub user_threads: *const u32,
    /// Number of the user side's timers that start threads, each of which counts as a thread, too.
    pub user_timer_threads: *const u32,
    /// Number of the user side's mappings so far that other processes may share.
    ///
    /// The face updates it.
    pub user_shared_maps: *const u32,
    /// Number of protection keys that the user side has allocated.
    pub user_keys: *const u32,
    /// Calls of the user side that leave state in the kernel (updated by the face).
    pub user_kernel: *const KernelUse,
    /// The process number that the user side sees.
    pub user_number: *const SeenNumber,
    /// Processor time and resource usage that the user side sees beside its own.
    pub user_time: *const CarriedTime,
    /// Lets calls of the user side see that time; before the first call, they see the kernel's.
    pub carry_user_time: unsafe extern "C" fn(),
    /// Base-namespace `dlopen`, for libraries that a replacement must open again.
    ///
    /// Their constructors are not run.
    pub user_dlopen: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void,
    /// Base-namespace `dlsym(RTLD_DEFAULT, name)`.
    pub user_dlsym: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    /// Base-namespace `dlclose`.
    pub user_dlclose: unsafe extern "C" fn(*mut c_void) -> c_int,
    /// Writes the addresses of the procedures of libc in
    /// [`source::SOURCES`](crate::source::SOURCES).
    pub user_sources: unsafe extern "C" fn(*mut *mut c_void),
    /// Sets if the calling thread's calls of these procedures enter the runtime from now on.
    pub watch_user_sources: unsafe extern "C" fn(bool),
    /// Hides the destructors of a library of the base namespace, which is about to be closed.
    ///
    /// The argument is a `struct link_map *`.
    pub user_hide_destructors: unsafe extern "C" fn(*const c_void),
    /// Addresses for the next libraries that ld.so maps for the user side, in order; 0 ends the
    /// list.
    pub library_places: *mut [usize; LIBRARY_PLACES],
    /// ld.so's writable data: first address and length.
    pub loader_data: (usize, usize),
    /// Memory that ld.so has allocated for the user side.
    pub loader_heap: LoaderHeap,
    /// Base-namespace `dl_iterate_phdr`.
    pub user_iterate: unsafe extern "C" fn(callback: *const c_void, data: *mut c_void) -> c_int,
    /// Sixteen integers on the user side, at the same address in every rank, for predefined
    /// attributes.
    pub attribute_cells: *mut c_int,
    /// Code that stops threads of the program.
    pub stop: StopCode,
    /// Code in which threads of the program take turns.
    pub turns: TurnCode,
    /// Entry for thunks of procedures with up to six arguments, with the slot in `eax`.
    ///
    /// Thunks read it at each call.
    pub entry: *const usize,
}
