//! What the face, the shim and the runtime agree on: the map of addresses and the structures that cross between them.
//!
//! The three libraries live in three link-map namespaces with a libc each (the shim in two of them), so nothing but plain data and function
//! pointers may cross. Everything here is `no_std`, has a fixed layout and is built into all three of them.
//!
//! ```text
//!   0x0000_0002_0000  stub page: where the patched `mmap` instructions jump to
//!   0x0000_0040_0000… the program, its heap (user side)
//!   0x1f00_0000_0000  ld.so's heap on behalf of the user side
//!   0x1f80_0000_0000  ld.so's heap on behalf of the runtime side
//!   0x2000_0000_0000  the zone, first half: every mapping of the runtime
//!   0x2400_0000_0000  second half: every mapping of the MPI library and its libc
//!   0x2800_0000_0000  end of the zone
//!   0x7fff_…          the user side's libraries, maps and stack, where the kernel puts them
//! ```
#![no_std]

use core::ffi::{c_char, c_int, c_void};

/// Version of the structures below; the runtime refuses a face of another one. Bump it with any change of layout.
pub const ABI_VERSION: u32 = 23;

/// First address of the zone that holds every mapping of the runtime side.
pub const ZONE_START: usize = 4 << ZONE_SHIFT;
/// First address past the zone.
pub const ZONE_END: usize = 5 << ZONE_SHIFT;
/// The zone's second half holds every mapping of the MPI library's side, the first half those of the runtime.
pub const MPI_ZONE_START: usize = ZONE_START + (ZONE_END - ZONE_START) / 2;
/// `address >> ZONE_SHIFT == ZONE_TAG` exactly in the zone; assembly tests the stack pointer that way.
pub const ZONE_SHIFT: u32 = 43;
pub const ZONE_TAG: usize = ZONE_START >> ZONE_SHIFT;

/// Page that receives the patched `mmap`, `mremap` and `shmat` instructions; below 4 GiB, below any program.
pub const STUB_PAGE: usize = 0x2_0000;

/// ld.so's heap for what the user side makes it allocate (link maps, TLS blocks of libraries opened late).
pub const USER_LD_HEAP: usize = 0x1f00_0000_0000;
/// ld.so's heap for the runtime side.
pub const RUNTIME_LD_HEAP: usize = 0x1f80_0000_0000;
/// Size of each of the two.
pub const LD_HEAP_SIZE: usize = 1 << 30;

/// The stack that the runtime runs on when the application's main thread has entered MPI.
pub const RUNTIME_STACK: usize = ZONE_START + (1 << 30);
/// Its size in bytes.
pub const RUNTIME_STACK_SIZE: usize = 16 << 20;

/// First descriptor number of the runtime side; the user side has all below to itself.
pub const RUNTIME_FD_BASE: c_int = 600;
/// First descriptor number of the MPI library; the runtime has those below to itself.
pub const MPI_FD_BASE: c_int = 768;

/// The pthread keys below this one belong to the user side, those from it on to the runtime: the libcs number them
/// independently but share the slots of the thread's control block.
pub const RUNTIME_FIRST_KEY: u32 = 512;
/// The pthread keys from this one on belong to the MPI library's side.
pub const MPI_FIRST_KEY: u32 = 768;

/// Marks the address of a callback as that of a closure: a block in the program's memory, the first word of which is the address of the code. The code
/// gets the block as its fifth argument.
pub const CLOSURE: usize = 1 << 63;

/// How attributes of Fortran are told from those of C, in calls of C procedures (MPI 4.1, 19.3.7).
pub mod fortran {
    /// Is added to a key of the program: the value is an integer of the size of an address.
    pub const KEY: core::ffi::c_int = 1 << 28;
    /// Marks the address of a key's copy function: this one and the delete function get such integers, and give them.
    pub const FUNCTION: usize = super::CLOSURE;
}

/// How the shim is to behave in its namespace.
#[repr(C)]
pub struct ShimStart {
    /// Null-terminated array of `NAME=value` that lives as long as the process.
    pub environment: *const *const c_char,
    /// New descriptors are moved to this number or above.
    pub first_descriptor: c_int,
    /// pthread keys below this one are not used.
    pub first_key: u32,
    /// Stands for descriptor 1: what the MPI library prints does not pass through the relay. 1 in
    /// the runtime's namespace.
    pub output: c_int,
    /// Stands for descriptor 2, in the same way.
    pub errors: c_int,
    /// Set to which the namespace adds its descriptors.
    pub layers: *const layers::LayersDescriptors,
}

