//! The state of a node of a job.
//!
//! It consists of the node's processes and guardians, their lines, what they have handed over, and
//! the servers of the MPI library.

use super::begun::Begun;
use super::mail::Post;
use super::process::{Caller, Process};
use super::segments::Aborts;
use super::servers::Servers;
use super::spawned_groups::SpawnedGroups;
use super::takeover::Takeover;
use crate::Error;
use crate::messages::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;
use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};
use understudy_pmi::{Answer, Name};
use understudy_sockets::{Poller, Registry, Source};
use understudy_wire::io::Interest;
use understudy_wire::line::{Line, Listener};

/// What a process has handed over.
pub(super) struct Left {
    /// The worker whose copies these are.
    pub(super) worker: Worker,
    pub(super) files: Vec<OwnedFd>,
    /// How the process has ended, if it has.
    pub(super) status: i32,
}

/// A node while the job runs.
pub struct Node {
    pub(super) directory: PathBuf,
    pub(super) poller: Poller,
    pub(super) listener: Source<Listener>,
    pub(super) host: String,
    /// Those of the MPI library; not before a process has said which one.
    pub(super) servers: Option<Servers>,
    pub(super) aborts: Aborts,
    pub(super) post: Post,
    /// What other nodes have been asked for, by numbers that rise, with the namespaces that it is
    /// for.
    pub(super) asked: BTreeMap<u64, (Vec<Name>, Answer)>,
    pub(super) asked_last: u64,
    /// Who has not said yet what it is.
    pub(super) callers: Vec<Source<Line>>,
    /// How many workers the job has.
    pub(super) workers: u32,
    pub(super) guardians: BTreeMap<Guardian, Source<Line>>,
    /// If this manager follows another one.
    pub(super) takeover: Takeover,
    /// No other manager can take this one's place.
    pub(super) is_last: bool,
    /// The guardian of each process, by number, as all that follows.
    pub(super) homes: BTreeMap<ProcessNumber, Guardian>,
    pub(super) waiting: BTreeMap<ProcessNumber, Caller>,
    /// Programs of scripts that have come too late; each waits to be killed.
    pub(super) belated: BTreeMap<ProcessNumber, Caller>,
    pub(super) processes: BTreeMap<ProcessNumber, Process>,
    pub(super) files: BTreeMap<ProcessNumber, Left>,
    /// Who has inherited since the last generation began, and from whom.
    pub(super) heirs: BTreeMap<ProcessNumber, ProcessNumber>,
    /// Who has ended, and is not forgotten by its guardian.
    pub(super) ended: BTreeSet<ProcessNumber>,
    /// The last generation in which somebody has gone on with the program, and whether there has
    /// been one.
    pub(super) went_on: Option<Generation>,
    pub(super) is_protected: bool,
    pub(super) begun: Option<Begun>,
    /// What the program has started.
    pub(super) children: SpawnedGroups,
    /// The generation that processes are to leave their MPI library for, and since when.
    pub(super) announced: Option<(Generation, Instant)>,
    /// When main threads were last called in.
    pub(super) called: Option<Instant>,
    /// The program is at its end.
    pub(super) is_ending: bool,
    /// Guardians have been told to leave.
    pub(super) is_over: bool,
    /// The job ends: this node cannot go on.
    pub(super) has_given_up: bool,
    pub(super) reports: Vec<Report>,
}

impl Node {
    /// The node of the job that has this directory, where it is called. `is_last`: no other manager
    /// can take this one's place.
    ///
    /// # Errors
    /// Those of [`Poller::new`] and epoll_ctl(2).
    pub fn new(listener: Listener, directory: &Path, is_last: bool) -> Result<Node, Error> {
        let failed = || Error::system("a poller");
        let poller = Poller::new().map_err(failed())?;
        let listener = Source::new(poller.registry(), listener, Interest::READ);
        Ok(Node {
            directory: directory.to_owned(),
            listener: listener.map_err(failed())?,
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            servers: None,
            aborts: Aborts::default(),
            post: Post::new(poller.registry()),
            poller,
            asked: BTreeMap::new(),
            asked_last: 0,
            callers: Vec::new(),
            workers: 0,
            guardians: BTreeMap::new(),
            takeover: Takeover::default(),
            is_last,
            homes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            belated: BTreeMap::new(),
            processes: BTreeMap::new(),
            files: BTreeMap::new(),
            heirs: BTreeMap::new(),
            ended: BTreeSet::new(),
            went_on: None,
            is_protected: false,
            begun: None,
            children: SpawnedGroups::default(),
            announced: None,
            called: None,
            is_ending: false,
            is_over: false,
            has_given_up: false,
            reports: Vec::new(),
        })
    }

    /// What this node is called.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Guardians have been told to leave.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// There is no guardian, and nobody who may be one.
    pub fn is_deserted(&self) -> bool {
        self.guardians.is_empty() && self.callers.is_empty()
    }

    /// Returns the place where others register what the node is to wait for, too.
    pub fn registry(&self) -> &Registry {
        self.poller.registry()
    }

    /// What the leader is to be told.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// How many workers were started on this node.
    pub(super) fn workers_here(&self) -> u32 {
        self.guardians.range(..Guardian(self.workers)).count() as u32
    }

    /// The job cannot go on.
    pub(super) fn give_up(&mut self, why: String) {
        self.has_given_up = true;
        self.reports.push(Report::GivesUp(why));
    }
}
