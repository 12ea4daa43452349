//! Threads of the launcher.

/// Starts a thread.
///
/// `std::thread::spawn` panics where no more threads are allowed.
///
/// # Errors
/// Errors of pthread_create(3).
pub fn spawn_thread(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().spawn(run).map(drop)
}
