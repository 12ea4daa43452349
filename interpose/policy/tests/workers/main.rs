//! Simulator of the workers' protocol: commit, meeting and recovery, without MPI.
//!
//! The simulated processes run the state machines of the runtime. The simulator decides which
//! process proceeds and which fails, and knows which replicas each process really has. It asserts:
//!
//! - a plan uses only replicas that exist, and gives one to every worker;
//! - all workers return to one checkpoint, not older than any that a process had committed before
//!   the first failure;
//! - once files are rolled back, no later plan chooses another checkpoint;
//! - a job is given up only if no checkpoint of all workers is left;
//! - after a success, all replicas of the checkpoint exist again.

mod checkpoint;
mod cost;
#[path = "../../src/dice.rs"]
mod dice;
mod exhaustive;
mod job;
mod process;
mod random;
