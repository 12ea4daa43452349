//! Files (MPI 4.1, chapter 14), which the runtime implements without the real library.
//!
//! A rollback opens a file by the name that it had at the cut, and never creates or truncates the
//! file. The undo log (`user::undo`) restores data that were overwritten since the cut, as for all
//! other files; this module restores the shared pointer.

mod file_entries;
mod files_at_cut;
pub mod layout;
mod local_file;
mod open_file;
mod registered_representation;
pub mod representation;
pub mod shared_pointer;

pub use file_entries::{
    descriptor, discard_local, enter, get, get_mut, handle, index, layout, open, remove, set_layout,
};
pub use files_at_cut::{
    FileError, check_names, check_nodes, is_on_one_node, record_at_cut, restore,
};
pub use local_file::LocalFile;
pub use open_file::{FileView, OpenFile, Representation, SharedPointer, SplitCollective, mode};
pub use registered_representation::RegisteredRepresentation;
