//! Causes of death of processes, and the decision whether the program is at fault.
//!
//! The job ends at the third death by a signal that the program itself has caused, at an identical
//! place. The three deaths may be of different workers. A death counts if the job rolled back to an
//! epoch that is at most two epochs earlier than the one to which it would roll back now. Such a
//! program would fail in every spare: it has a bug. The first two deaths may have been the
//! machine's fault (a flipped bit is gone after the rollback).
//!
//! *Place* means the faulting instruction. If the program has raised the signal itself (abort(3)),
//! the callers of that instruction are also compared, since all such signals come from one function
//! of libc. If the signal handler could not run (the stack is exhausted), only the signal is
//! compared. Three causes never count, since they cannot be distinguished from the loss of a
//! machine: SIGKILL, a signal from another process, and a bus error that the hardware reports.
//!
//! After the third SIGKILL of one worker, a message names the kernel's out-of-memory killer. The
//! tenth death of a worker ends the job. Earlier deaths count under the same condition.
//!
//! A worker that exits without MPI_Finalize ends the job at once.

use std::collections::HashSet;
use std::ffi::c_int;
use std::fmt::Write;
use understudy_catalogue::message;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_plan::Verdict;
use understudy_relay::{Frame, NOTE_WORDS, Note};

/// Number of deaths of equal cause that ends the job.
const MAX_EQUAL_DEATHS: usize = 3;
/// Number of deaths of one worker, of any cause, that ends the job.
///
/// The limit is necessary because replacements may never run out.
const MAX_DEATHS_OF_WORKER: usize = 10;
/// Maximum distance in epochs from the rollback after an earlier death to the present rollback.
///
/// Earlier deaths at a greater distance do not count. The distance may exceed 0, since after a
/// rollback the program may take checkpoints before it reaches the place again.
const MAX_EPOCHS_BETWEEN: u64 = 2;

/// Length in words of the record about a dead process, which the survivors exchange.
///
/// The words are: the line and column at which the process's output ends in its two streams, the
/// note about its fatal signal, 1 + its exit status, and 1 + its status as of wait(2). Unknown
/// words are 0.
pub(super) const RECORD_WORDS: usize = MARK_WORDS + NOTE_WORDS + 2;
/// Words for line and column of both streams.
pub(super) const MARK_WORDS: usize = 4;

/// Cause of the death of a process.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub(super) enum DeathCause {
    Unknown,
    /// Signal without a note of the process.
    Signal(c_int),
    /// Signal with a note of the process, and the place if the program caused it.
    Fault(Note),
    /// Exit with this status, without MPI_Finalize.
    Exited(u32),
}

/// Death of a worker's process.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Death {
    pub(super) worker: Worker,
    process: ProcessNumber,
    /// Epoch to which the recovery rolled back.
    epoch: Epoch,
    pub(super) cause: DeathCause,
}

/// Deaths that a process has recorded.
#[derive(bincode::Encode, bincode::Decode)]
pub(super) struct DeathView {
    pub(super) earlier: Vec<Death>,
    /// Last known process of each worker that is dead now.
    pub(super) processes: Vec<ProcessNumber>,
}

/// Deaths that may be the program's fault.
#[derive(Default)]
pub(super) struct DeathHistory {
    /// Deaths before recoveries that have succeeded.
    pub(super) earlier: Vec<Death>,
    /// Deaths before the recovery under way.
    pub(super) now: Vec<Death>,
}

impl DeathHistory {
    /// The history at the start of the process.
    pub(super) const START: DeathHistory = DeathHistory {
        earlier: Vec::new(),
        now: Vec::new(),
    };
}

impl DeathHistory {
    fn contains(&self, process: ProcessNumber) -> bool {
        self.earlier.iter().any(|death| death.process == process)
    }

