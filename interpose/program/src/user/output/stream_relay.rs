//! This rank's relay of standard output and error.
#![allow(unsafe_code)]

use crate::process_info;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_formats::worker_output::WorkerOutput;
use understudy_relay::{LedgerView, NoteCell, Position, RankStage, Stream};

/// Time limit for a relay to start, or to forward its remaining output.
///
/// A relay may be delayed on an overloaded machine, or by a slow reader. A relay that has exited or
/// cannot work is detected at once.
pub const RELAY_TIMEOUT: Duration = Duration::from_secs(120);

/// Positions in the two streams; `None` for a stream without a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct StreamPositions {
    pub(super) positions: [Option<Position>; 2],
    /// Directory with the standard output of all workers, if `understudy run` has named one.
    pub(super) worker_output: Option<PathBuf>,
}

/// Connection of this process to its relay.
struct Output {
    view: LedgerView,
    pipes: [Option<RawFd>; 2],
    /// Device and inode of each pipe.
    identities: [Option<(u64, u64)>; 2],
}

/// Connection to the relay; also used by signal handlers and other threads.
static OUTPUT: OnceLock<Output> = OnceLock::new();

/// Duplicates a descriptor of a pipe for the runtime; `None` if it is no pipe.
fn private_copy(fd: RawFd) -> Option<RawFd> {
    // SAFETY: fcntl(2) on a descriptor of this process; the program does not use the copy.
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
    // SAFETY: the caller's descriptor stays open, and `ManuallyDrop` does not close it.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(pipe) });
    let metadata = file.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns the stream whose pipe has this identity.
pub fn stream_of(identity: (u64, u64)) -> Option<usize> {
    let identities = OUTPUT.get()?.identities;
    identities.iter().position(|pipe| *pipe == Some(identity))
}

/// Returns a private descriptor of a stream's pipe.
///
/// `None` if the stream has no relay.
pub fn pipe_of(stream: usize) -> Option<RawFd> {
    OUTPUT.get()?.pipes[stream]
}

/// Directs output of the MPI library on descriptor 1 to standard output if `is_shown`.
///
/// Otherwise the output goes to the original standard error, like understudy's messages.
///
/// The library's output does not pass through the relay, which counts the program's output only. If
/// the program has redirected descriptor 1, the library's output is redirected as well.
pub fn show_library_output(is_shown: bool) {
    let (info, first) = (process_info::info(), libc::STDOUT_FILENO);
    let source = match (is_shown, pipe_of(0).and_then(identity_of)) {
        (false, _) => info.messages,
        (true, Some(pipe)) if identity_of(first) != Some(pipe) => first,
        (true, _) => info.output,
    };
    // SAFETY: dup3(2), bypassing libc, to a descriptor that only the library writes to.
    unsafe { libc::syscall(libc::SYS_dup3, source, info.library_output, libc::O_CLOEXEC) };
}

/// Discards the MPI library's output on descriptor 1.
///
/// Called in a child that does not belong to the job.
pub fn discard_library_output() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        // SAFETY: dup3(2), bypassing libc, to a descriptor that only the library writes to.
        unsafe {
            libc::syscall(
                libc::SYS_dup3,
                null.as_raw_fd(),
                process_info::info().library_output,
                libc::O_CLOEXEC,
            )
        };
    }
}

/// Connects to this rank's relay through its ledger.
///
/// `is_silent` is true if the program's output is discarded until its state is loaded.
pub fn connect(path: &Path, is_silent: bool) {
    let pipes = [private_copy(1), private_copy(2)];
    match LedgerView::attach(path, pipes, RELAY_TIMEOUT) {
        Ok(view) => {
            view.introduce(std::os::unix::process::parent_id());
            for stream in Stream::BOTH.into_iter().filter(|stream| {
                is_silent && *stream == Stream::Out && pipes[stream.index()].is_some()
            }) {
                if let Err(error) = view.takeover(stream, Position::START, Position::NEVER) {
                    log::warn!("{}", message::relay_silent(error));
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
            log::warn!("{}", message::relay_unavailable(error))
        }
    }
}

/// Waits until the relay has forwarded this process's output.
pub fn flush() {
    let Some(output) = OUTPUT.get() else { return };
    for stream in Stream::BOTH {
        if output.pipes[stream.index()].is_some()
            && let Err(error) = output.view.flush(stream, RELAY_TIMEOUT)
        {
            log::warn!("{}", message::relay_silent_order(error));
        }
    }
}

/// Reports the stage of this process to the relay.
pub fn set_stage(stage: RankStage) {
    if let Some(output) = OUTPUT.get() {
        output.view.set_stage(stage);
    }
}

/// Reports to the relay whether this process is an idle spare.
pub fn set_idle(idle: bool) {
    if let Some(output) = OUTPUT.get() {
        output.view.set_idle(idle);
    }
}

/// Reports that this process exits with `status` and without `MPI_Finalize`.
///
/// Safe in a signal handler.
pub fn report_exit(status: i32) {
    if let Some(output) = OUTPUT.get() {
        output.view.record_early_exit(status);
    }
}

/// Returns the record of the cause of this process's failure.
///
/// Safe in a signal handler.
pub fn note_cell() -> Option<&'static NoteCell> {
    OUTPUT.get().map(|output| output.view.note())
}

/// Returns the word for effects on files of threads without the MPI lock.
///
/// The word contains the number of the checkpoint after whose cut the last effect occurred, plus 1.
/// Zero if no such effect has occurred.
pub fn effect_word() -> Option<&'static AtomicU64> {
    OUTPUT.get().map(|output| output.view.effects())
}

/// Returns the positions at a cut.
pub fn capture() -> StreamPositions {
    let output = WorkerOutput::of_environment();
    let mut saved = StreamPositions {
        positions: [None; 2],
        worker_output: output.map(|output| output.directory().to_owned()),
    };
    if let Some(output) = OUTPUT.get() {
        for stream in Stream::BOTH
            .into_iter()
            .filter(|stream| output.pipes[stream.index()].is_some())
        {
            saved.positions[stream.index()] = output.view.position(stream).ok();
        }
    }
    saved
}

/// Continues from the positions of a cut, without forwarding output a second time.
///
/// `is_survivor` is true in a process that rolls back. In another process `inherited` contains the
/// positions up to which the relay of the failed rank has forwarded the output.
pub fn restore(saved: &StreamPositions, is_survivor: bool, inherited: [Position; 2]) {
    let Some(output) = OUTPUT.get() else { return };
    for stream in Stream::BOTH {
        let (Some(position), true) = (
            saved.positions[stream.index()],
            output.pipes[stream.index()].is_some(),
        ) else {
            continue;
        };
        let result = if is_survivor {
            output.view.rebase(stream, position)
        } else {
            output
                .view
                .takeover(stream, position, inherited[stream.index()])
        };
        if let Err(error) = result {
            log::warn!("{}", message::relay_silent_twice(error));
        }
    }
}

/// Requests that the relay removes the ledger, because the rank exits normally.
pub fn release() {
    if let Some(output) = OUTPUT.get() {
        output.view.remove_on_close();
    }
}
