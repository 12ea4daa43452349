//! Files (MPI 4.1, chapter 14): the layer's alone, by pread(2) and pwrite(2).
//!
//! ```text
//!   view            which bytes of the file a process sees
//!   representation  registrations of data representations, which the library gets
//!   extent          how long data are, in memory and in files
//!   places          where the data of a view lie
//!   memory          the program's buffers, as bytes in the order of their type map
//!   access          reads and writes, at whatever pointer
//!   data            the procedures that do so
//!   shared          the shared pointer
//!   hints           what the program says of its use of a file
//!   names           opening, closing and deleting
//!   whole_file      size, group, mode, atomicity, sync
//!   file_failure    errors, and what all procedures have in common
//! ```
//!
//! Data access needs nobody else, but for the shared pointer: a collective is what each process
//! would do alone, and whatever does not block has ended when it returns. So no file has anything
//! under way at a cut. What is written or changed is noted in the undo log first.
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod access;
mod data;
mod extent;
mod file_failure;
mod hints;
mod memory;
mod names;
mod places;
mod representation;
mod shared;
mod view;
mod whole_file;

pub use data::*;
pub use hints::{MPI_File_get_info, MPI_File_set_info};
pub use names::{MPI_File_close, MPI_File_delete, MPI_File_open};
pub use representation::MPI_Register_datarep;
pub use view::{
    MPI_File_get_byte_offset, MPI_File_get_type_extent, MPI_File_get_view, MPI_File_set_view,
};
pub use whole_file::{
    MPI_File_get_amode, MPI_File_get_atomicity, MPI_File_get_group, MPI_File_get_size,
    MPI_File_preallocate, MPI_File_set_atomicity, MPI_File_set_size, MPI_File_sync,
};