/// Exit statuses of a job that the layer ends (after sysexits.h).
pub mod exit {
    use core::ffi::c_int;

    /// The program dies at one place again and again (EX_DATAERR).
    pub const PROGRAM: c_int = 65;
    /// An error inside the layer (EX_SOFTWARE).
    pub const INTERNAL: c_int = 70;
    /// The program's state could not be saved or put back (EX_IOERR).
    pub const UNSAVED: c_int = 74;
    /// A failure could not be recovered from (EX_TEMPFAIL).
    pub const LOST: c_int = 75;
    /// The job could not be protected, and `UNDERSTUDY_REQUIRE=1` (EX_CONFIG).
    pub const REFUSED: c_int = 78;
}

/// What a call of MPI waits for: a byte that every call clears when it begins.
pub mod wait {
    /// For nothing that is known.
    pub const BEGUN: u8 = 0;
    /// It is about to block until messages have come or gone, which is mostly soon.
    pub const BLOCKS: u8 = 1;
    /// The same, but a program may also make it again and again until something has changed.
    pub const RETURNS: u8 = 3;
    /// It has looked for messages in vain.
    pub const LOOKED: u8 = 2;
}

pub mod assembly;
pub mod call_sites;
pub mod child_effects;
pub mod control_block;
pub mod kernel_aio;
pub mod kernel_use;
pub mod layers;
pub mod limits;
pub mod process_number;
pub mod processor_time;
pub mod source;
pub mod system_v;
pub mod turn;
pub mod written;

/// Room for addresses of libraries, with the 0 that ends the list.
pub const LIBRARY_PLACES: usize = 256;

/// Bytes before every block of ld.so's heaps: the binary logarithm of its size, and whether it is a link map.
pub const LD_HEAP_HEADER: usize = 16;
/// Number of size classes: powers of two.
pub const LD_HEAP_CLASSES: usize = 28;
/// Each heap is divided into so many regions, one for each class.
pub const LD_HEAP_REGIONS: usize = 32;

/// The user side's part of ld.so's heap, and where its next blocks are to lie.
#[repr(C)]
pub struct LoaderHeap {
    /// The heap's own books, which belong to its content.
    pub state: *mut u8,
    pub state_length: usize,
    /// Bytes in use at the beginning of each region, of the user side's heap and of the runtime side's.
    pub used: [*const [usize; LD_HEAP_CLASSES]; 2],
    /// How often anything was allocated or released for the user side.
    pub changes: *const usize,
    /// Takes this very block out of the free ones; false if it is in use.
    pub reserve: unsafe extern "C" fn(usize) -> bool,
    /// Reserved blocks for the next link maps, in order; 0 ends the list.
    pub link_maps: *mut [usize; LIBRARY_PLACES],
    /// A reserved block for the next request for anything else; 0: none.
    pub next_block: *mut usize,
}

