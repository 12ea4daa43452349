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
/// The ledger is in private memory if the file cannot be used, because the output must be forwarded
/// in any case.
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
/// Must be called first in a process of its own: it closes all other descriptors, starts a session,
/// and ignores the signals that would end the process before its pipes are closed.
pub fn run(path: &Path) {
    let inputs = [IN_OUT_FD, IN_ERR_FD].map(|fd| Some(fd).filter(|&fd| sys::is_pipe(fd)));
    sys::detach(c"ckptd-relay", IN_ERR_FD + 1);
    let books = open_books(path);
    if matches!(books, RelayLedger::Private(_)) {
        // The rank must not wait for the ledger.
        inputs.into_iter().flatten().for_each(sys::mark);
    }
    let ledger = books.ledger();
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
        // The process must not keep a directory busy, but the path of the ledger must be valid at
        // the end.
        let _ = std::env::set_current_dir("/");
    }
    std::thread::scope(|scope| {
        let [out, err] = inputs;
        // The streams are independent: a stalled reader of one does not delay the other.
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
    close(&books);
}

fn open_books(path: &Path) -> RelayLedger {
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

fn close(books: &RelayLedger) {
    books.ledger().closed.store(1, SeqCst);
    let RelayLedger::Shared { ledger, path, .. } = books else {
        return;
    };
    if ledger.remove_on_close.load(SeqCst) != 0 || !job_lasts(path) {
        let _ = std::fs::remove_file(path);
    }
}

/// True if the job's leftovers are still to be removed.
///
/// A rank may be killed together with its manager while its relay starts, so that the relay creates
/// the ledger after everything else was removed.
fn job_lasts(ledger: &Path) -> bool {
    let name = ledger
        .file_name()
        .and_then(OsStr::to_str)
        .and_then(job_of_name);
    name.is_none_or(|(job, _)| ledger.with_file_name(name_of_directory(job)).exists())
}
