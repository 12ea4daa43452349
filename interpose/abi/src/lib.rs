//! Interface between the preload library, the shim and the runtime: address map and shared
//! structures.
//!
//! The three libraries are in three link-map namespaces with one libc each (the shim is in two of
//! them). For this reason only plain data and function pointers cross the boundaries. This crate is
//! `no_std`, its structures have a fixed layout, and it is built into all three libraries.
//!
//! * `address_map`: addresses, descriptors and keys of the three sides;
//! * [`BootInfo`], [`ShimStart`], [`EntryPoints`]: structures that are passed at the start;
//! * [`StopCode`], [`mpi_lock`]: threads of the program;
//! * [`effect`], [`descriptor_facts`], [`exclusive_creation`], [`libc_procedures`]: the program's
//!   effects on files and its calls of libc.
#![no_std]

mod address_map;
pub mod assembly;
mod boot_info;
pub mod call_sites;
pub mod child_effects;
pub mod control_block;
pub mod descriptor_facts;
pub mod device_files;
pub mod effect;
mod entry_points;
pub mod exclusive_creation;
pub mod fortran;
pub mod kernel_aio;
pub mod kernel_use;
pub mod libc_procedures;
pub mod limits;
mod loader_heap;
pub mod mpi_lock;
pub mod process_number;
pub mod processor_time;
pub mod reserved_descriptors;
mod shim_start;
mod stop_code;
pub mod system_v;
pub mod wait_state;

pub use address_map::{
    LD_HEAP_SIZE, MPI_FD_BASE, MPI_FIRST_KEY, MPI_ZONE_START, PROGRAM_LD_HEAP, RUNTIME_FD_BASE,
    RUNTIME_FIRST_KEY, RUNTIME_LD_HEAP, RUNTIME_STACK, RUNTIME_STACK_SIZE, STUB_PAGE, ZONE_END,
    ZONE_SHIFT, ZONE_START, ZONE_TAG,
};
pub use boot_info::BootInfo;
pub use entry_points::{ENTRIES, EntryPoints, FatalHook};
pub use fortran::CLOSURE;
pub use loader_heap::{
    LD_HEAP_CLASSES, LD_HEAP_HEADER, LD_HEAP_REGIONS, LoaderHeap, MAX_LIBRARY_ADDRESSES,
};
pub use shim_start::ShimStart;
pub use stop_code::{OWN_SIGNALS, STOP_SIGNAL, StopCode};

/// Version of the structures of this crate; to be incremented with any change of layout.
///
/// The runtime refuses a preload library of another version.
pub const ABI_VERSION: u32 = 24;

/// Defines the unwinder's personality routine of a library without std.
///
/// The precompiled `core` refers to the routine, so a library without std has to define the
/// routine. Panics abort, so nothing unwinds and the routine is never called. It is defined in
/// assembly to keep the symbol hidden.
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
