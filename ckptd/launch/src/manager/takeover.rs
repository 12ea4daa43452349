//! The takeover from a manager that has died.
//!
//! Guardians report their state. Their other messages are handled after the leader's first order,
//! which follows when all guardians have reported or are dead.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use understudy_numbers::Guardian;
use understudy_wire::line::FromGuardian;

/// Interval of polling for guardians that have not joined.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Message of a guardian: its rank, the message and its files.
type DeferredMessage = (Guardian, FromGuardian, Vec<OwnedFd>);

/// State of the takeover until all guardians have joined.
#[derive(Default)]
pub struct Takeover {
    /// True if the leader has sent an order.
    pub(super) is_led: bool,
    /// Number of guardians if this manager follows a dead manager.
    pub(super) size: Option<u32>,
    /// Guardians that were reported as dead.
    pub(super) absent: BTreeSet<Guardian>,
    /// Time of the last poll for absent guardians.
    pub(super) last_poll: Option<Instant>,
    /// Messages that are handled after the takeover.
    pub(super) deferred: Vec<DeferredMessage>,
    /// File of the MPI library, until its servers are started again.
    pub(super) library: Option<PathBuf>,
}

impl Takeover {
    /// Returns the state after the death of a manager, in a job of `size` guardians.
    pub fn of_manager(size: u32) -> Takeover {
        Takeover {
            size: Some(size),
            ..Takeover::default()
        }
    }

    /// True if the leader has sent an order to this manager.
    ///
    /// Always true if this manager does not follow a dead manager.
    pub fn is_led(&self) -> bool {
        self.is_led || self.size.is_none()
    }

    pub fn lead(&mut self) {
        self.is_led = true;
    }

    pub fn note(&mut self, had_manager: bool, size: u32) {
        if had_manager {
            self.size = Some(size);
        }
    }

    pub fn defer(&mut self, rank: Guardian, message: FromGuardian, files: Vec<OwnedFd>) {
        self.deferred.push((rank, message, files));
    }

    /// Returns the deferred messages once the leader has sent an order.
    pub fn take_deferred(&mut self) -> Vec<DeferredMessage> {
        match self.is_led {
            true => std::mem::take(&mut self.deferred),
            false => Vec::new(),
        }
    }

    pub fn take_library(&mut self) -> Option<PathBuf> {
        self.library.take()
    }

    /// Returns the time for which the node may wait.
    pub fn limit(&self) -> Option<Duration> {
        match (self.is_led, self.size) {
            (true, _) => (!self.deferred.is_empty()).then_some(Duration::ZERO),
            (false, size) => size.map(|_| POLL_INTERVAL),
        }
    }
}
