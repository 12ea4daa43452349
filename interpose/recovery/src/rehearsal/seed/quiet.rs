//! Signals that a seed blocks but for its children.
#![allow(unsafe_code)]

/// Signals that are blocked while this exists.
pub struct Quiet {
    before: libc::sigset_t,
}

impl Quiet {
    /// Blocks all signals.
    pub fn begin() -> Quiet {
        // SAFETY: plain system calls on sets of their own.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
            Quiet { before }
        }
    }

    pub fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        self.end();
        let result = work();
        std::mem::forget(Quiet::begin());
        result
    }

    fn end(&self) {
        // SAFETY: as above.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.end();
    }
}
