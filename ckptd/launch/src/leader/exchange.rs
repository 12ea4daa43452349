//! Requests between the servers of the nodes, which the leader forwards.

use crate::messages::{FenceOf, ServerOrder, SpawnedNamespace};
use std::collections::{BTreeMap, BTreeSet};
use understudy_numbers::Rank;
use understudy_pmi::GenerationName;

/// A fence that some nodes have not entered yet.
#[derive(Default)]
struct OpenFence {
    /// Nodes that have entered the fence, with their identifiers of the request.
    entered: BTreeMap<u32, u64>,
    bytes: Vec<u8>,
}

/// A request of a node that was not answered yet.
struct OpenRequest {
    /// Node that has sent the request, and its identifier of the request.
    by: (u32, u64),
    of: GenerationName,
    /// Nodes that have not answered yet.
    from: BTreeSet<u32>,
    /// Answer after the loss of a node in `from`.
    ///
    /// `None` if no answer can arrive; empty bytes if one node fewer has to be informed.
    lost: Option<Vec<u8>>,
}

/// Requests in the last generation, and of processes that it has spawned.
#[derive(Default)]
pub struct Exchange {
    generation: Option<GenerationName>,
    /// Node of each rank, by namespace.
    spaces: BTreeMap<GenerationName, Vec<u32>>,
    fences: BTreeMap<FenceOf, OpenFence>,
    questions: BTreeMap<u64, OpenRequest>,
    last_id: u64,
}

fn answer((node, id): (u32, u64), bytes: Option<Vec<u8>>) -> (u32, ServerOrder) {
    (node, ServerOrder::Answer { id, bytes })
}

impl Exchange {
    /// Begins a generation; open requests of the generation before are dropped.
    pub fn begin(&mut self, generation: GenerationName, of_rank: Vec<u32>) {
        if let Some(before) = self.generation.replace(generation.clone()) {
            self.forget(&before);
        }
        self.spaces.insert(generation, of_rank);
    }

    /// Registers a namespace of spawned processes, all of which are on `node`.
    ///
    /// All nodes in `others` must register the namespace; `node` is answered when they have.
    pub fn join(
        &mut self,
        node: u32,
        id: u64,
        joining: &SpawnedNamespace,
        others: BTreeSet<u32>,
    ) -> Vec<(u32, ServerOrder)> {
        let name = joining.name.clone();
        self.spaces
            .insert(name.clone(), vec![node; joining.size as usize]);
        if others.is_empty() {
            return vec![answer((node, id), Some(Vec::new()))];
        }
        let id = self.register_request((node, id), name, others.clone(), Some(Vec::new()));
        let joining = joining.clone();
        let order = |node| {
            (
                node,
                ServerOrder::Join {
                    id,
                    joining: joining.clone(),
                },
            )
        };
        others.into_iter().map(order).collect()
    }

    fn register_request(
        &mut self,
        by: (u32, u64),
        of: GenerationName,
        from: BTreeSet<u32>,
        lost: Option<Vec<u8>>,
    ) -> u64 {
        self.last_id += 1;
        self.questions
            .insert(self.last_id, OpenRequest { by, of, from, lost });
        self.last_id
    }

    /// Removes a namespace; requests that wait for it are answered without data.
    pub fn forget(&mut self, name: &GenerationName) -> Vec<(u32, ServerOrder)> {
        self.spaces.remove(name);
        let is_of = |fence: &FenceOf| fence.members.iter().any(|(of, _)| of == name);
        let fences = self.fences.extract_if(.., |fence, _| is_of(fence));
        let mut answers: Vec<_> = fences
            .flat_map(|(_, gathering)| gathering.entered)
            .map(|by| answer(by, None))
            .collect();
        let questions = self
            .questions
            .extract_if(.., |_, question| question.of == *name);
        answers.extend(questions.map(|(_, question)| answer(question.by, None)));
        answers
    }

    /// Handles the loss of a node.
    ///
    /// Returns the namespaces of spawned processes that were there, and answers to requests that
    /// can no longer be completed otherwise.
    pub fn lose(&mut self, node: u32) -> (Vec<GenerationName>, Vec<(u32, ServerOrder)>) {
        let is_there = |name: &GenerationName, nodes: &[u32]| {
            self.generation.as_ref() != Some(name) && nodes.contains(&node)
        };
        let there = self
            .spaces
            .iter()
            .filter(|(name, nodes)| is_there(name, nodes));
        let names: Vec<GenerationName> = there.map(|(name, _)| name.clone()).collect();
        let mut answers: Vec<_> = names.iter().flat_map(|name| self.forget(name)).collect();
        let concerned: Vec<u64> = self
            .questions
            .iter()
            .filter(|(_, question)| question.from.contains(&node))
            .map(|(&id, _)| id)
            .collect();
        for id in concerned {
            let lost = self
                .questions
                .get(&id)
                .and_then(|question| question.lost.clone());
            answers.extend(self.answer(node, id, lost));
        }
        (names, answers)
    }

