//! Entries from the program: MPI calls, and reports of the preload library about files.

mod outside;
mod program;
mod x86_64;

pub use outside::begin as begin_outside;
pub use x86_64::{ENTRIES, enter_counted, file_effect, fill_dispatch};
