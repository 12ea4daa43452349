//! What is said on lines.

use bincode::{Decode, Encode};
use std::path::PathBuf;
use understudy_numbers::{Generation, Guardian, ProcessNumber, Rank, Worker};

/// What a process or a guardian is.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Hello {
    /// One of the processes that a launcher has started.
    Guardian {
        rank: Guardian,
        workers: u32,
        spares: u32,
        /// New spares are to be started in place of those that have died unused.
        replenishes: bool,
        /// It has had another manager, and tells what there is.
        is_again: bool,
    },
    /// A process of the program, which calls its guardian.
    Process {
        number: ProcessNumber,
        /// The file of its MPI library.
        library: String,
    },
}

/// What the manager says to a process.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToProcess {
    /// Its guardian's answer: its end of the line to the manager, as a descriptor that comes with this.
    Line,
    /// Its page, as a descriptor that comes with this; so many workers were started on this node.
    Page { workers: u32 },
    /// Another manager follows one that has died: a spare is to say again that it is ready.
    Again,
    /// This process is a rank of a generation.
    Begin {
        generation: Generation,
        rank: Rank,
        size: u32,
        /// The job begins with it.
        is_first: bool,
        /// How many spares are left.
        spares: u32,
        /// Time of the failure that the program has not recovered from, in nanoseconds.
        ///
        /// The clock is CLOCK_MONOTONIC, which the processes of a node share.
        failed_at: Option<u64>,
        /// For the MPI library's environment: names and values.
        variables: Vec<(String, String)>,
        /// The variable that tells the number of the descriptor that comes with this message, if one does.
        descriptor: Option<String>,
        /// What this one has left has come before, or comes at once ([`ToProcess::Inherit`]).
        heir_of: Option<ProcessNumber>,
    },
    /// Which spares should take the parts of these processes, which have died?
    Ask { fallen: Vec<ProcessNumber> },
    /// With the files that a dead process has handed over: its number, and its status as wait(2) tells it. The guardian's word.
    Inherit { from: ProcessNumber, status: i32 },
    /// The answer to [`ToManager::Look`], in a file that comes with this: [`Boards`].
    Shown { id: u64 },
    /// All workers are at the end: nobody's death matters any more.
    End,
}

/// What workers show: the bytes of each one's file, none if it has no file; or why that cannot be read.
pub type Boards = Vec<Result<Vec<u8>, String>>;

/// What a process says.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToManager {
    /// MPI is as before `MPI_Init`, for this generation; for any, if this process has not been in one: it is a spare until it is.
    Ready {
        generation: Generation,
    },
    /// This worker goes on with the program in this generation: if it is protected, all can go back to an epoch.
    Running {
        generation: Generation,
    },
    /// This generation has failed here, although nobody has died.
    Failed {
        generation: Generation,
    },
    /// This worker is in `MPI_Finalize`, and needs the others no more.
    AtEnd {
        generation: Generation,
    },
    /// With files that have copies of this worker and of its partners: they are to outlive this process. Said to the guardian first, as the next.
    Keeps {
        worker: Worker,
    },
    /// What it has handed over, or inherited, is not needed any more.
    KeepsNothing,
    /// So many spares more are wanted.
    Replenish {
        spares: u32,
    },
    /// This process can be asked which spares should take parts.
    CanChoose,
    Wish {
        spare: ProcessNumber,
    },
    /// That is all, for this generation.
    HasChosen {
        generation: Generation,
    },
    /// The whole job is to end with this status.
    Abort {
        status: i32,
    },
    /// This worker is about to start processes (`MPI_Comm_spawn`), for the time with this number.
    Spawns {
        worker: Worker,
        number: u64,
    },
    /// Those that it has started up to this time are behind a cut of which it does not know yet whether it counts.
    Captured {
        worker: Worker,
        number: u64,
    },
    /// Those that it has started up to this time do not go back with it any more.
    Settled {
        worker: Worker,
        number: u64,
    },
    /// It has gone back to where it had started processes as often as this.
    WentBack {
        worker: Worker,
        number: u64,
    },
    /// Requests the boards (`understudy_relay::board`) of these workers.
    ///
    /// All of them are on the node of this process.
    Look {
        id: u64,
        process: ProcessNumber,
        workers: Vec<Worker>,
    },
}

