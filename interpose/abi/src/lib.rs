//! Agreement of the face, the shim and the runtime: the map of addresses, and shared structures.
//!
//! The three libraries live in three link-map namespaces with a libc each (the shim in two of
//! them), so only plain data and function pointers cross. Everything here is `no_std`, has a fixed
//! layout and is built into all three of them.
//!
//! * `address_map`: the addresses, descriptors and keys of the three sides;
//! * [`BootInfo`], [`ShimStart`], [`EntryPoints`]: the structures of the start;
//! * [`StopCode`], [`turn`]: threads of the program;
//! * [`effect`], [`written`], [`source`]: what the program does to files and asks of libc.
#![no_std]

mod address_map;
pub mod assembly;
mod boot_info;
pub mod call_sites;
pub mod child_effects;
pub mod control_block;
pub mod effect;
mod entry_points;
pub mod exit;
pub mod fortran;
pub mod kernel_aio;
pub mod kernel_use;
pub mod layers;
pub mod limits;
mod loader_heap;
pub mod process_number;
pub mod processor_time;
mod shim_start;
pub mod source;
mod stop_code;
pub mod system_v;
pub mod turn;
pub mod wait;
pub mod written;

pub use address_map::{
    LD_HEAP_SIZE, MPI_FD_BASE, MPI_FIRST_KEY, MPI_ZONE_START, RUNTIME_FD_BASE, RUNTIME_FIRST_KEY,
    RUNTIME_LD_HEAP, RUNTIME_STACK, RUNTIME_STACK_SIZE, STUB_PAGE, USER_LD_HEAP, ZONE_END,
    ZONE_SHIFT, ZONE_START, ZONE_TAG,
};
pub use boot_info::BootInfo;
pub use entry_points::{ENTRIES, EntryPoints, FatalHook};
pub use fortran::CLOSURE;
pub use loader_heap::{
    LD_HEAP_CLASSES, LD_HEAP_HEADER, LD_HEAP_REGIONS, LIBRARY_PLACES, LoaderHeap,
};
pub use shim_start::ShimStart;
pub use stop_code::{OWN_SIGNALS, STOP_SIGNAL, StopCode};

/// Version of the structures of this crate, to be bumped with any change of layout.
///
/// The runtime refuses a face of another version.
pub const ABI_VERSION: u32 = 23;

/// Defines the unwinder's personality routine of a library without std.
///
/// The precompiled `core` refers to the routine, so such a library has to name it itself; nothing
/// unwinds there (panics abort), so it is never called. Assembly keeps the symbol hidden.
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
