//! The process of the relay.

use super::ledger::{Ledger, Mapping, StreamState};
use super::names::{job_of_name, name_of_directory};
use super::pump::pump;
use super::sys;
use crate::stream::Stream;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use understudy_catalogue::message;

/// Read end of the pipe behind the rank's standard output.
pub const IN_OUT_FD: RawFd = 3;
/// Read end of the pipe behind the rank's standard error.
pub const IN_ERR_FD: RawFd = 4;

/// Ledger of the relay.
///
/// The ledger is in private memory if the file cannot be created, because the output must be
/// forwarded nevertheless.
enum RelayLedger {
    Shared {
        ledger: Mapping,
        path: PathBuf,
        _lock: File,
    },
    Private(Box<Ledger>),
}

impl RelayLedger {
    fn ledger(&self) -> &Ledger {
        match self {
            Self::Shared { ledger, .. } => ledger,
            Self::Private(ledger) => ledger,
        }
    }
}

/// Runs the relay until both streams have ended.
///
/// Descriptors 3 and 4 are the read ends of the pipes, 1 and 2 the real outputs.
///
/// Must be the first call in a process of its own: closes all other descriptors, starts a session,
/// and ignores the signals that would end the process before its streams end.
pub fn run(path: &Path) {
    let inputs = [IN_OUT_FD, IN_ERR_FD].map(|fd| Some(fd).filter(|&fd| sys::is_pipe(fd)));
    sys::detach(c"ckptd-relay", IN_ERR_FD + 1);
    let relay_ledger = open_ledger(path);
    if matches!(relay_ledger, RelayLedger::Private(_)) {
        // A rank that does not see the mark would wait for the ledger until its timeout.
        inputs
            .into_iter()
            .flatten()
            .for_each(sys::mark_without_ledger);
    }
    let ledger = relay_ledger.ledger();
    for stream in Stream::BOTH {
        let state = if inputs[stream.index()].is_some() {
            StreamState::Open
        } else {
            StreamState::Absent
        };
        ledger.cell(stream).state.store(state as u32, SeqCst);
    }
    ledger.publish();
    if path.is_absolute() {
        // The relay must not keep a file system busy. A relative path must stay valid for `close`.
        let _ = std::env::set_current_dir("/");
    }
    std::thread::scope(|scope| {
        let [out, err] = inputs;
        // The streams are independent: a stalled reader of one stream does not delay the other
        // stream.
        let err = err.map(|fd| {
            std::thread::Builder::new().spawn_scoped(scope, move || {
                pump(ledger.cell(Stream::Err), fd, libc::STDERR_FILENO);
            })
        });
        if let Some(fd) = out {
            pump(ledger.cell(Stream::Out), fd, libc::STDOUT_FILENO);
        }
        match err {
            Some(Ok(err)) => drop(err.join()),
            // Without a second thread the streams are forwarded one after the other.
            Some(Err(_)) => pump(ledger.cell(Stream::Err), IN_ERR_FD, libc::STDERR_FILENO),
            None => {}
        }
    });
    close(&relay_ledger);
}

fn open_ledger(path: &Path) -> RelayLedger {
    match Mapping::create(path) {
        Ok((ledger, lock)) => RelayLedger::Shared {
            ledger,
            path: path.to_owned(),
            _lock: lock,
        },
        Err(error) => {
            eprintln!(
                "understudy: {}",
                message::ledger_not_made(path.display(), error)
            );
            RelayLedger::Private(Box::new(Ledger::new()))
        }
    }
}

fn close(relay_ledger: &RelayLedger) {
    relay_ledger.ledger().closed.store(1, SeqCst);
    let RelayLedger::Shared { ledger, path, .. } = relay_ledger else {
        return;
    };
    if ledger.remove_on_close.load(SeqCst) != 0 || !has_job_directory(path) {
        let _ = std::fs::remove_file(path);
    }
}

/// True if the job's directory exists, so that the ledger will be removed with it.
///
/// The relay may create the ledger after the job's files were removed, if rank and manager are
/// killed while the relay starts. The relay must then remove the ledger itself. Also true for a
/// file that is not named after a job: such a ledger is removed only at the rank's request.
fn has_job_directory(ledger: &Path) -> bool {
    let name = ledger
        .file_name()
        .and_then(OsStr::to_str)
        .and_then(job_of_name);
    name.is_none_or(|(job, _)| ledger.with_file_name(name_of_directory(job)).exists())
}
