//! Fortran procedures of MPI for which Open MPI's own bindings fail in a protected job.
//!
//! Open MPI's Fortran procedures (`libmpi_mpifh`, and on top of it those of the modules `mpi` and
//! `mpi_f08`) call C procedures, which the preload library replaces. Some Fortran procedures,
//! however, dereference handles as pointers into the library. Virtual handles are no such pointers.
//! This library defines these procedures under all names that compilers give them, and is preloaded
//! in front of the bindings. Its procedures call only C procedures, so the runtime need not
//! implement Fortran procedures. One Fortran procedure is called once: `MPI_INITIALIZED`, whose
//! result shows which integer the compiler uses for `.TRUE.`. The data of this library, such as a
//! callback with its extra state, are in the program's heap and are rolled back with the heap.
#![no_std]

extern crate alloc;

mod attributes;
mod callbacks;
mod datareps;
mod datatypes;
mod memory;
mod mpi;
mod requests;
mod strings;

/// Defines each procedure under all its names.
#[allow(unsafe_code)]
macro_rules! names {
    ($($target:path: $($name:ident)+;)*) => { $($(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!("jmp {target}", target = sym $target)
        }
    )+)* };
}

#[allow(
    unsafe_code,
    non_snake_case,
    missing_docs,
    clippy::missing_safety_doc,
    clippy::too_many_arguments
)]
mod generated {
    include!("generated/procedures.rs");
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    memory::abort_process()
}

understudy_abi::without_unwinder!();
