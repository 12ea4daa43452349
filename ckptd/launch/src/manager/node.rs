//! The state of a node of a job.
//!
//! The state consists of the node's processes and guardians, their connections, their replica
//! stores, and the servers of the MPI library.

use super::begun_generation::BegunGeneration;
use super::follower::SuccessorState;
use super::guardian_silences::GuardianSilences;
use super::node_queue::{NodeQueue, QueueSender};
use super::process::{Process, RegisteredProcess};
use super::segments::Aborts;
use super::servers::Servers;
use super::spawned_groups::SpawnedGroups;
use super::takeover::Takeover;
use crate::Error;
use crate::job_directory::CKPTD_JOB;
use crate::messages::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;
use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};
use understudy_pmi::{Answer, GenerationName};
use understudy_protocol::GuardianLimits;
use understudy_relay::job_of_directory;
use understudy_sockets::{Poller, Registry, Source};
use understudy_wire::io::Interest;
use understudy_wire::line::{Line, LineListener, ManagerRole};

/// Replica store that a process has handed over or adopted.
pub(super) struct ReplicaStore {
    /// Worker for whose replacement the files are.
    ///
    /// The files contain its replica and those that it stores for other workers.
    pub(super) worker: Worker,
    pub(super) files: Vec<OwnedFd>,
    /// Status of the process as wait(2) returns it; SIGKILL until the process has ended.
    pub(super) status: i32,
}

/// A node while the job runs.
pub struct NodeState {
    pub(super) directory: PathBuf,
    pub(super) poller: Poller,
    pub(super) listener: Source<LineListener>,
    pub(super) host: String,
    /// Servers of the MPI library; `None` until the first process has named the library.
    pub(super) servers: Option<Servers>,
    pub(super) aborts: Aborts,
    pub(super) queue: NodeQueue,
    /// Open requests to other nodes by identifier, with the namespaces that they concern.
    pub(super) open_requests: BTreeMap<u64, (Vec<GenerationName>, Answer)>,
    /// Last identifier that was assigned.
    pub(super) last_request_id: u64,
    /// Connections on which no first message has arrived yet.
    pub(super) callers: Vec<Source<Line>>,
    /// Number of workers of the job.
    pub(super) workers: u32,
    /// Number of guardians of the job.
    pub(super) size: u32,
    pub(super) guardians: BTreeMap<Guardian, Source<Line>>,
    /// Guardians that report again, until they have connected or are dead.
    pub(super) returning: BTreeSet<Guardian>,
    pub(super) silences: GuardianSilences,
    /// Guardians whose connections have ended: they count as dead.
    pub(super) lost_guardians: BTreeSet<Guardian>,
    /// State of the takeover if this manager follows a dead manager.
    pub(super) takeover: Takeover,
    pub(super) role: ManagerRole,
    /// State that guardians keep for another manager, on a node without the leader.
    pub(super) successor: Option<SuccessorState>,
    /// Guardian of each process; the keys of the following maps are processes, too.
    pub(super) homes: BTreeMap<ProcessNumber, Guardian>,
    /// Processes that have registered and wait for their admission.
    pub(super) waiting: BTreeMap<ProcessNumber, RegisteredProcess>,
    /// Next programs of scripts that have registered too early; each waits to be killed.
    pub(super) early_programs: BTreeMap<ProcessNumber, RegisteredProcess>,
    pub(super) processes: BTreeMap<ProcessNumber, Process>,
    pub(super) stores: BTreeMap<ProcessNumber, ReplicaStore>,
    /// Processes that have adopted a replica store since the last generation, with the former
    /// owner.
    pub(super) adoptions: BTreeMap<ProcessNumber, ProcessNumber>,
    /// Ended processes whose guardian still has their state.
    pub(super) ended: BTreeSet<ProcessNumber>,
    /// Last generation in which a process has resumed the program.
    pub(super) last_resumed: Option<Generation>,
    /// True if any process has ever resumed the current program of a script.
    pub(super) is_protected: bool,
    pub(super) last_generation: Option<BegunGeneration>,
    /// Processes that the program has spawned.
    pub(super) children: SpawnedGroups,
    /// Generation for which processes leave their MPI library, with the time of its announcement.
    pub(super) announced: Option<(Generation, Instant)>,
    /// Time when main threads were last interrupted.
    pub(super) main_threads_interrupted: Option<Instant>,
    /// Owner file of the job in its directory of checkpoints, which a thread rewrites.
    pub(super) owner_file: Option<PathBuf>,
    /// True if the program ends.
    pub(super) is_ending: bool,
    /// True if guardians were ordered to exit.
    pub(super) is_over: bool,
    /// True if the leader has ordered this node to end.
    pub(super) must_end: bool,
    /// True if the job ends because this node cannot continue.
    pub(super) has_given_up: bool,
    pub(super) reports: Vec<Report>,
}

