//! What the state machine hears, and what it wants done.

use std::fmt;

/// One world of the job's MPI library; the first is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Generation(pub u32);

impl Generation {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A process of the program: unique in the job, rises with each that is started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Number(pub u32);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A guardian, by its rank in what the launcher has started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Guardian(pub u32);

/// Where guardians are, and where what their processes have handed over stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Node(pub u32);

/// How a process has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It has ended itself, with this status.
    Exit(i32),
    /// A signal has ended it.
    Signal(i32),
    /// A signal has ended it that the launcher has sent to it.
    Asked(i32),
}

impl Ending {
    /// As a shell tells it.
    pub fn status(self) -> i32 {
        match self {
            Ending::Exit(status) => status,
            Ending::Signal(signal) | Ending::Asked(signal) => 128 + signal,
        }
    }
}

/// What a process says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// Its MPI is as before `MPI_Init`, for this generation; or, if it has not been in any, for whichever it is needed in.
    Ready(Generation),
    /// It goes on with the program in this generation: if it is protected, all can go back to an epoch.
    Running(Generation),
    /// This generation has failed here, although nobody has died.
    Failed(Generation),
    /// This worker is in `MPI_Finalize`, and needs the others no more.
    AtEnd(Generation),
    /// It has handed over files with the copies of this worker, which are to outlive it.
    Keeps(u32),
    /// Those, or what it has inherited, are not needed any more.
    KeepsNothing,
    /// So many spares more are wanted.
    Replenish(u32),
    /// It can be asked which spares should take parts ([`Action::Ask`]).
    CanChoose,
    /// This one should, if that is possible.
    Wish(Number),
    /// That is all that it has to say to the question of this generation.
    HasChosen(Generation),
    /// The whole job is to end with this status.
    Abort(i32),
}

/// What is left of a process that another manager has known, which has died.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// The generation that it was told last; its own, if it has been in one.
    pub generation: Generation,
    /// It has used MPI.
    pub is_heard: bool,
    /// It has been in a generation that has begun, or has inherited.
    pub has_played: bool,
    /// It has gone on with the program in one.
    pub has_part: bool,
    /// Somebody had, when its generation began.
    pub is_protected: bool,
    /// It may have been told that all workers are at their end.
    pub has_ended: bool,
    /// The worker whose copies it has handed over, or inherited.
    pub keeps: Option<u32>,
    /// It has inherited what this one had handed over.
    pub heir_of: Option<Number>,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A guardian has come, on this node, and has told all that it knows ([`Event::Known`]).
    Came(Guardian, Node),
    /// A guardian has died, and its processes with it.
    Gone(Guardian),
    /// Before the guardian comes: a process that it has started for another manager. If that has ended, this is told when all guardians have come.
    Known(Number, Guardian, Known),
    /// A node is lost, with all that was there.
    Lost(Node),
    /// A process uses MPI: its program does, or the next one of its script.
    Called(Number),
    Said(Number, Said),
    Ended(Number, Ending),
    /// The output of a process that has ended has come to its end: so many bytes, to standard output.
    Closed(Number, u64),
    /// The MPI library of a process has given up in this generation, as it may when another process dies. (A program's own abort is [`Said::Abort`].)
    Broke(Number, Generation),
    /// The job cannot go on, and is to end with this status.
    Abort(i32),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Start a process of the program. `anew`: not for the first time.
    Start { number: Number, at: Guardian, anew: bool },
    /// A process that uses MPI is let in, for this generation; or not, since the job is at its end.
    Admit {
        number: Number,
        generation: Option<Generation>,
    },
    /// Every living process is to leave its MPI library for this generation.
    Announce(Generation),
    /// A process gets the files that a dead one of its node has handed over; they are its own from now on.
    Inherit { heir: Number, from: Number },
    /// Which spares should take the parts of these, which have died? To a process that can say.
    Ask { number: Number, fallen: Vec<Number> },
    /// The generation before ends; this one begins with these ranks, and so many spares are left.
    Begin {
        generation: Generation,
        ranks: Vec<Number>,
        spares: u32,
        /// The job begins with it.
        is_first: bool,
    },
    /// The guardian may have gone.
    Kill { number: Number, at: Guardian },
    /// The program is at its end. If that is a good one, all processes are to be told; another program of a script may follow it.
    End { is_good: bool },
    /// The guardian ends with this status.
    Leave { at: Guardian, status: i32 },
    /// Tell the user.
    Say(String),
}
