//! The generations of the ranks that libpmix asks about.

use super::lookup::Lookup;
use crate::pmix::abi::{EVERY_RANK, Proc};
use crate::pmix::connections::Connections;
use crate::pmix::name_store::{NameStore, Owner};
use crate::pmix::values::text_in;
use crate::{
    Alone, Answer, Fence, Members, Name, Namespace, Peers, Purpose, RankAction, RankEvent, Recall,
};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use understudy_numbers::Rank;

/// The server of this process, while libpmix may be called.
pub static HOST: RwLock<Option<Arc<Host>>> = RwLock::new(None);

/// What is known of the ranks' generations.
pub struct Host {
    events: Sender<RankEvent>,
    pub peers: Arc<dyn Peers>,
    pub connections: Arc<Connections>,
    worlds: Mutex<BTreeMap<Name, World>>,
    /// How many fences of these members there have been.
    fences: Mutex<HashMap<(Purpose, Members), u64>>,
    pub store: Mutex<NameStore>,
    /// What is not published yet.
    pub lookups: Mutex<Vec<Lookup>>,
}

/// A generation that has begun.
struct World {
    size: u32,
    /// All ranks are on this node.
    is_here: bool,
    /// What other nodes have been asked for.
    asked: Vec<Recall>,
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

    /// From now on libpmix finds this host.
    pub fn open(self: &Arc<Host>) {
        *HOST.write() = Some(self.clone());
    }

    /// From now on libpmix finds none, and is not called back.
    pub fn close() {
        *HOST.write() = None;
    }

    pub fn current() -> Option<Arc<Host>> {
        HOST.read().clone()
    }

    /// False if there is one of that name.
    pub fn begin(&self, generation: &Namespace) -> bool {
        let mut worlds = lock(&self.worlds);
        if worlds.contains_key(&generation.name) {
            return false;
        }
        let world = World {
            size: generation.placement.size(),
            is_here: generation.ranks_here().count() == generation.placement.size() as usize,
            asked: Vec::new(),
        };
        worlds.insert(generation.name.clone(), world);
        true
    }

    /// Forgets a generation; who still waits for other nodes hears that nothing will come.
    pub fn end(&self, generation: &Name) {
        lock(&self.store).end(generation);
        lock(&self.fences)
            .retain(|(_, members), _| members.iter().all(|(name, _)| name != generation));
        lock(&self.lookups).retain(|lookup| lookup.is_not_of(generation));
        let world = lock(&self.worlds).remove(generation);
        world
            .into_iter()
            .flat_map(|world| world.asked)
            .for_each(Recall::fail);
    }

    pub fn tell(&self, (generation, rank): Owner, action: RankAction) {
        // Nobody listens any more when the server's owner has gone.
        let _ = self.events.send(RankEvent {
            generation,
            rank,
            action,
        });
    }

    /// Who it is, if it belongs to a generation that has not ended.
    pub fn known(&self, proc: &Proc) -> Option<Owner> {
        let worlds = lock(&self.worlds);
        let (name, world) = worlds.get_key_value(text_in(&proc.namespace)?)?;
        (proc.rank < world.size).then(|| (name.clone(), Rank(proc.rank)))
    }

    /// Who is meant, if their namespaces are known.
    pub fn members(&self, procs: &[Proc]) -> Option<Members> {
        let worlds = lock(&self.worlds);
        let mut members: BTreeMap<&Name, BTreeSet<Rank>> = BTreeMap::new();
        for proc in procs {
            let (name, world) = worlds.get_key_value(text_in(&proc.namespace)?)?;
            let ranks = members.entry(name).or_default();
            match proc.rank {
                EVERY_RANK => ranks.extend((0..world.size).map(Rank)),
                rank if rank < world.size => drop(ranks.insert(Rank(rank))),
                _ => return None,
            }
        }
        let members = members.into_iter();
        Some(
            members
                .map(|(name, ranks)| (name.clone(), ranks.into_iter().collect()))
                .collect(),
        )
    }

    /// Whether these namespaces are wholly on this node.
    pub fn are_here(&self, members: &Members) -> bool {
        let worlds = lock(&self.worlds);
        let is_here = |name: &Name| worlds.get(name).is_some_and(|world| world.is_here);
        members.iter().all(|(name, _)| is_here(name))
    }

    /// The ranks of this node have come to a fence. Completes it if all are; hands one with ranks
    /// of other nodes to those.
    pub fn exchange(
        &self,
        purpose: Purpose,
        members: Members,
        bytes: Vec<u8>,
        (answer, recall): (Answer, Recall),
    ) {
        let names = members.iter().map(|(name, _)| name);
        // Of one that has ended this moment, the answer's end says so.
        if !self.ask(names, &recall) {
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
            true => Alone.fence(fence),
            false => self.peers.fence(fence),
        }
    }

    /// Notes that something is asked for, unless one of these namespaces has ended.
    pub fn ask<'a>(&self, mut names: impl Iterator<Item = &'a Name>, recall: &Recall) -> bool {
        let mut worlds = lock(&self.worlds);
        names.all(|name| {
            let Some(world) = worlds.get_mut(name) else {
                return false;
            };
            world.asked.retain(Recall::is_open);
            world.asked.push(recall.clone());
            true
        })
    }
}
