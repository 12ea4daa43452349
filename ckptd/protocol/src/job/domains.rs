//! Domains: nodes that fail together, of which what is left is used last.

use crate::{Domain, Node};
use std::collections::BTreeMap;

/// The domain of each node that has one, and which of them have lost a node.
#[derive(Debug, Default)]
pub(super) struct Domains {
    of: BTreeMap<Node, Domain>,
    failed: Vec<Domain>,
}

impl Domains {
    pub(super) fn add(&mut self, node: Node, domain: Domain) {
        self.of.insert(node, domain);
    }

    pub(super) fn lose(&mut self, node: Node) {
        self.failed.extend(self.of.get(&node));
    }

    /// Whether another node of this one's domain has been lost.
    pub(super) fn have_failed_around(&self, node: Node) -> bool {
        self.of
            .get(&node)
            .is_some_and(|domain| self.failed.contains(domain))
    }
}
