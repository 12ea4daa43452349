//! State that the functions called by libpmix need: generations, fences, published names.
//!
//! A generation consists of the ranks of one MPI_COMM_WORLD. PMIx calls a generation a namespace.

use super::lookup::Lookup;
use crate::pmix::abi::{EVERY_RANK, Proc};
use crate::pmix::connections::Connections;
use crate::pmix::name_store::{NameStore, Owner};
use crate::pmix::values::text_in;
use crate::{
    Answer, AnswerCancellation, Fence, GenerationName, MemberRanks, Members, Namespace, NoPeers,
    Peers, Purpose, RankAction, RankEvent,
};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use understudy_numbers::Rank;

/// Host of this process, while callbacks of libpmix may be called.
pub static HOST: RwLock<Option<Arc<Host>>> = RwLock::new(None);

/// Generations, fences and published names of the ranks that libpmix serves.
pub struct Host {
    events: Sender<RankEvent>,
    pub peers: Arc<dyn Peers>,
    pub connections: Arc<Connections>,
    worlds: Mutex<BTreeMap<GenerationName, GenerationState>>,
    /// Number of earlier fences with this purpose and these members.
    fences: Mutex<HashMap<(Purpose, Members), u64>>,
    pub store: Mutex<NameStore>,
    /// Lookups of values that are not published yet.
    pub lookups: Mutex<Vec<Lookup>>,
}

