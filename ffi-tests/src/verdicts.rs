//! Many runs, one verdict: all runs are made, then all failures are reported.

use std::any::Any;
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
            let message = panic_message(&*panic);
            let line = message.lines().next().unwrap_or_default();
            self.failed.push(format!("{what}: {line}"));
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

/// Message of a panic: a `String`, or a `&str` if the message is a literal.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let literal = || panic.downcast_ref::<&str>().copied();
    let formatted = panic.downcast_ref::<String>().map(String::as_str);
    formatted
        .or_else(literal)
        .unwrap_or("a panic without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_panics_are_listed() {
        let mut verdicts = Verdicts::default();
        let number = 7;
        verdicts.judge("literal", || panic!("a literal"));
        verdicts.judge("formatted", || panic!("number {number}\nand a second line"));
        verdicts.judge("good", || {});
        assert_eq!(
            verdicts.failed,
            ["literal: a literal", "formatted: number 7"]
        );
        assert_eq!(verdicts.count, 3);
    }
}
