//! Messages about processes, as events of the job.

use understudy_protocol::{Ending, Event};
use understudy_wire::line::{Killer, ProcessEnd, ToManager};

/// Returns the event of the end of a process.
pub fn event_of_end(message: &ProcessEnd) -> Event {
    match *message {
        ProcessEnd::Exited { number, status, .. } => Event::Ended(number, Ending::Exit(status)),
        ProcessEnd::Killed { number, signal, by } => {
            let ending = match by {
                Killer::Unknown => Ending::Signal(signal),
                Killer::Launcher => Ending::LauncherSignal(signal),
                Killer::OutOfMemory => Ending::OutOfMemory,
            };
            Event::Ended(number, ending)
        }
        ProcessEnd::OutputClosed { number, written } => Event::OutputClosed(number, written),
    }
}

/// True if the job, and not the node of the process, handles a message.
pub fn is_for_job(message: &ToManager) -> bool {
    !matches!(
        message,
        ToManager::Spawns { .. }
            | ToManager::SpawnedCaptured { .. }
            | ToManager::SpawnedPermanent { .. }
            | ToManager::RolledBack { .. }
            | ToManager::ReadBoards { .. }
            | ToManager::RequestCheckpoint { .. }
    )
}
