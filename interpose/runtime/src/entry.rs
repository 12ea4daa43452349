//! Entries from the program: MPI calls, and reports of the preload library about files.

mod interrupt;
mod program;
mod x86_64;

pub use interrupt::register_handlers;
pub use x86_64::{ENTRIES, enter_counted, file_effect, fill_dispatch};
