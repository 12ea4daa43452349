//! Outputs of the state machine.

use crate::Node;
use understudy_messages::{GenerationStart, JobOrder, NodeEnd, ToGuardian};
use understudy_numbers::{Generation, Guardian, ProcessNumber};

/// An output of the state machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Sends an order to the nodes that execute it.
    Order(JobOrder<BegunGeneration>),
    /// Prints a message.
    Print(String),
    /// Makes the workers of a node leave at the next checkpoint, or withdraws that.
    EndNode(Node, NodeEnd),
    /// Reports that a node cannot be drained, for this reason.
    RefuseDrain(String),
}

/// A generation that begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BegunGeneration {
    pub start: GenerationStart,
    /// The process of each rank.
    pub ranks: Vec<ProcessNumber>,
}

impl Action {
    fn to_guardian(rank: Guardian, message: ToGuardian) -> Action {
        Action::Order(JobOrder::Guardian { rank, message })
    }

    /// Starts a process at a guardian.
    ///
    /// `anew` is false for the processes with which the job begins, and true for all later ones.
    pub fn start(number: ProcessNumber, at: Guardian, anew: bool) -> Action {
        Action::to_guardian(
            at,
            ToGuardian::Start {
                number,
                is_restart: anew,
            },
        )
    }

    /// Kills a process.
    ///
    /// The node manager kills the process if the guardian has exited.
    pub fn kill(number: ProcessNumber, at: Guardian) -> Action {
        Action::to_guardian(at, ToGuardian::Kill { number })
    }

    /// Makes a guardian exit with this status.
    pub fn leave(at: Guardian, status: i32) -> Action {
        Action::to_guardian(at, ToGuardian::Leave { status })
    }

    /// Makes every living process leave its MPI library, because this generation will begin.
    pub fn announce(generation: Generation) -> Action {
        Action::Order(JobOrder::Announce { generation })
    }

    /// Ends the program; `is_good` is true if all workers are in `MPI_Finalize`.
    pub fn end(is_good: bool) -> Action {
        Action::Order(JobOrder::End { is_good })
    }

    /// Admits a process; the generation is `None` at the end of the job.
    pub fn admit(number: ProcessNumber, generation: Option<Generation>) -> Action {
        Action::Order(JobOrder::Admit { number, generation })
    }
}
