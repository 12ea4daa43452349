//! Directories of one user alone, and files in them: names that nobody else can plant.
//!
//! Data that outlive a process lie in [`in_memory`], one directory (0700) for each user, mostly in
//! `/dev/shm`, which everybody may write to. Names of jobs can be guessed: without that directory
//! any local user could put a FIFO, a link or a huge file in the place of a ledger or an undo log
//! before the job does.
//!
//! Who has checked such a directory may use paths below it: in a directory with the sticky bit
//! (inode(7)) nobody but its owner and root can rename or remove it. What is removed because it was
//! *found*, not because of its name, is removed relative to the descriptor of the directory that it
//! was found in ([`Directory::remove_all`]).

mod directory;
mod refused;
mod runtime_directory;

pub use directory::{Directory, create_anew, is_own, open_own, open_regular, read_own};
pub use refused::{RUNTIME_DIR, Refused};
pub use runtime_directory::{
    MEMORY, in_memory, make_in_memory, name_runtime_directory, runtime_variable,
};
