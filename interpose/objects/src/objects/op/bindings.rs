//! Trampolines, and the functions of the program that they call.
//!
//! A reduction that is in progress may still call the function of an operator that has been freed.
//! The trampolines that were released first are therefore reused first.

use super::operator::Function;
use std::collections::VecDeque;

/// Number of operators that can exist at a time.
pub(super) const TRAMPOLINES: usize = 256;

/// Functions of the program that the trampolines call.
pub struct Bindings {
    pub(super) functions: [Function; TRAMPOLINES],
    /// Released trampolines, and the number of trampolines that have never been used.
    free: VecDeque<usize>,
    untouched: usize,
    /// Trampolines, by the operator's index.
    pub(super) of_op: Vec<Option<usize>>,
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
            of_op: Vec::new(),
        }
    }

    /// Binds a free trampoline to a function.
    pub(super) fn take(&mut self, function: Function) -> Option<usize> {
        let number = if self.untouched > 0 {
            self.untouched -= 1;
            TRAMPOLINES - 1 - self.untouched
        } else {
            self.free.pop_front()?
        };
        self.functions[number] = function;
        Some(number)
    }

    /// Releases a trampoline; its function stays bound until it is reused.
    pub(super) fn give_up(&mut self, number: usize) {
        self.free.push_back(number);
    }

    pub(super) fn assign(&mut self, op: u32, number: usize) {
        let op = op as usize;
        if self.of_op.len() <= op {
            self.of_op.resize(op + 1, None);
        }
        if let Some(old) = self.of_op[op].replace(number) {
            self.give_up(old);
        }
    }

    pub(super) fn unassign(&mut self, op: u32) {
        if let Some(number) = self.of_op.get_mut(op as usize).and_then(Option::take) {
            self.give_up(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bindings, Function, TRAMPOLINES};

    #[test]
    fn trampolines_are_used_again_as_late_as_possible() {
        let mut bindings = Bindings::start();
        let at = |address| Function { address, inner: 0 };
        assert_eq!(
            (bindings.take(at(10)), bindings.take(at(11))),
            (Some(0), Some(1))
        );
        bindings.assign(3, 0);
        bindings.unassign(3);
        bindings.unassign(3);
        for number in 2..TRAMPOLINES {
            assert_eq!(bindings.take(at(number as u64)), Some(number));
        }
        assert_eq!(bindings.functions[0].address, 10);
        assert_eq!(bindings.take(at(99)), Some(0));
        assert_eq!(bindings.functions[0].address, 99);
        assert_eq!(bindings.take(at(99)), None);
    }
}