impl NodeState {
    /// Returns the state of a node of the job with this directory.
    ///
    /// Guardians connect to `listener`, and have to answer within `limits`.
    ///
    /// # Errors
    /// Errors of [`Poller::new`] and epoll_ctl(2).
    pub fn new(
        listener: LineListener,
        directory: &Path,
        limits: GuardianLimits,
    ) -> Result<NodeState, Error> {
        let failed = || Error::system("a poller");
        let poller = Poller::new().map_err(failed())?;
        let listener = Source::new(poller.registry(), listener, Interest::READ);
        Ok(NodeState {
            directory: directory.to_owned(),
            listener: listener.map_err(failed())?,
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            servers: None,
            aborts: Aborts::default(),
            queue: NodeQueue::new(poller.registry()),
            poller,
            open_requests: BTreeMap::new(),
            last_request_id: 0,
            callers: Vec::new(),
            workers: 0,
            size: 0,
            guardians: BTreeMap::new(),
            returning: BTreeSet::new(),
            silences: GuardianSilences::new(limits),
            lost_guardians: BTreeSet::new(),
            takeover: Takeover::default(),
            role: ManagerRole::Alone,
            successor: None,
            homes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            early_programs: BTreeMap::new(),
            processes: BTreeMap::new(),
            stores: BTreeMap::new(),
            adoptions: BTreeMap::new(),
            ended: BTreeSet::new(),
            last_resumed: None,
            is_protected: false,
            last_generation: None,
            children: SpawnedGroups::default(),
            announced: None,
            main_threads_interrupted: None,
            owner_file: None,
            is_ending: false,
            is_over: false,
            must_end: false,
            has_given_up: false,
            reports: Vec::new(),
        })
    }

    /// Returns the name of this node's host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// True if the launcher of this job tolerates the death of a guardian.
    pub fn survives_guardians(&self) -> bool {
        let name = self.directory.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| job_of_directory(name).starts_with(CKPTD_JOB))
    }

    /// True if guardians were ordered to exit.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// True if no guardian is connected or will return.
    ///
    /// A peer that has not sent its first message counts as a guardian.
    pub fn is_deserted(&self) -> bool {
        self.guardians.is_empty() && self.returning.is_empty() && self.callers.is_empty()
    }

    /// Returns the registry of the node's poller, for sources of other owners.
    pub fn registry(&self) -> &Registry {
        self.poller.registry()
    }

    /// Returns the sending end of the node's queue.
    pub(super) fn queue_sender(&self) -> QueueSender {
        self.queue.sender()
    }

    /// Returns the reports for the leader.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Returns the number of workers that were started on this node.
    pub(super) fn workers_here(&self) -> u32 {
        self.guardians.range(..Guardian(self.workers)).count() as u32
    }

    /// Reports that this node cannot continue the job.
    pub(super) fn give_up(&mut self, why: String) {
        self.has_given_up = true;
        self.reports.push(Report::CannotContinue(why));
    }
}
