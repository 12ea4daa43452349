//! Directories that only one user can access, and files in them.
//!
//! Data that outlive a process lie in [`in_memory`], one directory (0700) for each user,
//! usually in `/dev/shm`, to which all users can write. The names of jobs can be guessed. Without
//! that directory, any local user could place a FIFO, a link or a huge file where a ledger or an
//! undo log will be created.
//!
//! After a check of such a directory, a process may use paths below it: in a directory with the
//! sticky bit (inode(7)) only its owner and root can rename or remove it. Files that are removed
//! because they were *found*, not because of their names, are removed relative to the descriptor of
//! the directory in which they were found ([`PrivateDirectory::remove_all`]).

mod directory;
mod refused;
mod runtime_directory;

pub use directory::{PrivateDirectory, create_anew, is_own, open_own, open_regular, read_own};
pub use refused::{DirectoryRefusal, RUNTIME_DIR};
pub use runtime_directory::{
    SHARED_MEMORY_DIRECTORY, in_memory, make_in_memory, name_runtime_directory, runtime_variable,
};
