//! State of a node that is being drained.

use crate::Node;
use std::collections::BTreeSet;
use std::time::Duration;
use understudy_numbers::ProcessNumber;

/// A node that is being drained.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    pub(super) node: Node,
    /// True if the node was ordered to leave, because processes elsewhere suffice.
    pub(super) is_ordered: bool,
    /// Workers of the node that stand still after a commit.
    pub(super) at_commit: BTreeSet<ProcessNumber>,
    /// Killed workers whose end was not reported yet.
    pub(super) departing: BTreeSet<ProcessNumber>,
    /// Time until which the end of killed workers is awaited.
    pub(super) deadline: Option<Duration>,
}

impl Drain {
    pub(super) fn new(node: Node) -> Drain {
        Drain {
            node,
            is_ordered: false,
            at_commit: BTreeSet::new(),
            departing: BTreeSet::new(),
            deadline: None,
        }
    }

    /// Records that another generation follows, in which the order is given again.
    pub(super) fn forget_commits(&mut self) {
        self.at_commit.clear();
        self.is_ordered = self.deadline.is_some();
    }

    /// Returns the state for a manager to which all processes report again.
    pub(super) fn restarted(&self) -> Drain {
        Drain::new(self.node)
    }
}
