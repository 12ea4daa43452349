//! Files (MPI 4.1, chapter 14), which the runtime implements by pread(2) and pwrite(2).
//!
//! ```text
//!   view            bytes of the file that a process sees
//!   view_layout     offsets of the data of a view
//!   representation  registration of data representations with the library
//!   extent          length of data, in memory and in files
//!   file_memory     the program's buffers, as bytes in the order of their type map
//!   access          reads and writes, at any pointer
//!   data_access     procedures that read and write
//!   shared_pointer  the shared pointer
//!   hints           hints of the program for a file
//!   open_close      opening, closing and deleting
//!   whole_file      size, group, mode, atomicity, sync
//!   file_failure    errors, and common functions
//! ```
//!
//! Apart from the shared pointer and a barrier after collective writes, data access needs no other
//! process: in a collective each process accesses the file itself. Non-blocking accesses are
//! complete when the procedure returns, so no access is in flight at a cut. The undo log records
//! data before they are overwritten.
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod access;
mod data_access;
mod extent;
mod file_failure;
mod file_memory;
mod hints;
mod open_close;
mod representation;
mod shared_pointer;
mod view;
mod view_layout;
mod whole_file;

pub use data_access::*;
pub use hints::{MPI_File_get_info, MPI_File_set_info};
pub use open_close::{MPI_File_close, MPI_File_delete, MPI_File_open};
pub use representation::MPI_Register_datarep;
pub use view::{
    MPI_File_get_byte_offset, MPI_File_get_type_extent, MPI_File_get_view, MPI_File_set_view,
};
pub use whole_file::{
    MPI_File_get_amode, MPI_File_get_atomicity, MPI_File_get_group, MPI_File_get_size,
    MPI_File_preallocate, MPI_File_set_atomicity, MPI_File_set_size, MPI_File_sync,
};
