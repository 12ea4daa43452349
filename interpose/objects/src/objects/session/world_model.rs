//! Recipes of sessions, and the state of the World Model.

use std::sync::atomic::{AtomicU32, Ordering};

/// State of the World Model (11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum WorldModel {
    /// `MPI_Init` has not been called.
    NotYet = 0,
    /// `MPI_Init` has been called, but not `MPI_Finalize`.
    Open = 1,
    Over = 2,
}

/// State of the World Model and number of open sessions, for any thread.
static TOLD: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// Recipe of a session.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Session {
    /// Program's handle of the error handler.
    pub errhandler: u64,
}

/// Returns the state of the World Model. Safe in any thread and in a signal handler.
pub fn world_model() -> WorldModel {
    match TOLD[0].load(Ordering::Relaxed) {
        0 => WorldModel::NotYet,
        1 => WorldModel::Open,
        _ => WorldModel::Over,
    }
}

/// True if sessions are open. Safe in any thread and in a signal handler.
pub fn are_any() -> bool {
    TOLD[1].load(Ordering::Relaxed) != 0
}

/// Publishes the World Model's state and the number of open sessions to all threads.
pub(super) fn publish(model: WorldModel, sessions: usize) {
    TOLD[0].store(model as u32, Ordering::Relaxed);
    TOLD[1].store(sessions as u32, Ordering::Relaxed);
}
