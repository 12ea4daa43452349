//! Files (MPI 4.1, chapter 14), which the runtime implements by pread(2) and pwrite(2).
//!
//! ```text
//!   view            bytes of the file that a process sees
//!   representation  registration of data representations, which the library gets
//!   extent          length of data, in memory and in files
//!   places          offsets of the data of a view
//!   memory          the program's buffers, as bytes in the order of their type map
//!   access          reads and writes, at any pointer
//!   data            procedures that read and write
//!   shared          the shared pointer
//!   hints           hints of the program for a file
//!   names           opening, closing and deleting
//!   whole_file      size, group, mode, atomicity, sync
//!   file_failure    errors, and common functions
//! ```
//!
//! Apart from the shared pointer, data access needs no other process: in a collective each process
//! acts alone. Non-blocking accesses have completed when they return. So no access is in flight at
//! a cut. The undo log records data before they are written or changed.
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
