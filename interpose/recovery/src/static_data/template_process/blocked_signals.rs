//! Signals that a template process blocks, but not its children.
#![allow(unsafe_code)]

/// Guard that blocks all signals.
pub struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    /// Blocks all signals.
    pub fn begin() -> BlockedSignals {
        // SAFETY: plain system calls on signal sets of this function.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
            BlockedSignals { before }
        }
    }

    /// Calls `work` with the signal mask from before this guard; then blocks all signals.
    pub fn without_blocking<T>(&self, work: impl FnOnce() -> T) -> T {
        self.restore();
        let result = work();
        // `self` already has the set of signals that its drop restores.
        std::mem::forget(BlockedSignals::begin());
        result
    }

    fn restore(&self) {
        // SAFETY: a plain system call on a signal set of this value.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        self.restore();
    }
}