/// What the face tells the shim and the runtime. What it points to lives as long as the process.
#[repr(C)]
pub struct BootInfo {
    /// [`ABI_VERSION`] of the face.
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
    /// Address that each data symbol of libmpi has on the user side, in the order of the call table.
    pub data_symbols: *const usize,
    /// How many there are.
    pub data_symbol_count: usize,
    /// Handle of the MPI library (dlmopen(3)), in its own namespace.
    pub mpi: *mut c_void,
    /// Handle of the shim of that namespace.
    pub mpi_shim: *mut c_void,
    /// A copy of the original standard error, which does not pass through the relay: for our own messages.
    pub messages: c_int,
    /// A copy of the original standard output, which does not pass through the relay.
    pub output: c_int,
    /// Stands for descriptor 1 in the MPI library's namespace ([`ShimStart::output`]).
    pub library_output: c_int,
    /// Registers a function to be called when the program ends by exit(3), on the runtime's stack, and one for when it ends
    /// by _exit(2), in which nothing may be done but what is safe in a signal handler; and one that says whether exit(3) is to make a call
    /// of the slot [`source::LEAVE`] first.
    pub call_at_exit: unsafe extern "C" fn(
        unsafe extern "C" fn(c_int),
        unsafe extern "C" fn(c_int),
        unsafe extern "C" fn() -> bool,
    ),
    /// Number of threads that the user side has created so far (updated by the face).
    pub user_threads: *const u32,
    /// Number of its timers that start threads, each of which counts as a thread, too.
    pub user_timer_threads: *const u32,
    /// Number of mappings that the user side has made so far and that other processes may share (updated by the face).
    pub user_shared_maps: *const u32,
    /// How many protection keys the user side has asked for.
    pub user_keys: *const u32,
    /// Calls of the user side that leave state in the kernel (updated by the face).
    pub user_kernel: *const kernel_use::KernelUse,
    /// The process number that the user side sees.
    pub user_number: *const process_number::SeenNumber,
    /// Processor time and resource usage that the user side sees beside its own.
    pub user_time: *const processor_time::CarriedTime,
    /// Lets calls of the user side see that time. Without a call, the kernel's is seen.
    pub carry_user_time: unsafe extern "C" fn(),
    /// Base-namespace `dlopen`, for libraries that an understudy must open again: their constructors are not run.
    pub user_dlopen: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void,
    /// Base-namespace `dlsym(RTLD_DEFAULT, name)`.
    pub user_dlsym: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    /// Base-namespace `dlclose`.
    pub user_dlclose: unsafe extern "C" fn(*mut c_void) -> c_int,
    /// Writes the addresses of libc's procedures that [`source::SOURCES`] names.
    pub user_sources: unsafe extern "C" fn(*mut *mut c_void),
    /// Whether the calling thread's calls of these enter the runtime from now on.
    pub watch_user_sources: unsafe extern "C" fn(bool),
    /// Hides the destructors of a library of the base namespace (`struct link_map *`), which is about to be closed.
    pub user_hide_destructors: unsafe extern "C" fn(*const c_void),
    /// Addresses for the next libraries that ld.so maps for the user side, in order; 0 ends the list.
    pub library_places: *mut [usize; LIBRARY_PLACES],
    /// ld.so's writable data: first address and length.
    pub loader_data: (usize, usize),
    /// What ld.so has allocated for the user side.
    pub loader_heap: LoaderHeap,
    /// Base-namespace `dl_iterate_phdr`.
    pub user_iterate: unsafe extern "C" fn(callback: *const c_void, data: *mut c_void) -> c_int,
    /// Sixteen integers on the user side, at the same address in every rank, for predefined attributes.
    pub attribute_cells: *mut c_int,
    /// Where threads of the program are stopped.
    pub stop: StopCode,
    /// Where threads of the program take turns.
    pub turns: turn::TurnCode,
    /// Where thunks of procedures with up to six arguments jump, with the slot in `eax`; looked at anew at each call.
    pub entry: *const usize,
}

/// SIGSETXID of glibc: a program cannot block it by libc's functions. Threads of the program are stopped by it.
pub const STOP_SIGNAL: c_int = 33;

/// Mask of the signals that threads of the runtime and MPI sides do not block.
///
/// A thread causes these signals itself (SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV,
/// SIGSYS); two more are glibc's. All others are the program's: the kernel would give one that the
/// program has blocked to such a thread.
pub const OWN_SIGNALS: u64 = {
    const NUMBERS: [u32; 9] = [4, 5, 6, 7, 8, 11, 31, 32, 33];
    let mut mask = 0;
    let mut at = 0;
    while at < NUMBERS.len() {
        mask |= 1 << (NUMBERS[at] - 1);
        at += 1;
    }
    mask
};

/// Addresses in the code that stops threads: a handler of [`STOP_SIGNAL`] for signals of which the value is the address of a word
/// with a stack to be used. It calls `park(value, frame)`, which returns the frame to go on from, and whether the interrupted
/// system call is continued. A frame begins with a return address, `ucontext_t` follows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StopCode {
    pub handler: usize,
    /// From here to `leave` the system call is continued, on the thread's own stack, whose top is the frame.
    pub restart: usize,
    pub restarted: usize,
    /// What it returned is in the frame.
    pub noted: usize,
    /// The frame is to be returned to; the stack pointer is its address.
    pub leave: usize,
    /// The same, eight bytes higher; also the kernel's way back from handlers (`sa_restorer`).
    pub restorer: usize,
    pub end: usize,
    /// Where the address of `park` is to be put; as long as it is 0, nobody is stopped.
    pub park: *mut usize,
    /// The handler for all other signals of this number.
    pub others: *mut usize,
}

/// How many entries there are for thunks.
pub const ENTRIES: usize = 3;

