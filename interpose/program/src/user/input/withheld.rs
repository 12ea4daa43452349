//! Input that stays on another node, of which the program has read nothing so far.
//!
//! Most programs read none of the standard input that they are given. The end of the input would be
//! a wrong answer to one that does. So a read waits, and a thread that finds the program waiting
//! ends the job.
#![allow(unsafe_code)]

use super::readers;
use crate::sys::lift_owned;
use crate::{shim, sys};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::time::Duration;
use understudy_catalogue::message;

/// Interval in which the program's threads are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// The pipe; its writer stays open, since a read would find the end otherwise.
static PIPE: OnceLock<Pipe> = OnceLock::new();

struct Pipe {
    reader: File,
    _writer: File,
    inode: u64,
}

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let (reader, writer) = io::pipe()?;
        let (reader, writer) = (
            File::from(lift_owned(reader.into())),
            File::from(lift_owned(writer.into())),
        );
        let inode = reader.metadata()?.ino();
        Ok(Pipe {
            reader,
            _writer: writer,
            inode,
        })
    }
}

/// Returns a pipe in which nothing ever comes, and has a thread watch for reads.
///
/// # Errors
/// Those of pipe(2), and of starting a thread.
pub fn withhold() -> io::Result<File> {
    if let Some(pipe) = PIPE.get() {
        return pipe.reader.try_clone();
    }
    let pipe = Pipe::new()?;
    let thread = std::thread::Builder::new().name("understudy-input".into());
    let inode = pipe.inode;
    thread.spawn(move || end_at_read(inode, message::INPUT_ON_OTHER_NODE))?;
    PIPE.get_or_init(|| pipe).reader.try_clone()
}

/// Waits until a thread of the program reads the pipe, and ends the job.
pub fn end_at_read(inode: u64, words: &str) -> ! {
    let is_read = || {
        let _held = shim::hold_descriptors();
        readers::is_read(inode)
    };
    while !is_read() {
        std::thread::sleep(INTERVAL);
    }
    sys::say(words);
    sys::exit_now(understudy_abi::exit::UNSAVED)
}
