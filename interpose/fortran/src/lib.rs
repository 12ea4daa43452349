//! Fortran procedures of MPI that Open MPI's own bindings cannot do in a protected job.
//!
//! Those bindings (`libmpi_mpifh`, and above it those of the modules `mpi` and `mpi_f08`) are
//! wrappers of C procedures, which the layer stands in for; but some look into the library's
//! objects behind a handle. This library is preloaded in front of them, in the second execution of
//! a program that needs them, and has those procedures under all their names. They call the C
//! procedures and nothing else, so the runtime needs to know nothing of Fortran. What they keep (a
//! callback with its context) is in the program's heap, and goes back with it.
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

/// Each procedure under all its names.
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
