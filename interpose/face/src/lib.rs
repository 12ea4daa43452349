//! The *face*: the library that LD_PRELOAD names, which stands in for libmpi in the program.
//!
//! Rules of this place: no std, no heap, no locks held across calls, no threads of its own. Its
//! constructor is the first of the process. In a process that no MPI launcher started, or whose
//! program does not use MPI, it does nothing.
//!
//! - [`boot`] decides and drives; [`aside`] gives up politely by running the program without us;
//! - [`environ`] makes the stacks of all ranks equal, [`zone`] and [`ldheap`] keep the runtime side
//!   apart;
//! - [`link`] reads ld.so's lists; [`entry`] is where thunks jump, `thunks` is generated from the
//!   call table;
//! - [`limits`] refuses programs where nothing can be protected;
//! - [`late`] is about programs that load MPI in mid-run;
//! - [`reopen`] is for programs that open libmpi themselves;
//! - [`profiler`] lets libraries that wrap MPI's procedures stay in front, [`fortran`] puts one
//!   there;
//! - [`sharing`] counts mappings that other processes may share;
//! - [`exec`] lets what the rank's process executes be the rank;
//! - [`fatal`] is there when the program dies of a signal, [`at_exit`] and [`leave`] when it ends;
//! - [`stop`] is where threads of the program are stopped;
//! - [`turns`] lets any thread call MPI, one at a time;
//! - [`told`] is how the runtime is told of effects: [`files`] tells what the program does to
//!   files, [`overwrites`] what it overwrites in them;
//! - [`relay`] starts the process that carries standard output exactly once.
#![no_std]

mod aside;
mod at_exit;
mod auxv;
mod block;
mod boot;
mod cancellation;
mod child_effects;
mod closing;
mod directories;
mod draws;
mod entry;
mod environ;
mod exec;
mod fatal;
mod files;
mod fortran;
mod guard;
mod heap;
mod inodes;
mod kernel_aio;
mod kernel_use;
mod late;
mod launched;
mod ldheap;
mod leave;
mod libc;
mod libpath;
mod limits;
mod link;
mod load;
mod lock;
#[cfg(feature = "mpich")]
mod mpich;
mod msg;
mod nested;
mod noted;
mod overwrites;
mod passive;
mod pid_namespace;
mod posix_queues;
mod process_number;
mod processes;
mod processor_time;
mod profiler;
mod raw_calls;
mod relay;
mod reopen;
mod saved_environment;
mod services;
mod sharing;
mod sources;
mod stack;
mod stop;
mod stray;
mod sys;
mod system_v;
mod temporary;
mod threads;
mod thunks;
mod told;
mod turns;
mod unpreloadable;
mod unprepared;
mod unseen;
mod zone;

use core::ffi::{c_char, c_int};
use understudy_catalogue::message;

#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code)]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *const *const c_char, *mut *const c_char) =
    construct;

/// ld.so calls constructors with main()'s arguments (System V ABI, "Initialization and Termination
/// Functions").
#[allow(unsafe_code)]
unsafe extern "C" fn construct(argc: c_int, argv: *const *const c_char, envp: *mut *const c_char) {
    // SAFETY: the arguments are the process's own, before anything else has used them.
    unsafe { boot::start(argc, argv, envp) }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    msg::say(&message::internal_error(info));
    sys::exit(understudy_abi::exit::INTERNAL)
}

understudy_abi::without_unwinder!();
