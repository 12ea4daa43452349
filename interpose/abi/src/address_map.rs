//! Map of the addresses, descriptors and pthread keys of a process.
//!
//! ```text
//!   0x0000_0002_0000  stub page: code that replaces system calls such as mmap(2)
//!   0x0000_0040_0000… the program and its heap (program side)
//!   0x1f00_0000_0000  ld.so's heap for the program side
//!   0x1f80_0000_0000  ld.so's heap for the runtime side
//!   0x2000_0000_0000  reserved range, first half: every mapping of the runtime
//!   0x2400_0000_0000  second half: every mapping of the MPI library and its libc
//!   0x2800_0000_0000  end of the reserved range
//!   0x7fff_…          the program side's libraries, maps and stack, placed by the kernel
//! ```

use core::ffi::c_int;

/// First address of the reserved range: every mapping of the runtime and MPI sides.
pub const ZONE_START: usize = 4 << ZONE_SHIFT;
/// First address past the reserved range.
pub const ZONE_END: usize = 5 << ZONE_SHIFT;
/// First address of the second half, which contains every mapping of the MPI side.
///
/// The first half contains the mappings of the runtime side.
pub const MPI_ZONE_START: usize = ZONE_START + (ZONE_END - ZONE_START) / 2;
/// Shift of the test for the reserved range: `address >> ZONE_SHIFT == ZONE_TAG`.
///
/// The test is true for exactly the addresses of the range. Assembly code applies the test to the
/// stack pointer.
pub const ZONE_SHIFT: u32 = 43;
/// Upper bits of every address of the reserved range.
pub const ZONE_TAG: usize = ZONE_START >> ZONE_SHIFT;

/// Page of code that replaces the system calls `mmap`, `mremap` and `shmat`.
///
/// The calls are those of ld.so and of the libcs of the runtime and MPI sides. The page lies below
/// 4 GiB, because patched instructions load addresses in the page as 32-bit constants. The page
/// also lies below the addresses of any program.
pub const STUB_PAGE: usize = 0x2_0000;

/// ld.so's heap for the program side: link maps, and TLS of libraries opened by dlopen(3).
pub const PROGRAM_LD_HEAP: usize = 0x1f00_0000_0000;
/// ld.so's heap for the runtime side.
pub const RUNTIME_LD_HEAP: usize = 0x1f80_0000_0000;
/// Size of each of the two heaps of ld.so.
pub const LD_HEAP_SIZE: usize = 1 << 30;

/// Lowest address of the runtime's stack, for MPI calls of the program.
pub const RUNTIME_STACK: usize = ZONE_START + (1 << 30);
/// Size of the runtime's stack in bytes.
pub const RUNTIME_STACK_SIZE: usize = 16 << 20;

/// First descriptor number of the runtime side; lower numbers belong to the program side.
pub const RUNTIME_FD_BASE: c_int = 600;
/// First descriptor number of the MPI side, and end of the runtime side's numbers.
pub const MPI_FD_BASE: c_int = 768;

/// First pthread key of the runtime side; lower keys belong to the program side.
///
/// Each libc numbers its keys independently, but all libcs store the values of a thread's keys in
/// one control block. Equal keys of two sides would therefore have one value.
pub const RUNTIME_FIRST_KEY: u32 = 512;
/// First pthread key of the MPI side, and end of the runtime side's keys.
pub const MPI_FIRST_KEY: u32 = 768;

const _: () = assert!(ZONE_START == 0x2000_0000_0000 && ZONE_END == 0x2800_0000_0000);
const _: () = assert!(
    RUNTIME_LD_HEAP + LD_HEAP_SIZE <= ZONE_START
        && PROGRAM_LD_HEAP + LD_HEAP_SIZE <= RUNTIME_LD_HEAP
);
const _: () = assert!(RUNTIME_STACK + RUNTIME_STACK_SIZE < ZONE_END);