    /// Returns the last process of each dead worker, and agrees on the earlier deaths.
    ///
    /// An attempt may have succeeded for some processes only. Some views may therefore name a
    /// process in `living` as the worker's; another view's process is returned instead.
    pub(super) fn agree(
        &mut self,
        views: &[DeathView],
        living: &[ProcessNumber],
    ) -> Vec<ProcessNumber> {
        self.earlier.clear();
        let mut seen = HashSet::new();
        for death in views.iter().flat_map(|view| &view.earlier) {
            if seen.insert(death.process) {
                self.earlier.push(death.clone());
            }
        }
        let living: HashSet<ProcessNumber> = living.iter().copied().collect();
        let last = |at: usize| {
            let processes = views.iter().map(|view| view.processes[at]);
            let dead = processes.filter(|process| !living.contains(process));
            dead.max_by_key(|&process| (!self.contains(process), process))
        };
        let count = views.first().map_or(0, |view| view.processes.len());
        (0..count)
            .map(|at| last(at).unwrap_or(views[0].processes[at]))
            .collect()
    }

    /// Records the deaths that started the recovery, except those of earlier attempts.
    pub(super) fn record(&mut self, mut deaths: Vec<Death>) {
        deaths.retain(|death| !self.contains(death.process));
        self.now = deaths;
    }

    /// Returns the verdict if the job must end because of its deaths.
    pub(super) fn judge(&self, epoch: Epoch) -> Option<Verdict> {
        self.now.iter().find_map(|death| {
            let worker = death.worker;
            if let DeathCause::Exited(status) = death.cause {
                return Some(Verdict {
                    why: message::worker_without_finalize(worker, status).to_string(),
                    status: if status == 0 { 1 } else { status as c_int },
                });
            }
            let recent = || self.earlier.iter().filter(|other| other.is_recent(epoch));
            let mut deaths_of_worker = recent().filter(|other| other.worker == worker).peekable();
            let since = deaths_of_worker.peek().map_or(epoch, |first| first.epoch);
            if deaths_of_worker.count() + 1 >= MAX_DEATHS_OF_WORKER {
                return Some(Verdict {
                    why: message::repeated_deaths(
                        worker,
                        MAX_DEATHS_OF_WORKER,
                        since,
                        death.cause.phrase(),
                    )
                    .to_string(),
                    status: understudy_catalogue::exit_status::RECOVERY_FAILED,
                });
            }
            let same = recent();
            let mut same = same
                .filter(|other| other.cause.is_same(&death.cause))
                .peekable();
            let first = same.peek().map_or(epoch, |first| first.epoch);
            (same.count() + 1 >= MAX_EQUAL_DEATHS).then(|| Verdict {
                why: message::repeated_fault(
                    worker,
                    death.cause.phrase(),
                    MAX_EQUAL_DEATHS,
                    first,
                    death.cause.backtrace(),
                )
                .to_string(),
                status: understudy_catalogue::exit_status::PROGRAM_FAILURE,
            })
        })
    }

    /// Records that the recovery has succeeded; returns a remark for the user.
    pub(super) fn record_success(&mut self, epoch: Epoch) -> Option<String> {
        self.earlier.retain(|death| death.is_recent(epoch));
        for death in &mut self.now {
            death.epoch = epoch;
        }
        let is_killed = |death: &&Death| death.cause == DeathCause::Signal(libc::SIGKILL);
        let count = |worker: Worker| {
            let of_it = |death: &&Death| death.worker == worker;
            self.earlier
                .iter()
                .chain(&self.now)
                .filter(is_killed)
                .filter(of_it)
                .count()
        };
        let often = self
            .now
            .iter()
            .filter(is_killed)
            .find(|death| count(death.worker) == MAX_EQUAL_DEATHS);
        let reported = often
            .map(|death| message::repeated_kill(death.worker, MAX_EQUAL_DEATHS, epoch).to_string());
        self.earlier.append(&mut self.now);
        reported
    }
}

impl Death {
    /// Decodes the words of a dead process.
    pub(super) fn read(
        (worker, process): (Worker, ProcessNumber),
        words: &[u64; RECORD_WORDS],
    ) -> Death {
        let note = Note::from_words(&words[MARK_WORDS..][..NOTE_WORDS]);
        let cause = match (note, words[RECORD_WORDS - 2], words[RECORD_WORDS - 1]) {
            (Some(note), ..) => DeathCause::Fault(note),
            (None, left @ 1.., _) => DeathCause::Exited((left - 1) as u32),
            (None, 0, 0) => DeathCause::Unknown,
            (None, 0, status) => DeathCause::of_wait_status((status - 1) as c_int),
        };
        let epoch = Epoch::NONE;
        Death {
            worker,
            process,
            epoch,
            cause,
        }
    }