    /// Handles the ranks of a node that enter a fence.
    ///
    /// Each node receives the data of all nodes when all nodes of the fence have entered it.
    pub fn fence(
        &mut self,
        node: u32,
        id: u64,
        fence: FenceOf,
        bytes: Vec<u8>,
    ) -> Vec<(u32, ServerOrder)> {
        let node_of =
            |name: &GenerationName, rank: &Rank| self.spaces.get(name)?.get(rank.index()).copied();
        let members = fence.members.iter();
        let nodes: Option<BTreeSet<u32>> = members
            .flat_map(|(name, ranks)| ranks.iter().map(move |rank| node_of(name, rank)))
            .collect();
        let Some(nodes) = nodes else {
            return vec![answer((node, id), None)];
        };
        let gathering = self.fences.entry(fence.clone()).or_default();
        gathering.entered.insert(node, id);
        gathering.bytes.extend(bytes);
        if !nodes
            .iter()
            .all(|node| gathering.entered.contains_key(node))
        {
            return Vec::new();
        }
        let OpenFence {
            entered: come,
            bytes,
        } = self.fences.remove(&fence).unwrap_or_default();
        come.into_iter()
            .map(|by| answer(by, Some(bytes.clone())))
            .collect()
    }

    /// Requests the data that a rank of another node has put.
    pub fn request_data(
        &mut self,
        node: u32,
        id: u64,
        of: GenerationName,
        rank: Rank,
    ) -> (u32, ServerOrder) {
        let there = self
            .spaces
            .get(&of)
            .and_then(|nodes| nodes.get(rank.index()).copied());
        let Some(there) = there else {
            return answer((node, id), None);
        };
        let id = self.register_request((node, id), of.clone(), BTreeSet::from([there]), None);
        (there, ServerOrder::Modex { id, of, rank })
    }

    /// Registers a request to another node in the last generation; returns its identifier.
    pub fn request_of_node(&mut self, node: u32, id: u64, there: u32) -> Option<u64> {
        let generation = self.generation.clone()?;
        Some(self.register_request((node, id), generation, BTreeSet::from([there]), None))
    }

