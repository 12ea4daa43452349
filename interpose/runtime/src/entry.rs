//! Where the program comes in: MPI calls, and what the face tells of its effects on files.

mod program;
mod x86_64;

pub use x86_64::{ENTRIES, enter_counted, file_effect, fill_dispatch};
