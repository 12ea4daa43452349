//! Requests between the servers of the nodes, which the leader forwards.

use crate::messages::{FenceId, ServerOrder, SpawnedNamespace};
use std::collections::{BTreeMap, BTreeSet};
use understudy_numbers::Rank;
use understudy_pmi::{GenerationName, MemberRanks, Members};

/// A fence that some nodes have not entered yet.
struct OpenFence {
    /// Nodes of the members that have not entered the fence.
    awaited: BTreeSet<u32>,
    /// Nodes that have entered the fence, with their identifiers of the request.
    entered: BTreeMap<u32, u64>,
    bytes: Vec<u8>,
}

/// Node that has sent a request, and its identifier of the request.
#[derive(Clone, Copy)]
struct RequestOrigin {
    node: u32,
    id: u64,
}

/// A request of a node that was not answered yet.
struct OpenRequest {
    origin: RequestOrigin,
    namespace: GenerationName,
    /// Nodes that have not answered yet.
    awaited: BTreeSet<u32>,
    /// Answer in the name of a node in `awaited` that is lost.
    ///
    /// `None` if only that node could have answered the request, which then fails. Empty bytes if
    /// each node only confirms the request, and the confirmation of a lost node is not needed.
    answer_if_lost: Option<Vec<u8>>,
}

/// Requests of ranks of the last generation, and of processes that these have spawned.
#[derive(Default)]
pub struct Exchange {
    generation: Option<GenerationName>,
    /// Node of each rank, by namespace.
    rank_nodes: BTreeMap<GenerationName, Vec<u32>>,
    fences: BTreeMap<FenceId, OpenFence>,
    requests: BTreeMap<u64, OpenRequest>,
    last_id: u64,
}

/// Returns the node to which an answer is sent, and the answer.
fn answer(origin: RequestOrigin, bytes: Option<Vec<u8>>) -> (u32, ServerOrder) {
    let RequestOrigin { node, id } = origin;
    (node, ServerOrder::Answer { id, bytes })
}

impl Exchange {
    /// Begins a generation; open requests of the previous generation are dropped.
    pub fn begin(&mut self, generation: GenerationName, node_of_rank: Vec<u32>) {
        if let Some(before) = self.generation.replace(generation.clone()) {
            self.forget(&before);
        }
        self.rank_nodes.insert(generation, node_of_rank);
    }

    /// Registers a namespace of spawned processes, all of which are on `node`.
    ///
    /// All nodes in `others` must register the namespace; `node` is answered when all of them have
    /// registered it.
    pub fn join(
        &mut self,
        node: u32,
        id: u64,
        joining: &SpawnedNamespace,
        others: BTreeSet<u32>,
    ) -> Vec<(u32, ServerOrder)> {
        let name = joining.name.clone();
        self.rank_nodes
            .insert(name.clone(), vec![node; joining.size as usize]);
        if others.is_empty() {
            return vec![answer(RequestOrigin { node, id }, Some(Vec::new()))];
        }
        let id = self.register_request(
            RequestOrigin { node, id },
            name,
            others.clone(),
            Some(Vec::new()),
        );
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
        origin: RequestOrigin,
        namespace: GenerationName,
        awaited: BTreeSet<u32>,
        answer_if_lost: Option<Vec<u8>>,
    ) -> u64 {
        self.last_id += 1;
        self.requests.insert(
            self.last_id,
            OpenRequest {
                origin,
                namespace,
                awaited,
                answer_if_lost,
            },
        );
        self.last_id
    }

    /// Removes a namespace; requests that wait for it are answered without data.
    pub fn forget(&mut self, name: &GenerationName) -> Vec<(u32, ServerOrder)> {
        self.rank_nodes.remove(name);
        let is_of = |fence: &FenceId| fence.members.iter().any(|(namespace, _)| namespace == name);
        let fences = self.fences.extract_if(.., |fence, _| is_of(fence));
        let mut answers: Vec<_> = fences
            .flat_map(|(_, fence)| fence.entered)
            .map(|(node, id)| answer(RequestOrigin { node, id }, None))
            .collect();
        let requests = self
            .requests
            .extract_if(.., |_, request| request.namespace == *name);
        answers.extend(requests.map(|(_, request)| answer(request.origin, None)));
        answers
    }

