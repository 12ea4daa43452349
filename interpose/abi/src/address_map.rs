//! Map of the addresses, descriptors and pthread keys of a process.
//!
//! ```text
//!   0x0000_0002_0000  stub page: target of the patched `mmap` instructions
//!   0x0000_0040_0000… the program, its heap (user side)
//!   0x1f00_0000_0000  ld.so's heap on behalf of the user side
//!   0x1f80_0000_0000  ld.so's heap on behalf of the runtime side
//!   0x2000_0000_0000  the zone, first half: every mapping of the runtime
//!   0x2400_0000_0000  second half: every mapping of the MPI library and its libc
//!   0x2800_0000_0000  end of the zone
//!   0x7fff_…          the user side's libraries, maps and stack, placed by the kernel
//! ```

use core::ffi::c_int;

/// First address of the zone that holds every mapping of the runtime side.
pub const ZONE_START: usize = 4 << ZONE_SHIFT;
/// First address past the zone.
pub const ZONE_END: usize = 5 << ZONE_SHIFT;
/// Start of the zone's second half, with every mapping of the MPI library's side.
///
/// The first half holds those of the runtime.
pub const MPI_ZONE_START: usize = ZONE_START + (ZONE_END - ZONE_START) / 2;
/// Shift of the test for the zone: `address >> ZONE_SHIFT == ZONE_TAG` holds exactly there.
///
/// Assembly tests the stack pointer that way.
pub const ZONE_SHIFT: u32 = 43;
pub const ZONE_TAG: usize = ZONE_START >> ZONE_SHIFT;

/// Page that receives the patched `mmap`, `mremap` and `shmat` instructions.
///
/// The page lies below 4 GiB and below any program.
pub const STUB_PAGE: usize = 0x2_0000;

/// ld.so's heap for the user side: link maps, TLS blocks of libraries opened late.
pub const USER_LD_HEAP: usize = 0x1f00_0000_0000;
/// ld.so's heap for the runtime side.
pub const RUNTIME_LD_HEAP: usize = 0x1f80_0000_0000;
/// Size of each of the two heaps of ld.so.
pub const LD_HEAP_SIZE: usize = 1 << 30;

/// The stack that the runtime runs on when the application's main thread has entered MPI.
pub const RUNTIME_STACK: usize = ZONE_START + (1 << 30);
/// Size of that stack, in bytes.
pub const RUNTIME_STACK_SIZE: usize = 16 << 20;

/// First descriptor number of the runtime side; those below are the user side's.
pub const RUNTIME_FD_BASE: c_int = 600;
/// First descriptor number of the MPI library; those below are the runtime's.
pub const MPI_FD_BASE: c_int = 768;

/// First pthread key of the runtime; those below belong to the user side.
///
/// The libcs number keys independently but share the slots of the thread's control block.
pub const RUNTIME_FIRST_KEY: u32 = 512;
/// First pthread key of the MPI library's side.
pub const MPI_FIRST_KEY: u32 = 768;

const _: () = assert!(ZONE_START == 0x2000_0000_0000 && ZONE_END == 0x2800_0000_0000);
const _: () = assert!(
    RUNTIME_LD_HEAP + LD_HEAP_SIZE <= ZONE_START && USER_LD_HEAP + LD_HEAP_SIZE <= RUNTIME_LD_HEAP
);
const _: () = assert!(RUNTIME_STACK + RUNTIME_STACK_SIZE < ZONE_END);