/// What the runtime hands back.
#[repr(C)]
pub struct EntryPoints {
    /// [`ABI_VERSION`] of the runtime.
    pub version: u32,
    /// Number of slots of its dispatch table; must equal the face's.
    pub slot_count: u32,
    /// Where the thunks jump, with the slot's number in `eax` and the caller's registers untouched: one entry for each
    /// number of stack arguments that the call table tells apart (`STACK_WORDS` of the generated source).
    pub enter: [*const c_void; ENTRIES],
    /// What the face calls before an effect on files ([`effect::Hook`]); it may be called from any stack and thread.
    pub file_effect: *const c_void,
    /// What is known of the program's descriptors; it lives as long as the process.
    pub written: *const written::Written,
    /// What the face calls when the program dies of a signal ([`FatalHook`]); in a signal handler.
    pub fatal_signal: *const c_void,
    /// Function to be called after each `pthread_cancel`(3), on any thread and stack.
    ///
    /// libc may have registered its own handler of SIGCANCEL.
    pub cancelled: *const c_void,
    /// Where procedures that [`source::SOURCES`] names enter, with their slots behind those of the call table in `eax`.
    pub source: *const c_void,
}

/// Signal, `siginfo_t`, `ucontext_t`. Whether the default action of the signal is to follow.
pub type FatalHook = unsafe extern "C" fn(c_int, *const c_void, *mut c_void) -> bool;

/// Effects on files and on the loaded libraries that the face tells the runtime of, before they happen.
pub mod effect {
    use core::ffi::{c_char, c_int};

    /// Kind; descriptor of a directory (or AT_FDCWD) and name relative to it; the same once more for a second name; and
    /// a value that depends on the kind.
    pub type Hook = unsafe extern "C" fn(u32, c_int, *const c_char, c_int, *const c_char, i64);

    /// A file is opened; the value is open(2)'s flags.
    pub const OPEN: u32 = 1;
    /// The name is changed into the second one; the value is renameat2(2)'s flags.
    pub const RENAME: u32 = 2;
    /// The name is removed; the value says of what: [`FILES`], [`DIRECTORIES`] or both.
    pub const REMOVE: u32 = 3;
    /// The name is made; the value says of what.
    pub const CREATE: u32 = 4;
    /// The size of the file becomes the value.
    pub const TRUNCATE: u32 = 5;
    /// The same for an open file; the directory's descriptor is the file's.
    pub const FTRUNCATE: u32 = 6;
    /// dlopen(3) of the name; the value is its flags.
    pub const OPEN_LIBRARY: u32 = 7;
    /// dlclose(3); the value is the handle.
    pub const CLOSE_LIBRARY: u32 = 8;
    /// A part of an open file is overwritten; the directory's descriptor is the file's, the value the address of a [`Part`].
    pub const OVERWRITE: u32 = 9;
    /// The same by way of a mapping.
    pub const MAP: u32 = 10;

    /// An attribute of the inode changes; the second name is that of an extended attribute. Without
    /// a first name, the directory's descriptor is the file's. The value is 0 or [`NO_FOLLOW`].
    pub const ATTRIBUTE: u32 = 11;
    /// A symbolic link is meant itself.
    pub const NO_FOLLOW: i64 = 1;
    /// The calling thread's last call that was to make a name has returned.
    pub const MADE: u32 = 12;
    /// A System V object has been made.
    ///
    /// The directory's descriptor is its identifier, and the value is its kind
    /// ([`crate::system_v`]).
    pub const OBJECT: u32 = 13;
    /// A child process executes a program without the preload library; the name is that program's.
    pub const UNSEEN_PROGRAM: u32 = 14;
    /// A POSIX message queue of this name has been made.
    ///
    /// The directory's descriptor is that of the queue.
    pub const QUEUE: u32 = 15;

    /// A part of a file, in bytes.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct Part {
        pub offset: u64,
        pub length: u64,
    }

    /// Of anything but a directory.
    pub const FILES: i64 = 1;
    pub const DIRECTORIES: i64 = 2;
}

const _: () = assert!(ZONE_START == 0x2000_0000_0000 && ZONE_END == 0x2800_0000_0000);
const _: () = assert!(
    RUNTIME_LD_HEAP + LD_HEAP_SIZE <= ZONE_START && USER_LD_HEAP + LD_HEAP_SIZE <= RUNTIME_LD_HEAP
);
const _: () = assert!(RUNTIME_STACK + RUNTIME_STACK_SIZE < ZONE_END);

/// For a library without std. The precompiled `core` refers to the unwinder's personality routine, which such a library has to name itself;
/// nothing unwinds there (panics abort), so it is never called. Assembly keeps the symbol hidden.
#[macro_export]
macro_rules! without_unwinder {
    () => {
        #[allow(unsafe_code)]
        mod personality {
            core::arch::global_asm!(
                ".hidden rust_eh_personality",
                ".globl rust_eh_personality",
                "rust_eh_personality:",
                "ud2"
            );
        }
    };
}
