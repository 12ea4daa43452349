//! Signals that a template process blocks, but not its children.
#![allow(unsafe_code)]

/// Guard that blocks all signals.
pub struct Quiet {
    before: libc::sigset_t,
}

impl Quiet {
    /// Blocks all signals.
    pub fn begin() -> Quiet {
        // SAFETY: plain system calls on signal sets of this function.
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
        // SAFETY: a plain system call on a signal set of this value.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.end();
    }
}
