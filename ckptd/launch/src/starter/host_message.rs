//! Messages of the starter to another host of its job.

use super::node_share::NodeShare;
use crate::Error;
use crate::job_environment::Environment;
use crate::messages::ManagerDuty;
use bincode::{Decode, Encode};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Description of the guardians and the manager that a host has to start.
#[derive(Debug, Encode, Decode)]
pub struct Assignment {
    pub build: u64,
    pub directory: Vec<u8>,
    pub environment: Environment,
    pub share: NodeShare,
    pub duty: ManagerDuty,
}

#[derive(Debug, Encode, Decode)]
pub enum StarterToHost {
    /// A signal for the processes.
    Signal(i32),
    /// Data from the standard input of rank 0; empty at its end.
    Input(Vec<u8>),
}

/// Returns the checksum of the executable `ckptd`.
///
/// Managers exchange messages of one build only.
///
/// # Errors
/// Errors of reading the file.
pub fn build_of(ckptd: &Path) -> Result<u64, Error> {
    let what = format!("the checksum of {}", ckptd.display());
    let bytes = std::fs::read(ckptd).map_err(Error::system(what))?;
    Ok(xxh3_64(&bytes))
}
