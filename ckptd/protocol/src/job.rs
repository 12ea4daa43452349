//! The job: its guardians, processes and generations.

mod deaths;
mod domains;
mod drain;
mod drained_node;
mod end;
mod generations;
mod manager_takeover;
mod phase;
mod ranks;
mod store_adoption;

use self::domains::Domains;
use self::drained_node::Drain;
use self::phase::Phase;
use crate::member::Member;
use crate::{Action, Event, Node, ProcessHistory};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_messages::ToManager;
use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};

/// Time limit for the guardians to join, from the start of the manager.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(120);

/// Request for placement hints, sent at most once for each generation.
#[derive(Debug, Default)]
struct PlacementQuery {
    is_sent: bool,
    is_answered: bool,
    /// Spares that should take over, in the order of the messages.
    hints: Vec<ProcessNumber>,
}

/// State of the job, from which all decisions follow.
#[derive(Debug)]
pub struct Job {
    workers: u32,
    spares: u32,
    guardians: BTreeSet<Guardian>,
    /// Guardians that died before all guardians had joined.
    absent: BTreeSet<Guardian>,
    /// Node of each guardian, also of dead guardians.
    nodes: BTreeMap<Guardian, Node>,
    domains: Domains,
    /// Node that is being drained.
    drain: Option<Drain>,
    /// Number of the last order to leave.
    leave_order: u32,
    /// Processes that were started for an earlier manager, until all guardians have joined.
    earlier_processes: BTreeMap<ProcessNumber, (Guardian, ProcessHistory)>,
    /// True if this manager follows a dead manager.
    follows_manager: bool,
    /// True if processes that are not known any more may have printed output.
    has_lost_output: bool,
    /// Time limit for the guardians to join.
    ///
    /// `None` if they report again: nodes and guardians that do not answer are judged otherwise.
    join_deadline: Option<Duration>,
    /// Time at which an earlier manager, or that of another node, has failed.
    ///
    /// Zero for a new manager: the failure preceded its start.
    manager_failed_at: Duration,
    members: BTreeMap<ProcessNumber, Member>,
    living: BTreeSet<ProcessNumber>,
    /// Living processes that are not ready for the generation.
    unready: BTreeSet<ProcessNumber>,
    /// Processes that have not exited, or whose output has not ended.
    unfinished: BTreeSet<ProcessNumber>,
    /// Living processes that are in `MPI_Finalize`.
    at_end: BTreeSet<ProcessNumber>,
    /// Dead process that has left a replica store, by worker, since the last generation began.
    left_stores: BTreeMap<Worker, ProcessNumber>,
    /// Processes of a generation that have died since any process last resumed the program.
    failed: BTreeSet<ProcessNumber>,
    placement_query: PlacementQuery,
    /// Process of each rank in the last generation; empty after a change of the manager.
    ranks: Vec<ProcessNumber>,
    /// True if dead spares are replaced without a request.
    replenishes: bool,
    /// Number of living processes of each guardian that has ever started a process.
    load: BTreeMap<Guardian, u32>,
    /// Number of the next process.
    next_number: u32,
    generation: Generation,
    phase: Phase,
    /// True if the job recovers from a failure instead of restarting.
    ///
    /// True if a checkpoint exists. Also true if the program runs unprotected: its processes then
    /// end the job after a failure.
    is_protected: bool,
    failed_generations: u32,
    fruitless_generations: u32,
    stillborn_processes: u32,
    restarts: u32,
    /// True if a new spare died before it was ready: no more are started.
    has_failed_to_replenish: bool,
    /// Time of the first failure since the program last ran.
    failed_at: Option<Duration>,
    /// Time of the event being handled; before `now` if detection took time.
    happened_at: Duration,
    /// Time at which processes with aborted MPI libraries are killed, unless a generation begins.
    broken_deadline: Option<Duration>,
    /// Process that has exited without `MPI_Finalize`, with true if it was in a generation.
    leaver: Option<(ProcessNumber, bool)>,
    status: i32,
    /// Guardian of the process whose status is the job's.
    culprit: Option<Guardian>,
    now: Duration,
    actions: Vec<Action>,
}

impl Job {
    /// Returns a job whose guardians, one for each worker and spare, have not joined yet.
    pub fn new(workers: u32, spares: u32) -> Job {
        Job {
            workers,
            spares,
            guardians: BTreeSet::new(),
            absent: BTreeSet::new(),
            nodes: BTreeMap::new(),
            domains: Domains::default(),
            drain: None,
            leave_order: 0,
            earlier_processes: BTreeMap::new(),
            follows_manager: false,
            has_lost_output: false,
            join_deadline: Some(JOIN_TIMEOUT),
            manager_failed_at: Duration::ZERO,
            members: BTreeMap::new(),
            living: BTreeSet::new(),
            unready: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            at_end: BTreeSet::new(),
            left_stores: BTreeMap::new(),
            failed: BTreeSet::new(),
            placement_query: PlacementQuery::default(),
            ranks: Vec::new(),
            replenishes: false,
            load: BTreeMap::new(),
            next_number: 0,
            generation: Generation::default(),
            phase: Phase::Gathering,
            is_protected: false,
            failed_generations: 0,
            fruitless_generations: 0,
            stillborn_processes: 0,
            restarts: 0,
            has_failed_to_replenish: false,
            failed_at: None,
            happened_at: Duration::ZERO,
            broken_deadline: None,
            leaver: None,
            status: 0,
            culprit: None,
            now: Duration::ZERO,
            actions: Vec::new(),
        }
    }

