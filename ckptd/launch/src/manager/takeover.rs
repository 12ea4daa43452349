//! The takeover from a manager that has died.
//!
//! Guardians report what they have. Nothing else is done before all of them have reported.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use understudy_numbers::Guardian;
use understudy_wire::line::FromGuardian;

/// How often guardians are looked for that have not come.
pub const LOOK: Duration = Duration::from_millis(100);

/// What a guardian has said: its rank, and what has come with the message.
type Heard = (Guardian, FromGuardian, Vec<OwnedFd>);

/// What is known until all guardians have come.
#[derive(Default)]
pub struct Takeover {
    /// The leader has wanted something.
    pub(super) is_led: bool,
    /// How many guardians there were, if there has been another manager.
    pub(super) size: Option<u32>,
    pub(super) absent: BTreeSet<Guardian>,
    pub(super) looked: Option<Instant>,
    /// What is to be seen to afterwards.
    pub(super) held: Vec<Heard>,
    /// The file of the MPI library.
    pub(super) library: Option<PathBuf>,
}

impl Takeover {
    /// Whether the leader knows enough to lead: at once, if there has been no other manager.
    pub fn is_led(&self) -> bool {
        self.is_led || self.size.is_none()
    }

    pub fn lead(&mut self) {
        self.is_led = true;
    }

    pub fn note(&mut self, is_again: bool, size: u32) {
        if is_again {
            self.size = Some(size);
        }
    }

    pub fn hold(&mut self, rank: Guardian, message: FromGuardian, files: Vec<OwnedFd>) {
        self.held.push((rank, message, files));
    }

    /// What has been held so long, if it is time for that.
    pub fn take_held(&mut self) -> Vec<Heard> {
        match self.is_led {
            true => std::mem::take(&mut self.held),
            false => Vec::new(),
        }
    }

    pub fn take_library(&mut self) -> Option<PathBuf> {
        self.library.take()
    }

    /// How long the node may wait.
    pub fn limit(&self) -> Option<Duration> {
        match (self.is_led, self.size) {
            (true, _) => (!self.held.is_empty()).then_some(Duration::ZERO),
            (false, size) => size.map(|_| LOOK),
        }
    }
}
