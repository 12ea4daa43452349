//! Silence of the guardians of a node.

use crate::messages::Report;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use understudy_numbers::Guardian;
use understudy_protocol::{GuardianLimits, GuardianSilence, PeerSilence};
use understudy_wire::io::{Interest, wait_ready};
use understudy_wire::line::Line;

/// A guardian whose heartbeats are awaited.
struct AwaitedGuardian {
    pid: u32,
    process: OwnedFd,
    silence: PeerSilence,
    /// True if a message has arrived since the last update.
    has_message: bool,
    /// Time of the next report of a silence that has reached the wait.
    overdue_at: Option<Duration>,
}

/// Guardians of a node, each of which sends heartbeats until it exits.
pub struct GuardianSilences {
    began: Instant,
    limits: GuardianLimits,
    guardians: BTreeMap<Guardian, AwaitedGuardian>,
}

impl GuardianSilences {
    pub fn new(limits: GuardianLimits) -> GuardianSilences {
        GuardianSilences {
            began: Instant::now(),
            limits,
            guardians: BTreeMap::new(),
        }
    }

    pub fn limits(&self) -> GuardianLimits {
        self.limits
    }

    /// Awaits heartbeats of the guardian at the other end of a line.
    ///
    /// # Errors
    /// Errors of getsockopt(2) and pidfd_open(2).
    pub fn expect(&mut self, rank: Guardian, line: &Line) -> io::Result<()> {
        let pid = line.peer()?;
        let awaited = AwaitedGuardian {
            pid: pid.as_raw_nonzero().get() as u32,
            process: pidfd_open(pid, PidfdFlags::empty())?,
            silence: PeerSilence::on_node(self.limits, self.began.elapsed()),
            has_message: false,
            overdue_at: None,
        };
        self.guardians.insert(rank, awaited);
        Ok(())
    }

    /// Returns true if a guardian has died; `None` if its heartbeats are not awaited.
    pub fn has_died(&self, rank: Guardian) -> Option<bool> {
        let guardian = self.guardians.get(&rank)?;
        let has_died = wait_ready(&guardian.process, Interest::READ, Duration::ZERO);
        Some(has_died.unwrap_or(false))
    }

    /// Records a message of a guardian.
    pub fn note_message(&mut self, rank: Guardian) {
        if let Some(guardian) = self.guardians.get_mut(&rank) {
            guardian.has_message = true;
        }
    }

    /// Forgets a guardian that has died or exits.
    pub fn forget(&mut self, rank: Guardian) {
        self.guardians.remove(&rank);
    }

    /// Kills a guardian that has not answered since the leader has decided so.
    pub fn kill(&self, rank: Guardian) {
        let is_silent = |it: &&AwaitedGuardian| it.silence.is_lost() && !it.has_message;
        if let Some(guardian) = self.guardians.get(&rank).filter(is_silent) {
            // The guardian may have died; the end of its connection is noticed.
            let _ = pidfd_send_signal(&guardian.process, Signal::KILL);
        }
    }

    /// Returns reports of guardians that do not answer, or answer again.
    pub fn poll(&mut self) -> Vec<Report> {
        let now = self.began.elapsed();
        let mut reports = Vec::new();
        for (&rank, guardian) in &mut self.guardians {
            let has_message = std::mem::take(&mut guardian.has_message);
            let change = guardian.silence.update(now, has_message);
            let mut silence = change.map(GuardianSilence::Changed);
            if !guardian.silence.is_lost() {
                guardian.overdue_at = None;
            } else if guardian.overdue_at.is_none_or(|at| now >= at) {
                guardian.overdue_at = Some(now + self.limits.beat_interval());
                silence = Some(GuardianSilence::Overdue);
            }
            let pid = guardian.pid;
            reports.extend(silence.map(|silence| Report::GuardianSilence { rank, pid, silence }));
        }
        reports
    }

    /// Returns the time after which [`GuardianSilences::poll`] must be called.
    pub fn limit(&self) -> Option<Duration> {
        let now = self.began.elapsed();
        let limit = |guardian: &AwaitedGuardian| match guardian.overdue_at {
            Some(at) => at.saturating_sub(now),
            None => guardian.silence.limit(now),
        };
        self.guardians.values().map(limit).min()
    }
}
