//! Files (MPI 4.1, chapter 14), which the runtime implements without the real library.
//!
//! After a rollback a file is opened by the name that it had at the cut; it is never created or
//! truncated. Data written since then are undone with all other effects on files (`user::undo`);
//! this module resets the shared pointer.

mod file_entries;
mod files_at_cut;
pub mod layout;
mod local_file;
mod open_file;
pub mod pointer;
mod registered;
pub mod representation;

pub use file_entries::{
    descriptor, enter, forget_open, get, get_mut, handle, index, layout, open, remove, set_layout,
};
pub use files_at_cut::{Failed, check_nodes, have_names, is_on_one_node, note, put_back};
pub use local_file::LocalFile;
pub use open_file::{File, Pointer, Representation, Split, View, mode};
pub use registered::Registered;
