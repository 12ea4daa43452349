//! Directories that only one user can access, and files in them.
//!
//! Data that outlive a process are stored in [`in_memory`], one directory (mode 0700) for each
//! user, usually in `/dev/shm`. All users can write to `/dev/shm`, and the names of jobs can be
//! guessed. So without a private directory, any local user could place a FIFO, a link or a huge
//! file where a ledger or an undo log will be created.
//!
//! Once such a directory has been checked, a process may use paths below it: `/dev/shm` has the
//! sticky bit (inode(7)), so only the owner and root can rename or remove the directory. A cleaner
//! that lists a directory of another user and removes what it finds must not use paths, because
//! that user could exchange the directory for a link meanwhile. It removes files relative to the
//! descriptor of the listed directory ([`PrivateDirectory::remove_all`]).

mod directory;
mod refused;
mod runtime_directory;

pub use directory::{PrivateDirectory, create_anew, is_own, open_own, open_regular, read_own};
pub use refused::{DirectoryRefusal, RUNTIME_DIR};
pub use runtime_directory::{
    SHARED_MEMORY_DIRECTORY, in_memory, make_in_memory, name_runtime_directory, runtime_variable,
};
