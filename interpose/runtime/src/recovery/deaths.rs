//! Of what processes have died, and whether that is the program's doing.
//!
//! What a process noted of a fatal signal (`fatal`) is read by those of its node. The others hear of it in the meeting, so
//! all come to the same judgement; newcomers are told of the history.
//!
//! A rank that dies of a signal of its own at the same place for the third time, with at most two epochs in between, whichever
//! rank it is, will do so in every spare: that is a bug of the program, and the job ends. The first two times it may have been the
//! machine (a flipped bit is gone after the rollback). *The same place* is the instruction that has faulted; where the program
//! has raised the signal itself (abort(3)), all its callers count too, since all of them end in the same function of libc.
//! If the handler could not run (the stack is exhausted), the signal alone has to do. SIGKILL never counts, nor what another
//! process has sent, nor a bus error that the hardware reports: nothing tells those from the loss of a machine. After the
//! third of one worker, a line names the kernel's out-of-memory killer; the tenth is the last.

use crate::gather::everybodys;
use crate::recovery::Runtime;
use crate::{peers, schedule, user, world};
use std::ffi::c_int;
use std::fmt::Write;
use understudy_mpi as mpi;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::recovery_plan::Verdict;
use understudy_relay::{Frame, NOTE_WORDS, Note, Position};

/// How often the same may happen.
const LIMIT: usize = 3;
/// How often a worker may die of whatever, where there is always a process to take its part.
const MOST: usize = 10;
/// How many epochs may lie in between: a program that is started over comes to a checkpoint before it comes to the place.
const EPOCHS: u64 = 2;

/// What a dead process is told of in the meeting: the end of its two streams' output, its note, 1 + the status with which
/// it has left, 1 + its status as wait(2) tells it.
const WORDS: usize = MARK_WORDS + NOTE_WORDS + 2;
/// Line and column, twice.
const MARK_WORDS: usize = 4;

/// Of what a process has died.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum Cause {
    Unknown,
    /// A signal that it has not noted.
    Signal(c_int),
    /// A signal that it has noted; with the place, if it is the program's own.
    Fault(Note),
    /// It has ended by itself, without MPI_Finalize.
    Left(u32),
}

/// The death of a worker's process.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Death {
    worker: Worker,
    player: ProcessNumber,
    /// What the recovery went back to.
    epoch: Epoch,
    cause: Cause,
}

/// What a process knows of deaths.
#[derive(bincode::Encode, bincode::Decode)]
struct View {
    earlier: Vec<Death>,
    /// The processes that have played the workers which are dead now.
    players: Vec<ProcessNumber>,
}

#[derive(Default)]
pub(super) struct History {
    /// Of recoveries that have succeeded.
    earlier: Vec<Death>,
    /// Of the one under way.
    now: Vec<Death>,
}

impl History {
    /// At the start of the process.
    pub(super) const START: History = History {
        earlier: Vec::new(),
        now: Vec::new(),
    };
}

/// What a process that joins the job has to know of those before.
pub fn earlier(rt: &Runtime) -> Vec<Death> {
    rt.history.borrow().earlier.clone()
}

/// What this process, which joins the job, has not seen.
pub fn learn(rt: &Runtime, earlier: Vec<Death>) {
    rt.history.borrow_mut().earlier = earlier;
}

/// Everybody hears of what those on a dead process's node know: for each dead worker, up to where its output was seen.
pub fn meet(
    rt: &Runtime,
    all: RealComm,
    dead: &[Worker],
    living: &[ProcessNumber],
) -> mpi::Result<Vec<[Position; 2]>> {
    rt.history.borrow_mut().now.clear();
    if dead.is_empty() {
        return Ok(Vec::new());
    }
    let player = |&worker: &Worker| world::get(rt).players[worker.index()];
    let own = View {
        earlier: earlier(rt),
        players: dead.iter().map(player).collect(),
    };
    let players = rt
        .history
        .borrow_mut()
        .agree(&everybodys(all, &own)?, living);
    let marks = user::dead_output(rt, &players);
    let own: Vec<[u64; WORDS]> = players
        .iter()
        .zip(marks)
        .map(|(&rank, marks)| known(rt, rank, marks))
        .collect();
    // Who does not know a word has 0, and all others have the same.
    let all = all.extremes(Extreme::Greatest, own.as_flattened())?;
    let (all, _) = all.as_chunks::<WORDS>();
    let told = dead.iter().copied().zip(players).zip(all);
    let deaths = told
        .map(|(which, words)| Death::read(which, words))
        .collect();
    rt.history.borrow_mut().note(deaths);
    let mark = |words: &[u64]| Position {
        line: words[0],
        column: words[1],
    };
    Ok(all
        .iter()
        .map(|words| [mark(words), mark(&words[2..])])
        .collect())
}

