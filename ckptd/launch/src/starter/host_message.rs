//! Messages of the starter to another host of its job.

use super::node_share::Share;
use crate::Error;
use crate::job_environment::Environment;
use crate::messages::Duty;
use bincode::{Decode, Encode};
use xxhash_rust::xxh3::xxh3_64;

/// Description of the guardians and the manager that a host has to start.
#[derive(Debug, Encode, Decode)]
pub struct Assignment {
    pub build: u64,
    pub directory: Vec<u8>,
    pub environment: Environment,
    pub share: Share,
    pub duty: Duty,
}

#[derive(Debug, Encode, Decode)]
pub enum StarterToHost {
    /// A signal for the processes.
    Signal(i32),
    /// Data from the standard input of rank 0; empty at its end.
    Input(Vec<u8>),
}

/// Returns the checksum of this program's file.
///
/// Managers exchange messages of one build only.
///
/// # Errors
/// Errors of reading the file.
pub fn build() -> Result<u64, Error> {
    let what = || Error::system("this program's file");
    let own = std::env::current_exe().map_err(what())?;
    Ok(xxh3_64(&std::fs::read(own).map_err(what())?))
}