/// A generation that has begun.
struct GenerationState {
    size: u32,
    /// True if all ranks are on this node.
    is_here: bool,
    /// Requests that await an answer: fences, requests for data of a rank, spawns.
    open_requests: Vec<AnswerCancellation>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Host {
    pub fn new(
        events: Sender<RankEvent>,
        peers: Arc<dyn Peers>,
        connections: Arc<Connections>,
    ) -> Arc<Host> {
        Arc::new(Host {
            events,
            peers,
            connections,
            worlds: Mutex::default(),
            fences: Mutex::default(),
            store: Mutex::default(),
            lookups: Mutex::default(),
        })
    }

    /// Makes libpmix's calls use this host.
    pub fn open(self: &Arc<Host>) {
        *HOST.write() = Some(self.clone());
    }

    /// Removes the host.
    ///
    /// Afterwards, no completion callback that libpmix has passed to this process is called.
    pub fn close() {
        *HOST.write() = None;
    }

    pub fn current() -> Option<Arc<Host>> {
        HOST.read().clone()
    }

    /// Registers a generation; returns false if its name is used already.
    pub fn begin(&self, generation: &Namespace) -> bool {
        let mut worlds = lock(&self.worlds);
        if worlds.contains_key(&generation.name) {
            return false;
        }
        let world = GenerationState {
            size: generation.placement.size(),
            is_here: generation.ranks_here().count() == generation.placement.size() as usize,
            open_requests: Vec::new(),
        };
        worlds.insert(generation.name.clone(), world);
        true
    }

    /// Removes a generation, and ends its open requests without data.
    pub fn end(&self, generation: &GenerationName) {
        lock(&self.store).end(generation);
        lock(&self.fences)
            .retain(|(_, members), _| members.iter().all(|(name, _)| name != generation));
        lock(&self.lookups).retain(|lookup| lookup.is_not_of(generation));
        let world = lock(&self.worlds).remove(generation);
        world
            .into_iter()
            .flat_map(|world| world.open_requests)
            .for_each(AnswerCancellation::fail);
    }

    pub fn report(&self, (generation, rank): Owner, action: RankAction) {
        // Sending fails only after the server's owner has dropped the receiver.
        let _ = self.events.send(RankEvent {
            generation,
            rank,
            action,
        });
    }

    /// Returns the generation and rank of a process.
    ///
    /// `None` if the generation has ended or has no such rank.
    pub fn owner_of(&self, proc: &Proc) -> Option<Owner> {
        let worlds = lock(&self.worlds);
        let (name, world) = worlds.get_key_value(text_in(&proc.namespace)?)?;
        (proc.rank < world.size).then(|| (name.clone(), Rank(proc.rank)))
    }

    /// Returns the members of a fence, by generation.
    ///
    /// `None` if one of the generations is not registered or has no such rank.
    pub fn members(&self, procs: &[Proc]) -> Option<Members> {
        let worlds = lock(&self.worlds);
        // The listed ranks of each generation, and their number if these are all ranks.
        let mut members: BTreeMap<&GenerationName, (BTreeSet<Rank>, usize)> = BTreeMap::new();
        for proc in procs {
            let (name, world) = worlds.get_key_value(text_in(&proc.namespace)?)?;
            let all = (BTreeSet::new(), world.size as usize);
            let (listed, number_of_all) = members.entry(name).or_insert(all);
            match proc.rank {
                EVERY_RANK => *number_of_all = 0,
                rank if rank < world.size => drop(listed.insert(Rank(rank))),
                _ => return None,
            }
        }
        let members = members.into_iter().map(|(name, (listed, number_of_all))| {
            let ranks = match listed.len() >= number_of_all {
                true => MemberRanks::All,
                false => MemberRanks::Listed(listed.into_iter().collect()),
            };
            (name.clone(), ranks)
        });
        Some(members.collect())
    }

    /// True if all ranks of the members' generations are on this node.
    pub fn are_here(&self, members: &Members) -> bool {
        let worlds = lock(&self.worlds);
        let is_here = |name: &GenerationName| worlds.get(name).is_some_and(|world| world.is_here);
        members.iter().all(|(name, _)| is_here(name))
    }

    /// Handles a fence that its participants on this node have entered.
    ///
    /// A fence of this node alone is completed at once; other fences are passed to the peers.
    pub fn exchange(
        &self,
        purpose: Purpose,
        members: Members,
        bytes: Vec<u8>,
        (answer, recall): (Answer, AnswerCancellation),
    ) {
        let names = members.iter().map(|(name, _)| name);
        // If a generation has just ended, dropping the answer reports that.
        if !self.register_request(names, &recall) {
            return;
        }
        let number = {
            let mut fences = lock(&self.fences);
            let before = fences.entry((purpose, members.clone())).or_default();
            std::mem::replace(before, *before + 1)
        };
        let are_here = self.are_here(&members);
        let fence = Fence {
            purpose,
            members,
            number,
            bytes,
            answer,
        };
        match are_here {
            true => NoPeers.fence(fence),
            false => self.peers.fence(fence),
        }
    }

    /// Registers an open request; returns false if one of the generations has ended.
    pub fn register_request<'a>(
        &self,
        mut names: impl Iterator<Item = &'a GenerationName>,
        recall: &AnswerCancellation,
    ) -> bool {
        let mut worlds = lock(&self.worlds);
        names.all(|name| {
            let Some(world) = worlds.get_mut(name) else {
                return false;
            };
            world.open_requests.retain(AnswerCancellation::is_open);
            world.open_requests.push(recall.clone());
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmix::abi::NAMESPACE_SIZE;
    use std::ffi::c_char;

    #[test]
    fn members_are_listed_only_if_some_ranks_are_none() {
        let connections = Arc::new(Connections::new().unwrap());
        let (events, _) = std::sync::mpsc::channel();
        let host = Host::new(events, Arc::new(NoPeers), connections);
        let generation = Namespace::here("job", 0, "n", 3).unwrap();
        assert!(host.begin(&generation));
        let proc = |&rank: &u32| {
            let mut namespace: [c_char; NAMESPACE_SIZE] = [0; NAMESPACE_SIZE];
            let name = generation.name.to_string();
            for (to, from) in namespace.iter_mut().zip(name.bytes()) {
                *to = from as c_char;
            }
            Proc { namespace, rank }
        };
        let members = |ranks: &[u32]| host.members(&ranks.iter().map(proc).collect::<Vec<_>>());
        let of = |ranks| Some(vec![(generation.name.clone(), ranks)]);
        for all in [&[EVERY_RANK][..], &[2, 0, 1], &[0, EVERY_RANK]] {
            assert_eq!(members(all), of(MemberRanks::All));
        }
        let listed = MemberRanks::Listed(vec![Rank(0), Rank(2)]);
        assert_eq!(members(&[2, 0, 2]), of(listed));
        assert_eq!(members(&[3]), None);
    }
}