    /// Handles the answer of a node; the last answer is forwarded.
    pub fn answer(
        &mut self,
        node: u32,
        id: u64,
        bytes: Option<Vec<u8>>,
    ) -> Option<(u32, ServerOrder)> {
        let question = self.questions.get_mut(&id)?;
        question.from.remove(&node);
        if bytes.is_some() && !question.from.is_empty() {
            return None;
        }
        let by = question.by;
        self.questions.remove(&id);
        Some(answer(by, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_pmi::Purpose;

    fn name(number: u32) -> GenerationName {
        GenerationName::new("job", number).unwrap()
    }

    fn ranks(ranks: &[u32]) -> Vec<Rank> {
        ranks.iter().copied().map(Rank).collect()
    }

    fn fence(members: &[(&GenerationName, &[u32])]) -> FenceOf {
        let members = members.iter().map(|&(name, of)| (name.clone(), ranks(of)));
        FenceOf {
            purpose: Purpose::Exchange,
            members: members.collect(),
            number: 0,
        }
    }

    fn expected_answer(node: u32, id: u64, bytes: Option<&[u8]>) -> (u32, ServerOrder) {
        answer((node, id), bytes.map(<[u8]>::to_vec))
    }

    fn joining(name: &GenerationName, size: u32) -> SpawnedNamespace {
        let (name, host) = (name.clone(), "n".into());
        SpawnedNamespace { name, size, host }
    }

    fn begun(generation: u32, of_rank: &[u32]) -> Exchange {
        let mut exchange = Exchange::default();
        exchange.begin(name(generation), of_rank.to_vec());
        exchange
    }

    #[test]
    fn a_fence_waits_for_the_nodes_of_its_members() {
        let (now, before) = (name(3), name(2));
        let mut exchange = begun(3, &[0, 1, 2, 1]);
        let of_three = || fence(&[(&now, &[0, 1, 3])]);
        assert_eq!(exchange.fence(1, 10, of_three(), vec![1]), []);
        let alone = exchange.fence(2, 20, fence(&[(&now, &[2])]), vec![2]);
        assert_eq!(alone, [expected_answer(2, 20, Some(&[2]))]);
        let all = exchange.fence(0, 5, of_three(), vec![0]);
        assert_eq!(
            all,
            [
                expected_answer(0, 5, Some(&[1, 0])),
                expected_answer(1, 10, Some(&[1, 0]))
            ]
        );
        let late = exchange.fence(1, 11, fence(&[(&before, &[0])]), vec![1]);
        assert_eq!(late, [expected_answer(1, 11, None)]);
        let unknown = exchange.fence(1, 12, fence(&[(&now, &[4])]), vec![1]);
        assert_eq!(unknown, [expected_answer(1, 12, None)]);
    }

    #[test]
    fn fences_for_different_things_are_different() {
        let now = name(0);
        let mut exchange = begun(0, &[0, 1]);
        let connect = FenceOf {
            purpose: Purpose::Connect,
            ..fence(&[(&now, &[0, 1])])
        };
        assert_eq!(exchange.fence(0, 1, fence(&[(&now, &[0, 1])]), vec![]), []);
        assert_eq!(exchange.fence(1, 1, connect, vec![]), []);
        assert_eq!(
            exchange
                .fence(1, 2, fence(&[(&now, &[0, 1])]), vec![])
                .len(),
            2
        );
    }

    #[test]
    fn spawned_processes_meet_their_parents_until_they_are_forgotten() {
        let (now, child) = (name(0), name(0).child(1, 1));
        let mut exchange = begun(0, &[0, 1]);
        let orders = exchange.join(1, 7, &joining(&child, 2), BTreeSet::from([0, 2]));
        let [
            (0, ServerOrder::Join { id, .. }),
            (2, ServerOrder::Join { .. }),
        ] = orders[..]
        else {
            panic!("{orders:?}")
        };
        assert_eq!(exchange.answer(0, id, Some(vec![])), None);
        assert_eq!(
            exchange.answer(2, id, Some(vec![])),
            Some(expected_answer(1, 7, Some(&[])))
        );
        let all = || fence(&[(&now, &[0]), (&child, &[0, 1])]);
        assert_eq!(exchange.fence(1, 8, all(), vec![1]), []);
        assert_eq!(exchange.fence(0, 8, all(), vec![0]).len(), 2);
        let (node, order) = exchange.request_data(0, 9, child.clone(), Rank(1));
        assert!(matches!(order, ServerOrder::Modex { .. }) && node == 1);
        assert_eq!(exchange.fence(0, 10, all(), vec![]), []);
        assert_eq!(
            exchange.forget(&child),
            [expected_answer(0, 10, None), expected_answer(0, 9, None)]
        );
        assert_eq!(
            exchange.fence(0, 11, all(), vec![]),
            [expected_answer(0, 11, None)]
        );
    }

    #[test]
    fn those_of_a_lost_node_are_not_waited_for() {
        let (now, here, there) = (name(0), name(0).child(0, 1), name(0).child(1, 1));
        let mut exchange = begun(0, &[0, 1]);
        let alone = exchange.join(1, 1, &joining(&there, 1), BTreeSet::new());
        assert_eq!(alone, [expected_answer(1, 1, Some(&[]))]);
        exchange.join(0, 2, &joining(&here, 1), BTreeSet::from([1]));
        exchange.request_data(0, 3, now, Rank(1));
        exchange.request_data(0, 4, there.clone(), Rank(0));
        let (names, answers) = exchange.lose(1);
        assert_eq!(names, [there]);
        assert_eq!(
            answers,
            [
                expected_answer(0, 4, None),
                expected_answer(0, 2, Some(&[])),
                expected_answer(0, 3, None)
            ]
        );
    }

    #[test]
    fn a_request_is_sent_to_the_node_of_the_rank() {
        let mut exchange = begun(0, &[0, 1]);
        let (node, order) = exchange.request_data(0, 7, name(0), Rank(1));
        let ServerOrder::Modex { id, .. } = order else {
            panic!("{order:?}")
        };
        assert_eq!(node, 1);
        assert_eq!(
            exchange.answer(1, id, Some(vec![9])),
            Some(expected_answer(0, 7, Some(&[9])))
        );
        assert_eq!(exchange.answer(1, id, None), None);
        assert_eq!(
            exchange.request_data(0, 8, name(1), Rank(1)),
            expected_answer(0, 8, None)
        );
    }
}