    /// Records that this manager follows one that has died.
    ///
    /// Must be called before the guardians join.
    pub fn note_other_manager(&mut self) {
        self.follows_manager = true;
    }

    /// Sets whether spares that have died unused are replaced by new spares.
    #[must_use]
    pub fn with_replenishing(self, replenishes: bool) -> Job {
        Job {
            replenishes,
            ..self
        }
    }

    /// Handles an event and returns the resulting actions; `now` never decreases.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        (self.now, self.happened_at) = (now, now);
        match event {
            Event::GuardianJoined(guardian, node) => self.guardian_joined(guardian, node),
            Event::GuardianDied(guardian) => self.guardians_died(&[guardian]),
            Event::ProcessReported(number, guardian, history) => {
                self.earlier_processes.insert(number, (guardian, history));
            }
            Event::NodeInDomain(node, domain) => self.domains.add(node, domain),
            Event::NodeLost(node, silence) => {
                self.happened_at = now.saturating_sub(silence);
                self.node_lost(node);
            }
            Event::Registered(number) => self.process_registered(number),
            Event::Message(number, message) => self.handle_message(number, message),
            Event::Ended(number, ending) => {
                self.note_departed(number);
                self.process_ended(number, ending)
            }
            Event::OutputClosed(number, written) => self.output_closed(number, written > 0),
            Event::LibraryAborted(number, reported_generation) => {
                self.library_aborted(number, reported_generation)
            }
            Event::Abort(status) => self.end_with(status, None),
            Event::Replace(number) => self.replace(number),
            Event::Drain(node) => self.begin_drain(node),
            Event::Tick => {}
        }
        self.advance_drain();
        self.advance();
        std::mem::take(&mut self.actions)
    }

    /// Returns the generation that has begun or was announced last.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the job's exit status as known so far.
    pub fn status(&self) -> i32 {
        self.status
    }

    /// Returns the time at which [`Event::Tick`] must be sent.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Ending { deadline } => deadline,
            Phase::Running => self.broken_deadline,
            Phase::Gathering => self.join_deadline,
            Phase::Joining => self.departure_deadline(),
            Phase::Restarting | Phase::Over => None,
        }
    }

    /// True if guardians are awaited, so that no decision is made yet.
    pub fn is_gathering(&self) -> bool {
        self.phase == Phase::Gathering
    }

    fn is_joining(&self) -> bool {
        self.phase == Phase::Joining
    }

    /// True if processes end and are not replaced.
    pub fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. } | Phase::Over)
    }

    fn print(&mut self, text: String) {
        self.actions.push(Action::Print(text));
    }

    fn guardian_joined(&mut self, guardian: Guardian, node: Node) {
        self.nodes.insert(guardian, node);
        self.guardians.insert(guardian);
        self.start_if_all_have_joined();
        if self.phase == Phase::Over {
            // The job may have ended while this guardian had not joined.
            self.actions.push(Action::leave(guardian, self.status));
        }
    }

    fn joined_guardians(&self) -> u32 {
        (self.guardians.len() + self.absent.len()) as u32
    }

    pub(super) fn start_if_all_have_joined(&mut self) {
        if self.phase == Phase::Gathering && self.joined_guardians() == self.workers + self.spares {
            match self.follows_manager {
                true => self.take_over(),
                false => self.start_all(),
            }
        }
    }

    /// Starts every process, each at the guardian of its number.
    ///
    /// Another guardian starts the process if the guardian of its number has died.
    fn start_all(&mut self) {
        self.members.clear();
        self.left_stores.clear();
        self.failed.clear();
        self.next_number = 0;
        self.phase = Phase::Joining;
        for number in 0..self.workers + self.spares {
            self.start_next(Guardian(number));
        }
    }

    fn start_next(&mut self, home: Guardian) {
        let number = ProcessNumber(self.next_number);
        self.next_number += 1;
        self.start(number, home);
    }

    /// Starts a process at this guardian, or at the guardian with the fewest processes.
    ///
    /// Another guardian is chosen if this guardian has died or already has a process: a guardian
    /// of the same node or, if that node has none left, preferably a guardian of a failure domain
    /// without lost nodes.
    fn start(&mut self, number: ProcessNumber, home: Guardian) {
        let load = |guardian: &Guardian| self.load.get(guardian).copied().unwrap_or(0);
        let is_open = |home| self.guardians.contains(home) && !self.is_draining(self.nodes[home]);
        let guardian = match is_open(&home) && load(&home) == 0 {
            true => Some(home),
            false => {
                let is_near =
                    |guardian: &Guardian| self.nodes.get(guardian) == self.nodes.get(&home);
                let must_be_near = self.open_guardians().any(|it| is_near(&it));
                let candidates = self
                    .open_guardians()
                    .filter(|guardian| is_near(guardian) || !must_be_near);
                let has_failed =
                    |guardian: &Guardian| self.domains.has_lost_node(self.nodes[guardian]);
                candidates.min_by_key(|it| (has_failed(it), load(it), *it != home, *it))
            }
        };
        let Some(guardian) = guardian else {
            return;
        };
        let revivals = self
            .members
            .get(&number)
            .map_or(0, |before| before.revivals + 1);
        let member = Member {
            revivals,
            ..Member::new(guardian)
        };
        self.members.insert(number, member);
        self.living.insert(number);
        self.unready.insert(number);
        self.unfinished.insert(number);
        *self.load.entry(guardian).or_default() += 1;
        let is_later = number.0 >= self.workers + self.spares;
        let is_restart =
            is_later || self.generation > Generation::default() || self.restarts + revivals > 0;
        self.actions
            .push(Action::start(number, guardian, is_restart));
    }

    fn handle_message(&mut self, number: ProcessNumber, message: ToManager) {
        let (generation, is_begun, is_joining) = (
            self.generation,
            self.phase == Phase::Running,
            self.is_joining(),
        );
        // A process that is killed for a restart from the beginning has no influence any more.
        let Some(member) = self
            .members
            .get_mut(&number)
            .filter(|_| self.phase != Phase::Restarting)
        else {
            return;
        };
        match message {
            ToManager::Ready {
                generation: reported_generation,
            } => {
                let is_new_spare = member.is_replacement && !member.has_used_mpi();
                member.ready = Some(reported_generation);
                member.is_broken = false;
                if reported_generation == generation || !member.was_in_generation {
                    self.unready.remove(&number);
                }
                if is_new_spare {
                    self.print(message::spare_joined(number).to_string());
                }
            }
            ToManager::Running {
                generation: reported_generation,
            } => {
                member.has_resumed = true;
                self.is_protected = true;
                if reported_generation == generation {
                    (self.failed_generations, self.fruitless_generations) = (0, 0);
                    self.failed.clear();
                    self.failed_at = None;
                }
            }
            ToManager::AtEnd {
                generation: reported_generation,
            } if reported_generation == generation && member.is_alive() => {
                self.at_end.insert(number);
            }
            ToManager::StoreReplicas { worker } => member.replicas_of = Some(worker),
            ToManager::ReleaseReplicas => member.replicas_of = None,
            ToManager::Replenish { spares } => self.replenish(spares),
            ToManager::CanLeave {
                generation: reported_generation,
                order,
                is_replicated,
            } if reported_generation == generation && is_begun && order == self.leave_order => {
                self.note_can_leave(number, is_replicated)
            }
            ToManager::CanGivePlacementHints => member.can_give_hints = true,
            ToManager::PlacementHint { spare } => self.placement_query.hints.push(spare),
            ToManager::PlacementHintsEnd {
                generation: reported_generation,
            } => self.placement_query.is_answered |= reported_generation == generation,
            ToManager::Failed {
                generation: reported_generation,
            } if reported_generation == generation && (is_begun || !self.is_protected) => {
                self.generation_failed()
            }
            // The process waits for a restart from the beginning, but other processes have resumed.
            ToManager::Failed {
                generation: reported_generation,
            } if reported_generation == generation && is_joining => {
                let guardian = member.at;
                self.actions.push(Action::kill(number, guardian));
            }
            ToManager::AtEnd { .. } | ToManager::Failed { .. } | ToManager::CanLeave { .. } => {}
            ToManager::Abort { status } => {
                let guardian = member.at;
                self.abort(status, guardian);
            }
            // The node's manager handles these messages.
            ToManager::Spawns { .. }
            | ToManager::SpawnedCaptured { .. }
            | ToManager::SpawnedPermanent { .. }
            | ToManager::RolledBack { .. }
            | ToManager::OwnsDirectory { .. }
            | ToManager::ReadBoards { .. }
            | ToManager::RequestCheckpoint { .. } => {}
        }
    }

    /// Performs the transition that the current phase allows.
    fn advance(&mut self) {
        match self.phase {
            Phase::Restarting => self.restart_if_all_are_over(),
            Phase::Joining => self.begin_if_ready(),
            Phase::Running => {
                self.kill_broken_if_due();
                self.end_if_all_at_end();
            }
            Phase::Ending { deadline } => self.end_all(deadline),
            Phase::Gathering => self.end_if_guardians_missing(),
            Phase::Over => {}
        }
    }
}
