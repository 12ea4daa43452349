//! Simulated process, which passes through its stages.

use std::collections::BTreeSet;
use understudy_protocol::{Ending, Generation, Guardian, Node, ProcessHistory, Worker};

/// Stage of a simulated process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Starting,
    /// The process is ready for any generation.
    Spare,
    /// The process's MPI library is in its state before `MPI_Init` for this generation.
    Ready(Generation),
    /// The process is in this generation, this number of steps before the end.
    Running(Generation, u32),
    /// The process waits in `MPI_Finalize`.
    AtEnd(Generation),
    Dead,
}

pub struct Process {
    pub node: Node,
    pub at: Guardian,
    pub stage: Stage,
    /// State that a new manager receives from the guardian and the shared page.
    pub history: ProcessHistory,
    pub ending: Option<Ending>,
    /// True if the guardian has released the state of the process.
    pub is_forgotten: bool,
    /// Generation in the shared page.
    pub page: Generation,
    /// Worker that the process runs; `None` for a spare.
    pub part: Option<Worker>,
    /// Workers of which the process has replicas.
    pub copies: BTreeSet<Worker>,
    /// True if the guardian has the replicas, which outlive the process.
    pub keeps: bool,
    /// Worker whose replicas the process has adopted.
    pub of_dead: Option<Worker>,
}
