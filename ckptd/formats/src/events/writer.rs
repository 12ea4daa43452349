//! Writer of a rank's event file, whose errors never affect the program.

use super::clock::{ClockPair, monotonic_ns};
use super::codec::{Header, encode_record};
use super::file_name::file_name;
use super::kind::Kind;
use super::record::Record;
use crate::private_directories::create_anew;
use std::fs::{File, create_dir_all};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use understudy_catalogue::message;
use understudy_numbers::{Epoch, ProcessNumber};

/// Writer of one rank's event file; threads can share it.
///
/// The first error is reported once, with cause and remedy, and disables the writer.
pub struct EventWriter {
    file: Option<File>,
    path: PathBuf,
    /// True if nothing is written: after an error, or in a writer of [`EventWriter::disabled`].
    is_disabled: AtomicBool,
    /// `CLOCK_MONOTONIC` in the file's header.
    origin: u64,
    report: fn(&str),
}

impl EventWriter {
    /// Begins `rank-N.events` in `dir` and replaces an older file of that name.
    ///
    /// Creates the directory if necessary. Errors are reported on standard error.
    pub fn create(dir: &Path, rank: ProcessNumber) -> Self {
        Self::create_reporting(dir, rank, |message| eprintln!("{message}"))
    }

    /// Acts like [`create`](Self::create), with `report` for the one error message.
    pub fn create_reporting(dir: &Path, rank: ProcessNumber, report: fn(&str)) -> Self {
        let header = Header {
            rank,
            clocks: ClockPair::now(),
        };
        let path = dir.join(file_name(rank));
        let mut writer = Self {
            file: None,
            path,
            is_disabled: AtomicBool::new(false),
            origin: header.clocks.monotonic_ns,
            report,
        };
        match open(dir, &writer.path) {
            Ok(file) => {
                writer.file = Some(file);
                writer.write_whole(&header.to_bytes());
            }
            Err(error) => writer.disable(&error),
        }
        writer
    }

    /// Returns a writer that writes nothing.
    pub fn disabled() -> Self {
        Self {
            file: None,
            path: PathBuf::new(),
            is_disabled: AtomicBool::new(true),
            origin: 0,
            report: |_| (),
        }
    }

    /// Appends a record with the current time.
    pub fn emit(&self, epoch: Epoch, kind: Kind) {
        self.emit_at(monotonic_ns(), epoch, kind);
    }

    /// Appends a record with an earlier time, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn emit_at(&self, monotonic_ns: u64, epoch: Epoch, kind: Kind) {
        if !self.is_on() {
            return;
        }
        let record = Record {
            t: monotonic_ns.saturating_sub(self.origin),
            epoch,
            kind,
        };
        match encode_record(&record) {
            Some(frame) => self.write_whole(&frame),
            None => self.disable(&io::Error::new(
                io::ErrorKind::InvalidData,
                "a record exceeds the length limit",
            )),
        }
    }

    /// True unless the writer was created as disabled, or an error has disabled the writer.
    pub fn is_on(&self) -> bool {
        !self.is_disabled.load(Relaxed)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write_whole(&self, bytes: &[u8]) {
        let Some(mut file) = self.file.as_ref() else {
            return;
        };
        loop {
            match file.write(bytes) {
                Ok(n) if n == bytes.len() => return,
                // The frame is incomplete, and readers stop at it, so it must be the last frame.
                Ok(_) => return self.disable(&io::Error::from_raw_os_error(libc::ENOSPC)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.disable(&error),
            }
        }
    }

    fn disable(&self, error: &io::Error) {
        if !self.is_disabled.swap(true, Relaxed) {
            let (path, remedy) = (self.path.display(), remedy_for(error));
            let problem = message::event_file_not_written(path, error, remedy);
            (self.report)(&format!("understudy: {problem}"));
        }
    }
}

fn open(dir: &Path, path: &Path) -> io::Result<File> {
    create_dir_all(dir)?;
    // Creates a new file instead of truncating the old one: a process that still writes to the old
    // file does not affect the new one.
    create_anew(path)
}

fn remedy_for(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there or choose an event directory on another file system"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose an event directory you may write to"
        }
        io::ErrorKind::NotADirectory
        | io::ErrorKind::AlreadyExists
        | io::ErrorKind::IsADirectory => {
            "something else is in the way there, choose another event directory"
        }
        _ => "check the event directory, or choose another one",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_full_disk_is_reported_once() {
        static MESSAGES: AtomicU32 = AtomicU32::new(0);
        let writer = EventWriter {
            file: Some(
                OpenOptions::new()
                    .append(true)
                    .open("/dev/full")
                    .expect("/dev/full"),
            ),
            path: PathBuf::from("/dev/full"),
            is_disabled: AtomicBool::new(false),
            origin: 0,
            report: |message| {
                assert!(
                    message.contains("/dev/full") && message.contains("free some space"),
                    "{message}"
                );
                MESSAGES.fetch_add(1, Relaxed);
            },
        };
        for _ in 0..3 {
            writer.emit(Epoch(0), Kind::Kill { signal: 9 });
        }
        assert!(!writer.is_on());
        assert_eq!(MESSAGES.load(Relaxed), 1);
    }
}
