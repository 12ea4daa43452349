//! Input on another node, of which the program has read nothing so far.
//!
//! A replacement on another node cannot reach the relay. Most programs never read standard input,
//! so they may continue. If the program does read, the end of the input would be a wrong result. So
//! the replacement gets a pipe on which a read blocks, and a thread that detects a blocked read
//! ends the job.
#![allow(unsafe_code)]

use super::readers;
use crate::system_calls::move_owned_descriptor;
use crate::{shim, system_calls};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::time::Duration;
use understudy_catalogue::message;

/// Interval at which the program's threads are examined.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Pipe without content; its write end stays open, so that reads block.
static PIPE: OnceLock<EmptyPipe> = OnceLock::new();

struct EmptyPipe {
    reader: File,
    _writer: File,
    inode: u64,
}

impl EmptyPipe {
    fn new() -> io::Result<EmptyPipe> {
        let (reader, writer) = io::pipe()?;
        let (reader, writer) = (
            File::from(move_owned_descriptor(reader.into())),
            File::from(move_owned_descriptor(writer.into())),
        );
        let inode = reader.metadata()?.ino();
        Ok(EmptyPipe {
            reader,
            _writer: writer,
            inode,
        })
    }
}

/// Returns a pipe that never receives data, and starts a thread that watches for reads.
///
/// # Errors
/// Fails with the errors of pipe(2), and of starting a thread.
pub fn blocking_pipe() -> io::Result<File> {
    if let Some(pipe) = PIPE.get() {
        return pipe.reader.try_clone();
    }
    let pipe = EmptyPipe::new()?;
    let thread = std::thread::Builder::new().name("understudy-input".into());
    let inode = pipe.inode;
    thread.spawn(move || end_job_at_read(inode, message::INPUT_ON_OTHER_NODE))?;
    PIPE.get_or_init(|| pipe).reader.try_clone()
}

/// Waits until a thread of the program reads the pipe, then ends the job.
pub fn end_job_at_read(inode: u64, message: &str) -> ! {
    let is_read = || {
        let _right = shim::acquire_descriptor_right();
        readers::is_read(inode)
    };
    while !is_read() {
        std::thread::sleep(POLL_INTERVAL);
    }
    system_calls::print_message(message);
    system_calls::exit_now(understudy_catalogue::exit_status::STATE_NOT_SAVED)
}
