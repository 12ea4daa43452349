//! What the servers of the nodes ask of each other, by way of the leader.

use super::talk::{FenceOf, Order};
use std::collections::{BTreeMap, BTreeSet};
use understudy_numbers::{Generation, Rank};

/// A fence that not all nodes have come to.
#[derive(Default)]
struct Gathering {
    /// Who has, and by which number each knows it.
    come: BTreeMap<u32, u64>,
    bytes: Vec<u8>,
}

/// What is asked for in the generation that has begun.
#[derive(Default)]
pub struct Exchange {
    generation: Generation,
    /// The node of each rank.
    of_rank: Vec<u32>,
    fences: BTreeMap<FenceOf, Gathering>,
    /// Who has asked, and by which number it knows that.
    questions: BTreeMap<u64, (u32, u64)>,
    asked: u64,
}

impl Exchange {
    /// Of a generation that begins; what was asked for before is not answered any more.
    pub fn of(generation: Generation, of_rank: Vec<u32>) -> Exchange {
        Exchange {
            generation,
            of_rank,
            ..Exchange::default()
        }
    }

    /// A node's ranks have come to a fence. When those of all its nodes have, all get what all have brought.
    pub fn fence(&mut self, node: u32, id: u64, fence: FenceOf, bytes: Vec<u8>) -> Vec<(u32, Order)> {
        let nodes: Option<BTreeSet<u32>> = fence
            .members
            .iter()
            .map(|rank| self.of_rank.get(rank.index()).copied())
            .collect();
        let Some(nodes) = nodes.filter(|_| fence.generation == self.generation) else {
            return vec![(node, Order::Answer { id, bytes: None })];
        };
        let gathering = self.fences.entry(fence.clone()).or_default();
        gathering.come.insert(node, id);
        gathering.bytes.extend(bytes);
        if !nodes.iter().all(|node| gathering.come.contains_key(node)) {
            return Vec::new();
        }
        let Gathering { come, bytes } = self.fences.remove(&fence).unwrap_or_default();
        let answer = |(node, id)| {
            let bytes = Some(bytes.clone());
            (node, Order::Answer { id, bytes })
        };
        come.into_iter().map(answer).collect()
    }

    /// A node wants what a rank of another one has put.
    pub fn ask(&mut self, node: u32, id: u64, generation: Generation, rank: Rank) -> (u32, Order) {
        let of = self.of_rank.get(rank.index()).filter(|_| generation == self.generation);
        let Some(&of) = of else {
            return (node, Order::Answer { id, bytes: None });
        };
        self.asked += 1;
        self.questions.insert(self.asked, (node, id));
        let id = self.asked;
        (of, Order::Modex { id, generation, rank })
    }

    /// A node answers.
    pub fn answer(&mut self, id: u64, bytes: Option<Vec<u8>>) -> Option<(u32, Order)> {
        let (node, id) = self.questions.remove(&id)?;
        Some((node, Order::Answer { id, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(generation: u32, members: &[u32]) -> FenceOf {
        FenceOf {
            generation: Generation(generation),
            members: members.iter().copied().map(Rank).collect(),
            number: 0,
        }
    }

    fn answer(node: u32, id: u64, bytes: Option<&[u8]>) -> (u32, Order) {
        let bytes = bytes.map(<[u8]>::to_vec);
        (node, Order::Answer { id, bytes })
    }

    #[test]
    fn a_fence_waits_for_the_nodes_of_its_members() {
        let mut exchange = Exchange::of(Generation(3), vec![0, 1, 2, 1]);
        assert_eq!(exchange.fence(1, 10, fence(3, &[0, 1, 3]), vec![1]), []);
        assert_eq!(
            exchange.fence(2, 20, fence(3, &[2]), vec![2]),
            [answer(2, 20, Some(&[2]))]
        );
        let all = exchange.fence(0, 5, fence(3, &[0, 1, 3]), vec![0]);
        assert_eq!(all, [answer(0, 5, Some(&[1, 0])), answer(1, 10, Some(&[1, 0]))]);
        assert_eq!(exchange.fence(1, 11, fence(2, &[0]), vec![1]), [answer(1, 11, None)]);
        assert_eq!(exchange.fence(1, 12, fence(3, &[4]), vec![1]), [answer(1, 12, None)]);
    }

    #[test]
    fn a_question_goes_to_the_node_of_the_rank() {
        let mut exchange = Exchange::of(Generation(0), vec![0, 1]);
        let (node, order) = exchange.ask(0, 7, Generation(0), Rank(1));
        let Order::Modex { id, .. } = order else {
            panic!("{order:?}")
        };
        assert_eq!(node, 1);
        assert_eq!(exchange.answer(id, Some(vec![9])), Some(answer(0, 7, Some(&[9]))));
        assert_eq!(exchange.answer(id, None), None);
        assert_eq!(exchange.ask(0, 8, Generation(1), Rank(1)), answer(0, 8, None));
    }
}
