//! Failure domains: nodes that fail together.
//!
//! The remaining nodes of a domain that has lost a node are used last.

use crate::{Domain, Node};
use std::collections::BTreeMap;

/// Failure domains of the nodes, and the domains that have lost a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Domains {
    domain_of_node: BTreeMap<Node, Domain>,
    failed: Vec<Domain>,
}

impl Domains {
    pub(super) fn add(&mut self, node: Node, domain: Domain) {
        self.domain_of_node.insert(node, domain);
    }

    pub(super) fn lose(&mut self, node: Node) {
        self.failed.extend(self.domain_of_node.get(&node));
    }

    /// True if any node of this node's failure domain has been lost.
    pub(super) fn has_lost_node(&self, node: Node) -> bool {
        self.domain_of_node
            .get(&node)
            .is_some_and(|domain| self.failed.contains(domain))
    }
}