/// What the manager says to a guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToGuardian {
    /// Start a process of the program; `anew`: not for the first time.
    Start {
        number: ProcessNumber,
        anew: bool,
    },
    Kill {
        number: ProcessNumber,
    },
    /// End with this status.
    Leave {
        status: i32,
    },
    /// With the files that `from` had handed over, a copy of this worker, before it ended with this status: `heir` gets them, and they are to outlive it.
    Inherit {
        heir: ProcessNumber,
        from: ProcessNumber,
        worker: Worker,
        status: i32,
    },
    /// What this process has left, which has ended, is not needed any more.
    Forget {
        number: ProcessNumber,
    },
    /// All have gone on in a generation since this manager was started.
    GoesOn,
    /// No other manager can take this one's place.
    IsLast,
    /// Start a process that the program has asked for, with the descriptor that its MPI library needs, if that needs one.
    StartChild(ChildStart),
}

/// A program that processes are started of.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ChildProgram {
    /// As the program names it; searched for in PATH if it has no slash.
    pub file: String,
    /// The first is its name.
    pub arguments: Vec<String>,
    pub variables: Vec<(String, String)>,
    pub directory: Option<PathBuf>,
    pub processes: u32,
}

/// A process that the program has asked for (`MPI_Comm_spawn`).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ChildStart {
    /// By which it is known from now on.
    pub id: u64,
    /// Equal when a worker that has gone back starts it again: what it has printed is not printed twice.
    pub name: String,
    pub program: ChildProgram,
    /// Must be in its environment.
    pub variables: Vec<(String, String)>,
    /// Are put there if the user has set nothing of that name.
    pub defaults: Vec<(String, String)>,
}

/// What has become of one.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ChildNews {
    /// Comes with the process itself (pidfd_open(2)): it may have ended already.
    Started,
    NotStarted {
        why: String,
    },
    /// As a shell tells it; and whether a signal has ended it.
    Ended {
        status: i32,
        is_killed: bool,
    },
}

/// Sender of a signal that has ended a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Killer {
    Unknown,
    Launcher,
    /// The kernel, for want of memory.
    Memory,
}

/// How a process has ended.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Ended {
    /// By `exit`, with this status; its process id was this.
    Exited {
        number: ProcessNumber,
        status: i32,
        pid: u32,
    },
    Killed {
        number: ProcessNumber,
        signal: i32,
        by: Killer,
    },
    /// The output of a process has ended after so many bytes.
    Closed { number: ProcessNumber, written: u64 },
}

/// What a guardian says.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum FromGuardian {
    Ended(Ended),
    Child {
        id: u64,
        news: ChildNews,
    },
    /// A process has called; comes with the [`Call::DESCRIPTORS`] of the call.
    Called {
        number: ProcessNumber,
        call: Call,
    },
    /// After [`Hello::Guardian`], and before [`FromGuardian::Told`]: what is known of a process.
    Has(Has),
    Told,
}

/// A process has called its guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Call {
    pub pid: u32,
    /// The file of its MPI library.
    pub library: String,
}

impl Call {
    /// The line to it, its page, and itself (pidfd_open(2)).
    pub const DESCRIPTORS: usize = 3;
}

/// What a guardian has of a process that it has started. Comes with the descriptors of the calls, and then the files.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Has {
    pub number: ProcessNumber,
    /// The last ones: a script runs one program after the other.
    pub calls: Vec<Call>,
    /// The worker whose copies the files have that it has handed over, or has got as an heir.
    pub keeps: Option<Worker>,
    /// It has inherited from this one.
    pub heir_of: Option<ProcessNumber>,
    /// What has ended of it.
    pub ends: Vec<Ended>,
}
