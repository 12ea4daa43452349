//! Trampolines, and the functions of the program that they call.
//!
//! A reduction that is in progress may still call the function of an operator that has been freed.
//! The trampolines that were released first are therefore reused first.

use super::operator::Function;
use std::collections::VecDeque;

/// Number of trampolines, and so of operators that can exist at a time.
pub(super) const TRAMPOLINES: usize = 256;

/// Functions of the program that the trampolines call.
pub struct Bindings {
    pub(super) functions: [Function; TRAMPOLINES],
    /// Released trampolines, in the order of their releases.
    free: VecDeque<usize>,
    /// Number of trampolines that have never been used.
    untouched: usize,
    /// Trampolines, by the operator's index.
    pub(super) trampoline_of_op: Vec<Option<usize>>,
}

impl Bindings {
    /// Returns the state at the start of the process, in which no trampoline is bound.
    pub const fn start() -> Bindings {
        Bindings {
            functions: [Function {
                address: 0,
                inner: 0,
            }; TRAMPOLINES],
            free: VecDeque::new(),
            untouched: TRAMPOLINES,
            trampoline_of_op: Vec::new(),
        }
    }

    /// Binds a free trampoline to a function.
    pub(super) fn bind(&mut self, function: Function) -> Option<usize> {
        let trampoline = if self.untouched > 0 {
            self.untouched -= 1;
            TRAMPOLINES - 1 - self.untouched
        } else {
            self.free.pop_front()?
        };
        self.functions[trampoline] = function;
        Some(trampoline)
    }

    /// Releases a trampoline; its function stays bound until the trampoline is reused.
    pub(super) fn release(&mut self, trampoline: usize) {
        self.free.push_back(trampoline);
    }

    /// Assigns a bound trampoline to an operator.
    pub(super) fn assign(&mut self, op: u32, trampoline: usize) {
        let op = op as usize;
        if self.trampoline_of_op.len() <= op {
            self.trampoline_of_op.resize(op + 1, None);
        }
        if let Some(old) = self.trampoline_of_op[op].replace(trampoline) {
            self.release(old);
        }
    }

    /// Releases the trampoline of an operator.
    pub(super) fn unassign(&mut self, op: u32) {
        if let Some(trampoline) = self
            .trampoline_of_op
            .get_mut(op as usize)
            .and_then(Option::take)
        {
            self.release(trampoline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bindings, Function, TRAMPOLINES};

    #[test]
    fn trampolines_are_reused_as_late_as_possible() {
        let mut bindings = Bindings::start();
        let at = |address| Function { address, inner: 0 };
        assert_eq!(
            (bindings.bind(at(10)), bindings.bind(at(11))),
            (Some(0), Some(1))
        );
        bindings.assign(3, 0);
        bindings.unassign(3);
        bindings.unassign(3);
        for trampoline in 2..TRAMPOLINES {
            assert_eq!(bindings.bind(at(trampoline as u64)), Some(trampoline));
        }
        assert_eq!(bindings.functions[0].address, 10);
        assert_eq!(bindings.bind(at(99)), Some(0));
        assert_eq!(bindings.functions[0].address, 99);
        assert_eq!(bindings.bind(at(99)), None);
    }
}
