//! Preload library: the library in LD_PRELOAD, which stands in for libmpi in the program.
//!
//! The code uses no std and no heap, and starts no lasting thread. While it calls functions outside
//! of this library, it holds no lock but the MPI lock. Its constructor is the first one of the
//! process. An MPI program that no launcher has started is executed again without the library. The
//! library protects no other process than a rank; a child of a rank reports effects on files.
//!
//! - `boot` decides whether and how to protect the process; `bypass` bypasses protection and
//!   runs the program without this library;
//! - `environ` gives the stacks of all ranks equal addresses; `zone` and `ldheap` separate
//!   the memory of the runtime and MPI sides;
//! - `link` reads ld.so's lists; `entry` has the targets of the thunks; `thunks` is generated
//!   from the call table;
//! - `limits` refuses programs in an environment in which protection is impossible;
//! - `late_mpi` prepares programs that load MPI while they run;
//! - `mpi_reopening` handles programs that open libmpi themselves;
//! - `profiler` keeps libraries that wrap MPI's procedures in front of this one; `fortran` adds
//!   understudy's library with Fortran procedures;
//! - `shared_mappings` counts mappings that other processes may share;
//! - `exec` handles exec(3): the process remains the rank, with the new program;
//! - `fatal_signals` handles signals that terminate the program; `at_exit` and
//!   `immediate_exit` handle its exit;
//! - `forked_children` closes descriptors of the MPI side in children that the program forks;
//! - `stop` contains the code that stops threads of the program;
//! - `mpi_lock` contains the MPI lock, with which any thread can call MPI, `mpi_lock_entry` the
//!   entry of calls that take the lock;
//! - `effect_reports` reports effects to the runtime: `files` reports changes of files and names,
//!   `overwrites` reports overwritten parts of files;
//! - `relay` starts the process that forwards the rank's standard output and error, each byte
//!   exactly once.
#![no_std]

mod at_exit;
mod auxv;
mod boot;
mod bypass;
mod cancellation;
mod child_effects;
mod closing;
mod directories;
mod effect_reports;
mod entry;
mod environ;
mod environment_block;
mod exclusive_creation;
mod exec;
mod fatal_signals;
mod files;
mod forked_children;
mod fortran;
mod futex_lock;
mod guardian;
mod hash_seed;
mod heap;
mod immediate_exit;
mod inodes;
mod kernel_aio;
mod kernel_use;
mod late_mpi;
mod launched;
mod ldheap;
mod libc;
mod libc_procedures;
mod libpath;
mod limits;
mod link;
mod load;
mod lost_environment;
mod messages;
mod mpi_lock;
mod mpi_lock_entry;
mod mpi_reopening;
#[cfg(feature = "mpich")]
mod mpich;
mod nested_launcher;
mod overwrites;
mod passive_libraries;
mod pid_namespace;
mod posix_queues;
mod process_number;
mod processes;
mod processor_time;
mod profiler;
mod program_namespace;
mod raw_calls;
mod recorded_process;
mod relay;
mod saved_environment;
mod shared_mappings;
mod stack;
mod stop;
mod sys;
mod system_v;
mod temporary;
mod threads;
mod thunks;
mod unpreloadable;
mod unprepared;
mod unseen_programs;
mod zone;

use core::ffi::{c_char, c_int};
use understudy_catalogue::message;

#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code)]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *const *const c_char, *mut *const c_char) =
    construct;

/// Constructor, which ld.so calls with main()'s arguments.
///
/// Source: System V ABI, "Initialization and Termination Functions".
#[allow(unsafe_code)]
unsafe extern "C" fn construct(argc: c_int, argv: *const *const c_char, envp: *mut *const c_char) {
    // SAFETY: ld.so calls the constructor once, with the kernel's arrays, which no other code than
    // ld.so has used.
    unsafe { boot::start(argc, argv, envp) }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    messages::print(&message::internal_error(info));
    sys::exit(understudy_catalogue::exit_status::INTERNAL)
}

understudy_abi::without_unwinder!();
