//! Reasons why threads cannot be stopped.

/// Reason why threads cannot be stopped now.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Deaf {
    /// A thread does not react to the signal.
    #[error(
        "its thread {0} does not react (a system call of its own blocks signal 33, or waits for a \
         child)"
    )]
    Thread(i32),
    /// A thread executes code of ld.so.
    #[error("a thread is loading a library")]
    Loader,
    /// Number of threads exceeds the number of slots.
    #[error("it has more than {0} threads")]
    Many(usize),
}
