//! A simulated process: its report, and the replicas that it really has.

use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_attempt::Attempt;
use understudy_policy::recovery_plan::{DamagedReplica, KeptReplicas, ProcessReport};
use understudy_policy::redundancy::Redundancy;
use understudy_policy::replica_inventory::ReplicaInventory;

/// Largest number of layers in the tests.
const LAYERS: usize = 4;

/// Epochs, below 64, of which a process has one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epochs(u64);

impl Epochs {
    pub fn of(epochs: impl IntoIterator<Item = Epoch>) -> Epochs {
        let bit = |epoch: Epoch| u64::from(epoch != Epoch::NONE) << epoch.0;
        Epochs(epochs.into_iter().map(bit).fold(0, |all, bit| all | bit))
    }

    pub fn contains(self, epoch: Epoch) -> bool {
        self.0 & 1 << epoch.0 != 0
    }

    fn retain(&mut self, epoch: Epoch) {
        self.0 &= 1 << epoch.0;
    }
}

/// Replicas in the memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// Worker of the own replica.
    pub worker: Option<Worker>,
    pub own: Epochs,
    /// Replicas of other workers, by layer.
    pub stored: [Epochs; LAYERS],
}

impl Memory {
    /// Memory of a worker that has complete replicas of these epochs.
    pub fn full(worker: Worker, epochs: Epochs, layers: usize) -> Memory {
        let mut stored = [Epochs::default(); LAYERS];
        stored[..layers].fill(epochs);
        Memory {
            worker: Some(worker),
            own: epochs,
            stored,
        }
    }

    /// Leaves replicas of these epochs only in these layers (`1 << layer`).
    pub fn empty_layers(&mut self, layers: u64, remaining: Epochs) {
        let stored = self.stored.iter_mut().enumerate();
        let emptied = stored.filter(|(layer, _)| layers & (1 << layer) != 0);
        emptied.for_each(|(_, epochs)| *epochs = remaining);
    }

    /// Returns the layers, of `layers`, without a replica of this epoch.
    pub fn lacking(&self, epoch: Epoch, layers: usize) -> u64 {
        let stored = self.stored[..layers].iter().enumerate();
        let bit = |(layer, epochs): (usize, &Epochs)| u64::from(!epochs.contains(epoch)) << layer;
        stored.map(bit).sum()
    }

    /// Keeps only the replicas of one epoch.
    pub fn retain(&mut self, epoch: Epoch) {
        self.own.retain(epoch);
        self.stored
            .iter_mut()
            .for_each(|epochs| epochs.retain(epoch));
    }
}

/// Simulated process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub number: ProcessNumber,
    /// Worker that the process runs; `None` for a joining process.
    pub worker: Option<Worker>,
    pub committed: Epoch,
    pub complete: Option<Epoch>,
    pub inventory: ReplicaInventory,
    pub memory: Memory,
    /// Replicas that outlive the process, if its node does not fail.
    pub record: Option<ReplicaRecord>,
    pub attempt: Attempt,
}

/// Replicas that a process has recorded where they outlive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaRecord {
    pub worker: Worker,
    pub committed: Epoch,
    /// Layers (`1 << layer`) without a replica of the committed epoch.
    pub lacking: u64,
    pub complete: Option<Epoch>,
}

impl ReplicaRecord {
    /// Returns the record of a worker whose replicas of this epoch all exist.
    pub fn committed(worker: Worker, committed: Epoch) -> ReplicaRecord {
        ReplicaRecord {
            worker,
            committed,
            lacking: 0,
            complete: None,
        }
    }

    fn memory(self, redundancy: &Redundancy) -> Memory {
        let epochs = Epochs::of([self.committed].into_iter().chain(self.complete));
        let mut memory = Memory::full(self.worker, epochs, redundancy.layers(self.worker));
        memory.empty_layers(self.lacking, Epochs::of(self.complete));
        memory
    }

    /// Commits the later epoch if it is `epoch`, otherwise discards it.
    pub fn resolve(&mut self, epoch: Epoch) {
        if self.complete == Some(epoch) {
            (self.committed, self.lacking) = (epoch, 0);
        }
        self.complete = None;
    }
}

impl Process {
    /// Returns a worker's process that has these replicas, and reports `complete`.
    pub fn worker(
        worker: Worker,
        replicas: ReplicaRecord,
        complete: Option<Epoch>,
        redundancy: &Redundancy,
    ) -> Process {
        Process {
            number: ProcessNumber(worker.0),
            worker: Some(worker),
            committed: replicas.committed,
            complete,
            inventory: ReplicaInventory::EMPTY,
            memory: replicas.memory(redundancy),
            record: Some(replicas),
            attempt: Attempt::BEGIN,
        }
    }

    /// Returns a joining process.
    ///
    /// The process adopts the replicas that a failed one has left.
    pub fn joining(
        number: ProcessNumber,
        record: Option<ReplicaRecord>,
        redundancy: &Redundancy,
    ) -> Process {
        let mut process = Process {
            number,
            worker: None,
            committed: Epoch::NONE,
            complete: None,
            inventory: ReplicaInventory::EMPTY,
            memory: Memory::default(),
            record,
            attempt: Attempt::BEGIN,
        };
        if let Some(left) = record {
            process.memory = left.memory(redundancy);
            let all = redundancy.all_layers(left.worker);
            process.inventory.adopt(KeptReplicas {
                own: left.worker,
                has_own: true,
                layers: all & !left.lacking,
                epoch: left.committed,
                whole: left.complete,
                whole_layers: all,
                process: Some(ProcessNumber(left.worker.0)),
            });
        }
        process
    }

    /// Returns the report of this process to a meeting.
    pub fn report(&self, redundancy: &Redundancy) -> ProcessReport {
        let lacking = |worker| {
            let layers = redundancy.layers(worker);
            self.memory.lacking(self.committed, layers)
        };
        ProcessReport {
            process: self.number,
            worker: self.worker,
            committed: self.committed,
            lacking: self.worker.map_or(0, lacking),
            complete: self.complete,
            kept: self.inventory.kept(),
            damaged: self.inventory.damaged().to_vec(),
            ..ProcessReport::default()
        }
    }

    /// Begins to receive the own replica of `worker`.
    pub fn begin_fetch(&mut self, worker: Worker, epoch: Epoch) {
        let kept = self.inventory.kept();
        let has_its = kept.is_some_and(|kept| kept.own == worker && kept.epoch == epoch);
        if self.worker.is_none() && !has_its {
            self.memory.stored = Default::default();
        }
        self.inventory.begin_fetch(worker, epoch);
        self.memory.worker = Some(worker);
        self.memory.own = Epochs::default();
    }

    /// Replaces the numbers of processes with damaged replicas; those of failed ones are dropped.
    pub fn renumber_damaged(&mut self, numbers: &[(ProcessNumber, ProcessNumber)]) {
        let number = |at| numbers.iter().find(|(before, _)| *before == at);
        let damaged: Vec<DamagedReplica> = self.inventory.damaged().to_vec();
        let renumbered = damaged.iter().filter_map(|replica| {
            let at = number(replica.at)?.1;
            Some(DamagedReplica { at, ..*replica })
        });
        let kept = self.inventory.kept();
        self.inventory.clear();
        self.inventory.refuse(renumbered);
        if let Some(kept) = kept {
            self.inventory.adopt(kept);
        }
    }
}