/// What this process knows of a dead one; zeros are nothing.
fn known(rt: &Runtime, rank: ProcessNumber, marks: [Position; 2]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (words, mark) in words.chunks_mut(2).zip(marks) {
        words.copy_from_slice(&[mark.line, mark.column]);
    }
    if let Some((note, left)) = user::dead_note(rt, rank) {
        words[MARK_WORDS..][..NOTE_WORDS].copy_from_slice(&note);
        words[WORDS - 2] = left.map_or(0, |status| 1 + u64::from(status));
    }
    words[WORDS - 1] = peers::wait_status(rank).map_or(0, |status| 1 + u64::from(status as u32));
    words
}

/// Whether the job must end since the program is to blame, if everybody went back to this epoch. The same in all processes.
pub fn judge(rt: &Runtime, epoch: Epoch) -> Option<Verdict> {
    rt.history.borrow().judge(epoch)
}

/// The recovery has succeeded. What the user should be told. However many have died, it was one failure; a fault of the program's own
/// code says nothing of the machine.
pub fn settle(rt: &Runtime, epoch: Epoch) -> Option<String> {
    let is_fault = |death: &Death| matches!(death.cause, Cause::Fault(_));
    if !rt.history.borrow().now.iter().all(is_fault) {
        schedule::state(rt).pace.fail();
    }
    rt.history.borrow_mut().settle(epoch)
}

/// Of what a worker's process has died, as ` of SIGSEGV at …`; empty if that is not known or SIGKILL.
pub fn cause_of(rt: &Runtime, worker: Worker) -> String {
    let history = rt.history.borrow();
    let mut deaths = history.now.iter().chain(history.earlier.iter().rev());
    let last = deaths.find(|death| death.worker == worker);
    last.map_or_else(String::new, |death| death.cause.phrase())
}

/// Of what the process of a worker has died, for the event file.
pub fn label(rt: &Runtime, worker: Worker) -> String {
    let history = rt.history.borrow();
    let mut known = history.now.iter().chain(history.earlier.iter().rev());
    let death = known.find(|death| death.worker == worker);
    match death.map(|death| death.cause.clone()) {
        Some(Cause::Signal(libc::SIGKILL)) => "SIGKILL".into(),
        Some(Cause::Unknown) | None => "unknown".into(),
        Some(Cause::Left(status)) => format!("exit with status {status}"),
        Some(cause) => cause.phrase().trim_start_matches(" of ").to_owned(),
    }
}

impl History {
    fn knows(&self, player: ProcessNumber) -> bool {
        self.earlier.iter().any(|death| death.player == player)
    }

    /// All come to know the same deaths, as an attempt may have succeeded for some only. Who has played each dead worker last: none of
    /// the `living`, which some may have seen take the part.
    fn agree(&mut self, views: &[View], living: &[ProcessNumber]) -> Vec<ProcessNumber> {
        self.earlier.clear();
        for death in views.iter().flat_map(|view| &view.earlier) {
            if !self.knows(death.player) {
                self.earlier.push(death.clone());
            }
        }
        let last = |at: usize| {
            let players = views.iter().map(|view| view.players[at]);
            let dead = players.filter(|player| !living.contains(player));
            dead.max_by_key(|&player| (!self.knows(player), player))
        };
        let count = views.first().map_or(0, |view| view.players.len());
        (0..count)
            .map(|at| last(at).unwrap_or(views[0].players[at]))
            .collect()
    }

    /// These deaths have led to the recovery under way, but for those that an attempt has dealt with.
    fn note(&mut self, mut deaths: Vec<Death>) {
        deaths.retain(|death| !self.knows(death.player));
        self.now = deaths;
    }

