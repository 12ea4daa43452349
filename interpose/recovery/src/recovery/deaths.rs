//! Deaths of processes, as the survivors exchange and record them.
//!
//! A process leaves a note about a fatal signal (`fatal`) in the memory of its node, and the living
//! processes of the node read the note. All other processes get the note in the meeting, so all
//! reach equal verdicts ([`super::death_history`]). Joining processes get the history of earlier
//! deaths.

use super::death_history::{Death, DeathCause, DeathView, MARK_WORDS, RECORD_WORDS};
use crate::Runtime;
use crate::gather::gather_from_all;
use crate::{peers, schedule, user, world};
use understudy_mpi as mpi;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_plan::Verdict;
use understudy_relay::{NOTE_WORDS, Position};

/// Returns the earlier deaths, for a process that joins the job.
pub fn earlier(rt: &Runtime) -> Vec<Death> {
    rt.recovery.history.borrow().earlier.clone()
}

/// Records the earlier deaths, in a process that joins the job.
pub fn set_earlier(rt: &Runtime, earlier: Vec<Death>) {
    rt.recovery.history.borrow_mut().earlier = earlier;
}

/// Exchanges what the survivors on the nodes of dead processes have read; collective.
///
/// Returns for each dead worker the position up to which its output was seen.
pub fn exchange(
    rt: &Runtime,
    all: RealComm,
    dead: &[Worker],
    living: &[ProcessNumber],
) -> mpi::Result<Vec<[Position; 2]>> {
    rt.recovery.history.borrow_mut().now.clear();
    if dead.is_empty() {
        return Ok(Vec::new());
    }
    let process_of = |&worker: &Worker| world::get(rt).process_of[worker.index()];
    let own = DeathView {
        earlier: earlier(rt),
        processes: dead.iter().map(process_of).collect(),
    };
    let processes = rt
        .recovery
        .history
        .borrow_mut()
        .agree(&gather_from_all(all, &own)?, living);
    let marks = user::failed_output(rt, &processes);
    let own: Vec<[u64; RECORD_WORDS]> = processes
        .iter()
        .zip(marks)
        .map(|(&rank, marks)| own_record(rt, rank, marks))
        .collect();
    // A process has 0 for each word that it does not know, and all known values of a word are
    // equal. The maximum is therefore the known value.
    let all = all.allreduce_min_max(Extreme::Greatest, own.as_flattened())?;
    let (all, _) = all.as_chunks::<RECORD_WORDS>();
    let merged = dead.iter().copied().zip(processes).zip(all);
    let deaths = merged
        .map(|(which, words)| Death::read(which, words))
        .collect();
    rt.recovery.history.borrow_mut().record(deaths);
    let mark = |words: &[u64]| Position {
        line: words[0],
        column: words[1],
    };
    Ok(all
        .iter()
        .map(|words| [mark(words), mark(&words[2..])])
        .collect())
}

/// Returns the words that this process has about a dead process; unknown words are 0.
fn own_record(rt: &Runtime, rank: ProcessNumber, marks: [Position; 2]) -> [u64; RECORD_WORDS] {
    let mut words = [0; RECORD_WORDS];
    for (words, mark) in words.chunks_mut(2).zip(marks) {
        words.copy_from_slice(&[mark.line, mark.column]);
    }
    if let Some((note, left)) = user::failure_record(rt, rank) {
        words[MARK_WORDS..][..NOTE_WORDS].copy_from_slice(&note);
        words[RECORD_WORDS - 2] = left.map_or(0, |status| 1 + u64::from(status));
    }
    words[RECORD_WORDS - 1] =
        peers::wait_status(rank).map_or(0, |status| 1 + u64::from(status as u32));
    words
}

/// Returns the verdict if the job must end because of its deaths.
///
/// `epoch` is the epoch to which all roll back. The verdict is equal in all processes.
pub fn judge(rt: &Runtime, epoch: Epoch) -> Option<Verdict> {
    rt.recovery.history.borrow().judge(epoch)
}

/// Records that the recovery has succeeded; returns a remark for the user.
///
/// Unless the program itself has caused every death, the estimate of the machine's failure rate
/// counts one failure, however many processes have died.
pub fn record_success(rt: &Runtime, epoch: Epoch) -> Option<String> {
    let is_fault =
        |death: &Death| matches!(&death.cause, DeathCause::Fault(note) if !note.frames.is_empty());
    if !rt.recovery.history.borrow().now.iter().all(is_fault) {
        schedule::state(rt).pace.fail();
    }
    rt.recovery.history.borrow_mut().record_success(epoch)
}

/// Returns the cause of death of a worker's process, as `: SIGSEGV at …`.
///
/// Empty if the cause is unknown or SIGKILL.
pub fn cause_of(rt: &Runtime, worker: Worker) -> String {
    let history = rt.recovery.history.borrow();
    let mut deaths = history.now.iter().chain(history.earlier.iter().rev());
    let last = deaths.find(|death| death.worker == worker);
    last.map_or_else(String::new, |death| death.cause.phrase())
}

/// Returns the cause of death of a worker's process, for the event file.
pub fn label(rt: &Runtime, worker: Worker) -> String {
    let history = rt.recovery.history.borrow();
    let mut known = history.now.iter().chain(history.earlier.iter().rev());
    let death = known.find(|death| death.worker == worker);
    match death.map(|death| death.cause.clone()) {
        Some(DeathCause::Signal(libc::SIGKILL)) => "SIGKILL".into(),
        Some(DeathCause::Unknown) | None => "unknown".into(),
        Some(cause) => cause.description(),
    }
}