    /// Handles the loss of a node.
    ///
    /// Returns the namespaces of spawned processes that were on the node, and answers to requests
    /// that can no longer be completed otherwise.
    pub fn lose(&mut self, node: u32) -> (Vec<GenerationName>, Vec<(u32, ServerOrder)>) {
        let is_there = |name: &GenerationName, nodes: &[u32]| {
            self.generation.as_ref() != Some(name) && nodes.contains(&node)
        };
        let there = self
            .rank_nodes
            .iter()
            .filter(|(name, nodes)| is_there(name, nodes));
        let names: Vec<GenerationName> = there.map(|(name, _)| name.clone()).collect();
        let mut answers: Vec<_> = names.iter().flat_map(|name| self.forget(name)).collect();
        let concerned: Vec<u64> = self
            .requests
            .iter()
            .filter(|(_, request)| request.awaited.contains(&node))
            .map(|(&id, _)| id)
            .collect();
        for id in concerned {
            let lost = self
                .requests
                .get(&id)
                .and_then(|request| request.answer_if_lost.clone());
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
        fence: FenceId,
        bytes: Vec<u8>,
    ) -> Vec<(u32, ServerOrder)> {
        // The nodes are looked up for the first report of a fence only.
        let mut open = match self.fences.remove(&fence) {
            Some(open) => open,
            None => match self.nodes_of(&fence.members) {
                Some(awaited) => OpenFence {
                    awaited,
                    entered: BTreeMap::new(),
                    bytes: Vec::new(),
                },
                None => return vec![answer(RequestOrigin { node, id }, None)],
            },
        };
        open.awaited.remove(&node);
        open.entered.insert(node, id);
        open.bytes.extend(bytes);
        if !open.awaited.is_empty() {
            self.fences.insert(fence, open);
            return Vec::new();
        }
        let OpenFence { entered, bytes, .. } = open;
        entered
            .into_iter()
            .map(|(node, id)| answer(RequestOrigin { node, id }, Some(bytes.clone())))
            .collect()
    }

    /// Returns the nodes of these processes; `None` if one of the processes does not exist.
    fn nodes_of(&self, members: &Members) -> Option<BTreeSet<u32>> {
        let mut all = BTreeSet::new();
        for (name, ranks) in members {
            let nodes = self.rank_nodes.get(name)?;
            match ranks {
                MemberRanks::All => all.extend(nodes),
                MemberRanks::Listed(ranks) => {
                    for rank in ranks {
                        all.insert(*nodes.get(rank.index())?);
                    }
                }
            }
        }
        Some(all)
    }

    /// Requests the data that a rank of another node has put.
    pub fn request_data(
        &mut self,
        node: u32,
        id: u64,
        namespace: GenerationName,
        rank: Rank,
    ) -> (u32, ServerOrder) {
        let there = self
            .rank_nodes
            .get(&namespace)
            .and_then(|nodes| nodes.get(rank.index()).copied());
        let Some(there) = there else {
            return answer(RequestOrigin { node, id }, None);
        };
        let id = self.register_request(
            RequestOrigin { node, id },
            namespace.clone(),
            BTreeSet::from([there]),
            None,
        );
        (
            there,
            ServerOrder::Modex {
                id,
                namespace,
                rank,
            },
        )
    }

    /// Registers a request to another node in the last generation; returns its identifier.
    pub fn request_of_node(&mut self, node: u32, id: u64, there: u32) -> Option<u64> {
        let generation = self.generation.clone()?;
        Some(self.register_request(
            RequestOrigin { node, id },
            generation,
            BTreeSet::from([there]),
            None,
        ))
    }

    /// Handles the answer of a node; the last answer is forwarded.
    ///
    /// An answer without data is forwarded at once.
    pub fn answer(
        &mut self,
        node: u32,
        id: u64,
        bytes: Option<Vec<u8>>,
    ) -> Option<(u32, ServerOrder)> {
        let request = self.requests.get_mut(&id)?;
        request.awaited.remove(&node);
        if bytes.is_some() && !request.awaited.is_empty() {
            return None;
        }
        let origin = request.origin;
        self.requests.remove(&id);
        Some(answer(origin, bytes))
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

    fn fence(members: &[(&GenerationName, &[u32])]) -> FenceId {
        let members = members
            .iter()
            .map(|&(name, numbers)| (name.clone(), MemberRanks::Listed(ranks(numbers))));
        FenceId {
            purpose: Purpose::Exchange,
            members: members.collect(),
            number: 0,
        }
    }

    fn expected_answer(node: u32, id: u64, bytes: Option<&[u8]>) -> (u32, ServerOrder) {
        answer(RequestOrigin { node, id }, bytes.map(<[u8]>::to_vec))
    }

    fn joining(name: &GenerationName, size: u32) -> SpawnedNamespace {
        let (name, host) = (name.clone(), "n".into());
        SpawnedNamespace { name, size, host }
    }

    fn begun(generation: u32, node_of_rank: &[u32]) -> Exchange {
        let mut exchange = Exchange::default();
        exchange.begin(name(generation), node_of_rank.to_vec());
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

    /// The ranks are neither listed nor looked up in each report.
    #[test]
    fn a_fence_of_all_ranks_grows_with_the_nodes_only() {
        const RANKS: u32 = 100_000;
        const NODES: u32 = 10_000;
        let now = name(3);
        let nodes: Vec<u32> = (0..RANKS).map(|rank| rank / (RANKS / NODES)).collect();
        let mut exchange = begun(3, &nodes);
        let all = FenceId {
            members: vec![(now, MemberRanks::All)],
            ..fence(&[])
        };
        let encoded = bincode::encode_to_vec(&all, bincode::config::standard());
        assert!(encoded.is_ok_and(|bytes| bytes.len() < 20));
        for node in 1..NODES {
            assert_eq!(exchange.fence(node, 1, all.clone(), Vec::new()), []);
        }
        let answers = exchange.fence(0, 1, all, Vec::new());
        assert_eq!(answers.len(), NODES as usize);
    }

    #[test]
    fn fences_for_different_things_are_different() {
        let now = name(0);
        let mut exchange = begun(0, &[0, 1]);
        let connect = FenceId {
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
    fn answers_of_a_lost_node_are_not_awaited() {
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
