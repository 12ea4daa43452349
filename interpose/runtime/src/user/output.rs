//! Standard output and error: exactly once, through the relay (`understudy_relay`).
#![allow(unsafe_code)]

use crate::told;
use crate::user::Runtime;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use understudy_formats::private::in_memory;
use understudy_numbers::{Epoch, ProcessNumber};
use understudy_relay::{
    LedgerObserver, LedgerView, NOTE_WORDS, NoteCell, Position, RankStage, Stream, name_in_memory,
};

/// Places in the two streams, if they go through a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Saved {
    places: [Option<Position>; 2],
}

struct Output {
    view: LedgerView,
    pipes: [Option<RawFd>; 2],
    /// Device and number of each of these pipes.
    identities: [Option<(u64, u64)>; 2],
}

/// Looked at in signal handlers and by other threads, too.
static OUTPUT: OnceLock<Output> = OnceLock::new();
/// What only the main thread asks for.
pub(super) struct Streams {
    /// The path of this rank's ledger.
    ledger: Option<PathBuf>,
    /// What a dead rank's relay has forwarded, for the understudy that goes on for it.
    inherited: [Position; 2],
}

impl Streams {
    /// At the start of the process.
    pub(super) const START: Streams = Streams {
        ledger: None,
        inherited: [Position::START; 2],
    };
}

/// How long a relay may take to start, or to pass on what it still has: it may be kept from running on a machine with too
/// much to do, or wait for a reader. One that is gone or cannot work is found out at once.
const RELAY_TIMEOUT: Duration = Duration::from_secs(120);

fn own_ledger(rt: &Runtime) -> Option<PathBuf> {
    rt.streams.borrow().ledger.clone()
}

fn private_copy(fd: RawFd) -> Option<RawFd> {
    // SAFETY: fcntl(2) on a descriptor of this process; a copy that the program does not know.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut stat) != 0 || stat.st_mode & libc::S_IFMT != libc::S_IFIFO {
            return None;
        }
        let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, understudy_abi::RUNTIME_FD_BASE);
        (copy >= 0).then_some(copy)
    }
}

fn identity_of(pipe: RawFd) -> Option<(u64, u64)> {
    // SAFETY: a descriptor that stays open.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(pipe) });
    let about = file.metadata().ok()?;
    Some((about.dev(), about.ino()))
}

/// Which of the two streams a pipe of this identity is.
pub(super) fn stream_of(identity: (u64, u64)) -> Option<usize> {
    let known = OUTPUT.get()?.identities;
    known.iter().position(|known| *known == Some(identity))
}

/// A descriptor of a stream's pipe that the program does not know, if it goes through a relay.
pub(super) fn pipe_of(stream: usize) -> Option<RawFd> {
    OUTPUT.get()?.pipes[stream]
}

/// Directs output of the MPI library on descriptor 1 to standard output or standard error.
///
/// Bytes of the library do not pass through the relay: it counts the program's output only. If the
/// program has led descriptor 1 elsewhere, the library follows.
pub fn show_library_output(is_shown: bool) {
    let (info, first) = (told::info(), libc::STDOUT_FILENO);
    let source = match (is_shown, pipe_of(0).and_then(identity_of)) {
        (false, _) => info.messages,
        (true, Some(pipe)) if identity_of(first) != Some(pipe) => first,
        (true, _) => info.output,
    };
    // SAFETY: dup3(2), past libc, onto a descriptor that only the library writes to.
    unsafe { libc::syscall(libc::SYS_dup3, source, info.library_output, libc::O_CLOEXEC) };
}

/// Discards what the MPI library prints on descriptor 1.
///
/// Called in a child that is no part of the job.
pub fn discard_library_output() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        // SAFETY: as above.
        unsafe {
            libc::syscall(
                libc::SYS_dup3,
                null.as_raw_fd(),
                told::info().library_output,
                libc::O_CLOEXEC,
            )
        };
    }
}

