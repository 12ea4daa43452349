//! Input that stays on another node, of which the program has read nothing so far.
//!
//! Most programs read none of the standard input that they are given. The end of the input would be
//! a wrong answer to one that does. So a read waits, and a thread that finds the program waiting
//! ends the job.
#![allow(unsafe_code)]

use super::feed::lift;
use crate::{shim, sys};
use std::fs::{self, File};
use std::io;
use std::sync::Once;
use std::time::Duration;

/// Interval in which the program's threads are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns a pipe in which nothing ever comes, and has a thread watch for reads.
///
/// # Errors
/// Those of pipe(2), and of starting a thread.
pub fn withhold() -> io::Result<File> {
    static START: Once = Once::new();
    let (reader, writer) = io::pipe()?;
    // Without a writer a read would find the end.
    std::mem::forget(lift(writer.into()));
    let mut started = Ok(());
    START.call_once(|| {
        let thread = std::thread::Builder::new().name("understudy-input".into());
        started = thread.spawn(watch).map(drop);
    });
    started?;
    Ok(lift(reader.into()))
}

fn watch() {
    while !reads_input() {
        std::thread::sleep(INTERVAL);
    }
    sys::say(format_args!(
        "the program reads standard input, which comes to another node than the one that it was \
         brought back on; the job ends. Let the program read a file, or keep a spare on the first \
         node"
    ));
    sys::exit_now(understudy_abi::exit::UNSAVED)
}

/// Returns true if a thread waits in read(2) or readv(2) of standard input (proc(5), `syscall`).
fn reads_input() -> bool {
    let _held = shim::hold_descriptors();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    threads.flatten().any(|thread| {
        let call = fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
        ["0 0x0 ", "19 0x0 "]
            .iter()
            .any(|read| call.starts_with(read))
    })
}