    /// True if few epochs lie between this death and a rollback to `epoch`.
    fn is_recent(&self, epoch: Epoch) -> bool {
        (self.epoch.0..=self.epoch.0 + MAX_EPOCHS_BETWEEN).contains(&epoch.0)
    }
}

impl DeathCause {
    /// Decodes a status of wait(2).
    fn of_wait_status(status: c_int) -> DeathCause {
        match status & 0x7f {
            0 => DeathCause::Exited((status >> 8) as u32 & 0xff),
            signal => DeathCause::Signal(signal),
        }
    }

    /// True if both causes are the same signal of the program, at an identical place.
    ///
    /// Only the signals are compared if no place is known.
    fn is_same(&self, other: &DeathCause) -> bool {
        match (self, other) {
            (DeathCause::Fault(one), DeathCause::Fault(other)) => {
                one.signal == other.signal && !one.frames.is_empty() && is_same_place(one, other)
            }
            (DeathCause::Signal(one), DeathCause::Signal(other)) => one == other && is_fault(*one),
            _ => false,
        }
    }

    /// Returns the cause as the end of a sentence: `: SIGSEGV at …`, or nothing.
    pub(super) fn phrase(&self) -> String {
        match self.description() {
            text if text.is_empty() => text,
            text => format!(": {text}"),
        }
    }

    /// Returns the cause, as `SIGSEGV at …`; empty if it is SIGKILL or unknown.
    pub(super) fn description(&self) -> String {
        match self {
            DeathCause::Fault(note) if note.frames.is_empty() => {
                format!("{} from outside the program", name(note.signal))
            }
            DeathCause::Fault(note) => {
                let place = note
                    .frames
                    .first()
                    .map_or_else(String::new, |frame| format!(" at {}", place(frame)));
                let address = if note.code > 0 {
                    format!(" (address {:#x})", note.address)
                } else {
                    String::new()
                };
                format!("{}{place}{address}", name(note.signal))
            }
            DeathCause::Signal(libc::SIGKILL) | DeathCause::Unknown => String::new(),
            // The handler has not run: in most cases it had no stack left.
            DeathCause::Signal(libc::SIGSEGV) => {
                "SIGSEGV at an unknown place (stack overflow?)".into()
            }
            DeathCause::Signal(signal) => name(*signal),
            DeathCause::Exited(status) => format!("exit with status {status}"),
        }
    }

    fn backtrace(&self) -> String {
        let DeathCause::Fault(note) = self else {
            return String::new();
        };
        let mut text = String::new();
        for frame in note.frames.iter().skip(1) {
            let _ = write!(
                text,
                "{} {}",
                if text.is_empty() {
                    "; called from"
                } else {
                    ","
                },
                place(frame)
            );
        }
        text
    }
}

/// Compares the faulting instructions, or all frames if the program has raised the signal itself.
fn is_same_place(one: &Note, other: &Note) -> bool {
    let place = |frame: &Frame| match frame.module.is_empty() {
        true => (frame.address, String::new()),
        false => (frame.offset, frame.module.clone()),
    };
    let places = |note: &Note| note.frames.iter().map(place).collect::<Vec<_>>();
    if one.code > 0 {
        places(one).first() == places(other).first()
    } else {
        places(one) == places(other)
    }
}

fn place(frame: &Frame) -> String {
    match frame.module.is_empty() {
        true => format!("{:#x}", frame.address),
        false => format!("{}+{:#x}", frame.module, frame.offset),
    }
}

/// True if faults of a program raise this signal.
fn is_fault(signal: c_int) -> bool {
    [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGABRT,
        libc::SIGSYS,
        libc::SIGTRAP,
    ]
    .contains(&signal)
}

fn name(signal: c_int) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGTERM => "SIGTERM",
        other => return format!("signal {other}"),
    };
    name.into()
}

#[cfg(test)]
#[path = "death_history_tests.rs"]
mod tests;
