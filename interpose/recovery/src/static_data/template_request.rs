//! Requests to a template process, and its answers.
#![allow(unsafe_code)]

use crate::copies::ReplayPlan;
use bincode::config::standard;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::FromRawFd;
use std::time::Duration;

/// Constant part of the timeout of a replay.
pub const MIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Multiple of the phase's duration in the timeout of a replay.
const DURATION_FACTOR: u32 = 10;

/// Request to a template process; the number is returned with the answer.
#[derive(Clone, Copy, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Request {
    /// Run trial replays of the plan in the first file; write the result.
    ///
    /// The second file gets a [`TrialResult`](crate::static_data::finding::TrialResult).
    Trial(u64),
    /// Replay the plan in the first file, and write the listed pages to the second.
    Rebuild(u64),
    /// Cancel the last request.
    Cancel,
}

/// Outcome of the request with this number.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Answer {
    pub number: u64,
    pub outcome: Result<(), String>,
}

/// Returns the time that a replay may take.
pub fn timeout(plan: &ReplayPlan) -> Duration {
    MIN_TIMEOUT + DURATION_FACTOR * plan.duration()
}

/// Creates a file in memory, for the contents of a request or a result.
pub fn memory_file() -> io::Result<File> {
    // SAFETY: memfd_create(2); the descriptor is new.
    unsafe {
        match libc::memfd_create(c"understudy static data".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(File::from_raw_fd(fd)),
        }
    }
}

/// Decodes the contents of a file from its beginning.
pub fn read<T: bincode::Decode<()>>(file: &mut File) -> io::Result<T> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let (value, _) = bincode::decode_from_slice(&bytes, standard()).map_err(io::Error::other)?;
    Ok(value)
}

/// Encodes a value into a file.
pub fn write(file: &mut File, value: &impl bincode::Encode) -> io::Result<()> {
    file.write_all(&bincode::encode_to_vec(value, standard()).map_err(io::Error::other)?)
}
