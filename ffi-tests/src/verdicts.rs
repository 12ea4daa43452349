//! Many runs, one verdict: all runs are made, then all failures are reported.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The failures of a test that makes many runs.
#[derive(Default)]
pub struct Verdicts {
    count: usize,
    failed: Vec<String>,
}

impl Verdicts {
    /// Calls `judge` and records a panic, whose message is printed at once.
    pub fn judge(&mut self, what: &str, judge: impl FnOnce()) {
        self.count += 1;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(judge)) {
            let message = panic
                .downcast_ref::<String>()
                .map_or("?", |message| message.lines().next().unwrap_or("?"));
            self.failed.push(format!("{what}: {message}"));
        }
    }

    /// Fails if any recorded call has panicked.
    ///
    /// # Panics
    /// Panics if any recorded call has panicked, and lists all of them.
    pub fn assert_all_good(self) {
        assert!(
            self.failed.is_empty(),
            "{} of {} failed:\n  {}",
            self.failed.len(),
            self.count,
            self.failed.join("\n  ")
        );
    }
}
