//! Ranks that send arbitrary bytes, for the fuzz target `pmi` and for a test.
//!
//! The ranks use the key spaces of two nodes, without sockets. An honest rank of each node checks
//! that a barrier makes all nodes agree.

use super::key_space::{KeySpace, KeySpaceAction};
use crate::{GenerationName, Namespace, Placement};
use understudy_numbers::Rank;

/// Node of each rank; the last rank of a node is honest.
const NODE_OF_RANK: [usize; 6] = [0, 0, 0, 1, 1, 1];
const HONEST_RANKS: [Rank; 2] = [Rank(2), Rank(5)];
/// Keys whose values are compared after each barrier.
const KEYS: [&str; 3] = ["k", "l", "PMI_process_mapping"];
/// Limit of the length of an answer.
///
/// The longest published port is a line of a client.
const LONGEST_ANSWER: usize = (128 << 10) + 100;

/// Key space of a node.
struct NodeSpace {
    space: KeySpace,
    /// Data of the barrier in which all ranks of the node wait.
    fence: Option<Vec<u8>>,
    /// True if a rank has sent something while it should have waited in the barrier.
    is_disturbed: bool,
}

/// Makes ranks act as the bytes describe.
///
/// Each step begins with two bytes: the rank and its action, and the length of the data that
/// follow.
pub fn drive(mut bytes: &[u8]) {
    let mut nodes = [0, 1].map(NodeSpace::new);
    enter_barrier(&mut nodes);
    while let [what, length, rest @ ..] = bytes {
        let (data, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        let rank = [0, 1, 3, 4][usize::from(*what) % 4];
        let node = &mut nodes[NODE_OF_RANK[rank]];
        let rank = Rank(rank as u32);
        match *what / 4 % 8 {
            0 => node.space.forget(rank),
            1 => check_answers(node.space.spawned(rank, data.is_empty())),
            2 => node.take(rank, data),
            _ => node.take(rank, &[data, b"\n"].concat()),
        }
        end_barrier(&mut nodes);
    }
}

impl NodeSpace {
    fn new(here: usize) -> NodeSpace {
        let hosts = vec!["a".into(), "b".into()];
        let placement = Placement::new(hosts, NODE_OF_RANK.to_vec()).expect("valid");
        let namespace = Namespace {
            name: GenerationName::new("job", 3).expect("valid"),
            placement,
            here,
            is_crowded: false,
            spawned: None,
        };
        NodeSpace {
            space: KeySpace::new(&namespace),
            fence: None,
            is_disturbed: false,
        }
    }

    /// Handles data of a rank.
    fn take(&mut self, rank: Rank, data: &[u8]) {
        self.is_disturbed |= self.fence.is_some();
        let mut rest = Vec::new();
        for action in self.space.take(rank, data) {
            match action {
                KeySpaceAction::Fence { bytes, .. } => self.fence = Some(bytes),
                action => rest.push(action),
            }
        }
        check_answers(rest);
    }

    /// Returns the value that an honest rank reads for `key`.
    fn value(&mut self, rank: Rank, key: &str) -> Vec<u8> {
        let request = format!("cmd=get kvsname=job.3 key={key}\n");
        let [KeySpaceAction::Send(_, answer)] = &self.space.take(rank, request.as_bytes())[..]
        else {
            panic!("one answer");
        };
        answer.clone()
    }
}

/// Makes the honest ranks wait in a barrier.
fn enter_barrier(nodes: &mut [NodeSpace; 2]) {
    for (node, rank) in nodes.iter_mut().zip(HONEST_RANKS) {
        node.take(rank, b"cmd=barrier_in\n");
        node.is_disturbed = false;
    }
}

/// Ends a barrier in which all ranks of all nodes wait.
fn end_barrier(nodes: &mut [NodeSpace; 2]) {
    let [Some(one), Some(other)] = [&nodes[0].fence, &nodes[1].fence] else {
        return;
    };
    let all = [one.as_slice(), other].concat();
    for node in &mut *nodes {
        check_answers(node.space.fenced(Some(&all)));
        node.fence = None;
    }
    if !nodes.iter().any(|node| node.is_disturbed) {
        for key in KEYS {
            let [one, other] = &mut *nodes;
            let values = [
                one.value(HONEST_RANKS[0], key),
                other.value(HONEST_RANKS[1], key),
            ];
            assert_eq!(values[0], values[1], "{key}");
        }
    }
    enter_barrier(nodes);
}

/// Checks that answers are single lines, and that spawn requests are complete.
fn check_answers(actions: Vec<KeySpaceAction>) {
    for action in actions {
        match action {
            KeySpaceAction::Send(_, answer) => {
                assert!(answer.len() <= LONGEST_ANSWER);
                assert!(answer.starts_with(b"cmd="));
                assert_eq!(
                    answer.iter().position(|&byte| byte == b'\n'),
                    Some(answer.len() - 1)
                );
            }
            KeySpaceAction::Spawn { programs, .. } => {
                assert!(!programs.is_empty());
                assert!(programs.iter().all(|program| program.processes > 0));
            }
            KeySpaceAction::Report(..)
            | KeySpaceAction::Fence { .. }
            | KeySpaceAction::Close(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Fragments of requests.
    const WORDS: [&str; 7] = [
        "cmd=put key=k value=",
        "cmd=put key=k=",
        "cmd=put value=v key=k",
        "cmd=put key=l value=x",
        "cmd=barrier_in",
        "mcmd=spawn",
        "endcmd",
    ];

    #[test]
    fn a_barrier_makes_nodes_agree() {
        let mut bytes = Vec::new();
        for (rank, text) in [
            (0, "cmd=put key=k=l value=1"),
            (3, "cmd=put key=l value=a=b"),
            (0, "cmd=barrier_in"),
            (1, "cmd=barrier_in"),
            (2, "cmd=barrier_in"),
            (3, "cmd=barrier_in"),
        ] {
            bytes.extend([12 + rank, text.len() as u8]);
            bytes.extend(text.bytes());
        }
        super::drive(&bytes);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 500,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn ranks_may_send_anything(
            steps in vec((any::<u8>(), 0..WORDS.len(), vec(any::<u8>(), 0..4)), 0..60),
        ) {
            let mut bytes = Vec::new();
            for (what, word, tail) in steps {
                let text = [WORDS[word].as_bytes(), &tail].concat();
                bytes.extend([what, text.len() as u8]);
                bytes.extend(text);
            }
            super::drive(&bytes);
        }
    }
}