    fn judge(&self, epoch: Epoch) -> Option<Verdict> {
        self.now.iter().find_map(|death| {
            let worker = death.worker;
            if let Cause::Left(status) = death.cause {
                return Some(Verdict {
                    why: format!("worker {worker} ended with status {status} without MPI_Finalize"),
                    status: if status == 0 { 1 } else { status as c_int },
                });
            }
            let recent = || self.earlier.iter().filter(|other| other.is_recent(epoch));
            let mut its = recent().filter(|other| other.worker == worker).peekable();
            let since = its.peek().map_or(epoch, |first| first.epoch);
            if its.count() + 1 >= MOST {
                return Some(Verdict {
                    why: format!(
                        "worker {worker} has died {MOST} times since epoch {since}{}; what it dies of would not stop",
                        death.cause.phrase()
                    ),
                    status: understudy_abi::exit::LOST,
                });
            }
            let same = recent();
            let mut same = same.filter(|other| other.cause.is_same(&death.cause)).peekable();
            let first = same.peek().map_or(epoch, |first| first.epoch);
            (same.count() + 1 >= LIMIT).then(|| Verdict {
                why: format!(
                    "worker {worker} died{}, which has now happened {LIMIT} times since epoch {first}: the program, or a library that it uses, has a bug there, which every spare would meet again{}",
                    death.cause.phrase(),
                    death.cause.backtrace()
                ),
                status: understudy_abi::exit::PROGRAM,
            })
        })
    }

    fn settle(&mut self, epoch: Epoch) -> Option<String> {
        self.earlier.retain(|death| death.is_recent(epoch));
        for death in &mut self.now {
            death.epoch = epoch;
        }
        let is_killed = |death: &&Death| death.cause == Cause::Signal(libc::SIGKILL);
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
            .find(|death| count(death.worker) == LIMIT);
        let told = often.map(|death| {
            format!(
                "worker {} was killed (SIGKILL) for the {LIMIT}rd time since epoch {epoch}; if nobody did it on purpose, look for the kernel's out-of-memory killer (dmesg)",
                death.worker
            )
        });
        self.earlier.append(&mut self.now);
        told
    }
}

impl Death {
    fn read((worker, player): (Worker, ProcessNumber), words: &[u64; WORDS]) -> Death {
        let note = Note::from_words(&words[MARK_WORDS..][..NOTE_WORDS]);
        let cause = match (note, words[WORDS - 2], words[WORDS - 1]) {
            (Some(note), ..) => Cause::Fault(note),
            (None, left @ 1.., _) => Cause::Left((left - 1) as u32),
            (None, 0, 0) => Cause::Unknown,
            (None, 0, status) => Cause::of_wait_status((status - 1) as c_int),
        };
        let epoch = Epoch::NONE;
        Death {
            worker,
            player,
            epoch,
            cause,
        }
    }

    /// Whether no more than a few epochs lie between this and a recovery that goes back to `epoch`.
    fn is_recent(&self, epoch: Epoch) -> bool {
        (self.epoch.0..=self.epoch.0 + EPOCHS).contains(&epoch.0)
    }
}

impl Cause {
    /// As wait(2) tells it.
    fn of_wait_status(status: c_int) -> Cause {
        match status & 0x7f {
            0 => Cause::Left((status >> 8) as u32 & 0xff),
            signal => Cause::Signal(signal),
        }
    }

    /// Whether the same has happened at the same place.
    fn is_same(&self, other: &Cause) -> bool {
        match (self, other) {
            (Cause::Fault(one), Cause::Fault(other)) => {
                one.signal == other.signal && !one.frames.is_empty() && is_same_place(one, other)
            }
            (Cause::Signal(one), Cause::Signal(other)) => one == other && is_fault(*one),
            _ => false,
        }
    }

    fn phrase(&self) -> String {
        match self {
            Cause::Fault(note) if note.frames.is_empty() => {
                format!(
                    " of {}, which came from outside of the program",
                    name(note.signal)
                )
            }
            Cause::Fault(note) => {
                let place = note
                    .frames
                    .first()
                    .map_or_else(String::new, |frame| format!(" at {}", place(frame)));
                let address = if note.code > 0 {
                    format!(" (address {:#x})", note.address)
                } else {
                    String::new()
                };
                format!(" of {}{place}{address}", name(note.signal))
            }
            Cause::Signal(libc::SIGKILL) | Cause::Unknown => String::new(),
            // The handler has not run: in most cases there was no stack left for it.
            Cause::Signal(libc::SIGSEGV) => {
                " of SIGSEGV at an unknown place (stack overflow?)".into()
            }
            Cause::Signal(signal) => format!(" of {}", name(*signal)),
            Cause::Left(status) => format!(" (it ended with status {status})"),
        }
    }

    fn backtrace(&self) -> String {
        let Cause::Fault(note) = self else {
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

/// Whether the default action of a signal is for faults of the program.
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
#[path = "deaths_tests.rs"]
mod tests;