/// The path of what the job keeps in memory by this name.
pub fn in_job_memory(job: &str, name: &str) -> PathBuf {
    in_memory().join(name_in_memory(job, name))
}

/// The path of this rank's ledger, which its relay is about to make. A job of the same name, whose launcher had the same process id, may have
/// been killed as a whole: what is left of it goes.
pub fn new_ledger(job: &str, process: ProcessNumber) -> PathBuf {
    let path = in_job_memory(job, &process.to_string());
    let _ = std::fs::remove_file(&path);
    path
}

/// Connects to this rank's relay. `is_silent`: what the program prints until its state is loaded, nobody is to see.
pub fn attach(rt: &Runtime, path: PathBuf, is_silent: bool) {
    rt.streams.borrow_mut().ledger = Some(path.clone());
    let pipes = [private_copy(1), private_copy(2)];
    match LedgerView::attach(&path, pipes, RELAY_TIMEOUT) {
        Ok(view) => {
            view.introduce(std::os::unix::process::parent_id());
            for stream in Stream::BOTH.into_iter().filter(|stream| {
                is_silent && *stream == Stream::Out && pipes[stream.index()].is_some()
            }) {
                if let Err(error) = view.takeover(stream, Position::START, Position::NEVER) {
                    log::warn!("the output relay does not answer ({error})");
                }
            }
            let identities = pipes.map(|pipe| pipe.and_then(identity_of));
            let _ = OUTPUT.set(Output {
                view,
                pipes,
                identities,
            });
        }
        Err(error) => {
            log::warn!(
                "the output relay is not available ({error}); after a failure some output may appear twice"
            )
        }
    }
}

/// Waits until the relay has passed on what this process has printed.
pub fn flush() {
    let Some(output) = OUTPUT.get() else { return };
    for stream in Stream::BOTH {
        if output.pipes[stream.index()].is_some()
            && let Err(error) = output.view.flush(stream, RELAY_TIMEOUT)
        {
            log::warn!("the output relay does not answer ({error}); lines may change places");
        }
    }
}

/// Tells the relays how far this process is.
pub fn set_stage(stage: RankStage) {
    if let Some(output) = OUTPUT.get() {
        output.view.set_stage(stage);
    }
}

/// Tells the relays whether this process is a spare without a part.
pub fn set_idle(idle: bool) {
    if let Some(output) = OUTPUT.get() {
        output.view.set_idle(idle);
    }
}

/// Tells the relay that this process ends with `status` without `MPI_Finalize`. Safe in a signal handler.
pub fn leave(status: i32) {
    if let Some(output) = OUTPUT.get() {
        output.view.leave(status);
    }
}

/// Where this process notes what it dies of. Safe in a signal handler.
pub fn note_cell() -> Option<&'static NoteCell> {
    OUTPUT.get().map(|output| output.view.note())
}

/// Where threads of this process note the epoch, plus 1, after whose cut they change files.
pub fn effects() -> Option<&'static AtomicU64> {
    OUTPUT.get().map(|output| output.view.effects())
}

/// Whether threads of some process of this node have changed files since the cut of this epoch.
pub fn have_effects_since(rt: &Runtime, epoch: Epoch) -> bool {
    let ledgers = (0..told::process_count())
        .map(ProcessNumber)
        .filter_map(|it| LedgerObserver::open(&ledger_of(rt, it)?).ok());
    ledgers.into_iter().any(|ledger| ledger.effects() > epoch.0)
}

/// What a process that has died has left in its ledger, if it ran on this node:
/// its note, and the status with which it has ended without `MPI_Finalize`.
pub fn dead_note(rt: &Runtime, process: ProcessNumber) -> Option<([u64; NOTE_WORDS], Option<u32>)> {
    let ledger = LedgerObserver::open(&ledger_of(rt, process)?).ok()?;
    Some((ledger.note(), ledger.left()))
}

