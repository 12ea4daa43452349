//! Reasons for which threads cannot be stopped.

/// Reason for which threads cannot be stopped now.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Deaf {
    /// One does not hear.
    #[error(
        "its thread {0} does not react (a system call of its own blocks signal 33, or waits for a \
         child)"
    )]
    Thread(i32),
    /// One is inside of ld.so.
    #[error("a thread is loading a library")]
    Loader,
    /// More than there is room for.
    #[error("it has more than {0} threads")]
    Many(usize),
}
