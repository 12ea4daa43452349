//! The members of a council, and their quorums.

use super::Term;
use crate::Node;
use bincode::{Decode, Encode};
use std::collections::BTreeSet;

/// Version of a roster: the term in which it was made, and its number in that term.
pub type Version = (Term, u32);

/// The members of a council.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Roster {
    version: Version,
    members: BTreeSet<Node>,
    /// Node that is a member as soon as all living members know this roster.
    ///
    /// Until then, quorums with it and without it are needed.
    joining: Option<Node>,
}

impl Roster {
    /// Returns the first roster of a term.
    pub fn new(term: Term, members: BTreeSet<Node>) -> Roster {
        Roster {
            version: (term, 0),
            members,
            joining: None,
        }
    }

    /// Returns the same members in another term.
    ///
    /// A node continues to join: other members may know it as a member already.
    pub(super) fn in_term(&self, term: Term) -> Roster {
        Roster {
            version: (term, 0),
            ..self.clone()
        }
    }

    /// Returns the next roster, in which a node joins.
    pub(super) fn with_joining(&self, node: Node) -> Roster {
        Roster {
            version: (self.version.0, self.version.1 + 1),
            members: self.members.clone(),
            joining: Some(node),
        }
    }

    /// Returns the next roster, in which the joining node is a member; `None` if no node joins.
    pub(super) fn joined(&self) -> Option<Roster> {
        let joining = self.joining?;
        let members = self.members.iter().copied().chain([joining]);
        Some(Roster {
            version: (self.version.0, self.version.1 + 1),
            members: members.collect(),
            joining: None,
        })
    }

    pub fn version(&self) -> Version {
        self.version
    }

    pub fn members(&self) -> &BTreeSet<Node> {
        &self.members
    }

    /// True if a node is joining.
    pub fn is_changing(&self) -> bool {
        self.joining.is_some()
    }

    /// Returns the members and the joining node.
    pub fn all(&self) -> impl Iterator<Item = Node> + '_ {
        self.members.iter().copied().chain(self.joining)
    }

    /// True if `votes` are a quorum without the `dead`.
    pub fn is_quorum(&self, votes: &BTreeSet<Node>, dead: &BTreeSet<Node>) -> bool {
        let is_quorum = |members: BTreeSet<Node>| is_majority(&(&members - dead), votes);
        is_quorum(self.members.clone()) && is_quorum(self.all().collect())
    }
}

/// True if `votes` are more than half of the members, or the half with the first member.
fn is_majority(members: &BTreeSet<Node>, votes: &BTreeSet<Node>) -> bool {
    let agreeing = members.intersection(votes).count();
    let has_first = members.first().is_some_and(|first| votes.contains(first));
    2 * agreeing > members.len() || 2 * agreeing == members.len() && has_first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(nodes: impl IntoIterator<Item = u32>) -> BTreeSet<Node> {
        nodes.into_iter().map(Node).collect()
    }

    /// Returns all sets of nodes below `count`.
    fn subsets(count: u32) -> impl Iterator<Item = BTreeSet<Node>> {
        (0..1u32 << count).map(move |bits| set((0..count).filter(|node| bits >> node & 1 == 1)))
    }

    const TERM: Term = Term {
        number: 1,
        leader: Node(0),
    };

    /// Each side may know other nodes to be dead; the dead vote on neither side.
    #[test]
    fn any_two_quorums_of_living_nodes_have_a_common_node() {
        for count in 1..6 {
            let roster = Roster::new(TERM, set(0..count));
            for (dead, other_dead) in subsets(count)
                .flat_map(|dead| subsets(count).map(move |other_dead| (dead.clone(), other_dead)))
            {
                let living = &(&set(0..count) - &dead) - &other_dead;
                for votes in subsets(count).filter(|votes| votes.is_subset(&living)) {
                    let others = &living - &votes;
                    let both =
                        roster.is_quorum(&votes, &dead) && roster.is_quorum(&others, &other_dead);
                    assert!(!both, "{votes:?} {others:?} {dead:?} {other_dead:?}");
                }
            }
        }
    }

    /// While a node joins, some members know only the earlier roster.
    #[test]
    fn a_quorum_with_a_joining_node_excludes_one_of_the_earlier_members() {
        for count in 1..6 {
            let earlier = Roster::new(TERM, set(0..count));
            let joining = earlier.with_joining(Node(count));
            let joined = joining.joined().unwrap();
            for votes in subsets(count + 1) {
                let others = &set(0..=count) - &votes;
                let none = BTreeSet::new();
                let (is_one, is_other) = (
                    joining.is_quorum(&votes, &none),
                    earlier.is_quorum(&others, &none),
                );
                assert!(!(is_one && is_other), "{votes:?}");
                assert!(!(is_one && joined.is_quorum(&others, &none)), "{votes:?}");
            }
        }
    }
}