/// Places at a cut.
pub fn capture() -> Saved {
    let mut saved = Saved::default();
    if let Some(output) = OUTPUT.get() {
        for stream in Stream::BOTH
            .into_iter()
            .filter(|stream| output.pipes[stream.index()].is_some())
        {
            saved.places[stream.index()] = output.view.position(stream).ok();
        }
    }
    saved
}

/// Goes on from the places of a cut: what was forwarded since is not forwarded again.
pub fn restore(rt: &Runtime, saved: &Saved, own: bool) {
    let Some(output) = OUTPUT.get() else { return };
    for stream in Stream::BOTH {
        let (Some(place), true) = (
            saved.places[stream.index()],
            output.pipes[stream.index()].is_some(),
        ) else {
            continue;
        };
        let done = if own {
            output.view.rebase(stream, place)
        } else {
            output
                .view
                .takeover(stream, place, rt.streams.borrow().inherited[stream.index()])
        };
        if let Err(error) = done {
            log::warn!("the output relay does not answer ({error}); some output may appear twice");
        }
    }
}

/// Path of the ledger of a process.
fn ledger_of(rt: &Runtime, process: ProcessNumber) -> Option<PathBuf> {
    let own = own_ledger(rt)?;
    let name = own.file_name()?.to_str()?.rsplit_once('-')?.0.to_owned();
    Some(own.with_file_name(format!("{name}-{process}")))
}

fn final_marks(path: &Path) -> [Position; 2] {
    let Ok(observer) = LedgerObserver::open(path) else {
        return [Position::START; 2];
    };
    Stream::BOTH.map(|stream| match observer.final_high_water(stream, RELAY_TIMEOUT) {
        Ok(mark) => mark,
        Err(error) => {
            log::warn!("the dead rank's output relay does not answer ({error}); some output may appear twice");
            observer.high_water_line(stream)
        }
    })
}

/// What the relays of dead processes have forwarded, as far as they ran on this node: one pair for each.
pub fn dead_output(rt: &Runtime, dead: &[ProcessNumber]) -> Vec<[Position; 2]> {
    dead.iter()
        .map(|&rank| ledger_of(rt, rank).map_or([Position::START; 2], |path| final_marks(&path)))
        .collect()
}

/// The job has been started again: the output of before ends at the place of the cut.
pub fn continue_from(rt: &Runtime, saved: &Saved) {
    rt.streams.borrow_mut().inherited = saved.places.map(Option::unwrap_or_default);
}

/// Where standard output goes on after [`continue_from`], for the user.
pub fn position(rt: &Runtime) -> String {
    let Position { line, column } = rt.streams.borrow().inherited[0];
    let within = match column {
        0 => String::new(),
        _ => format!(" and {column} byte(s)"),
    };
    format!("its standard output goes on after the first {line} line(s){within}")
}

/// Takes over what a dead rank's relay has forwarded.
pub fn inherit(rt: &Runtime, marks: [Position; 2]) {
    rt.streams.borrow_mut().inherited = marks;
}

/// Removes the ledgers of processes that have ended, among these.
pub fn remove_closed_ledgers(rt: &Runtime, ranks: std::ops::Range<u32>) {
    let is_closed =
        |path: &PathBuf| LedgerObserver::open(path).is_ok_and(|ledger| ledger.is_closed());
    for path in ranks
        .map(ProcessNumber)
        .filter_map(|it| ledger_of(rt, it))
        .filter(is_closed)
    {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes the ledger of a process that has died, and whose part has been taken.
pub fn remove_ledger(rt: &Runtime, process: ProcessNumber) {
    if let Some(path) = ledger_of(rt, process) {
        let _ = std::fs::remove_file(path);
    }
}

/// The rank ends in good order: its relay may remove the ledger.
pub fn release() {
    if let Some(output) = OUTPUT.get() {
        output.view.remove_on_close();
    }
}
