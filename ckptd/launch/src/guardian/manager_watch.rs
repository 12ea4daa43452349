//! Heartbeats of a guardian, and the silence of its manager.
//!
//! The guardian sends a heartbeat every few seconds, which the manager returns. A manager that is
//! stopped or hangs is reported by one guardian of the node, and is killed after the wait of
//! UNDERSTUDY_NODE_TIMEOUT, so that another one can take its place. The leader observes the
//! managers of other nodes itself.

use super::hang_watch::until_sample;
use crate::print_message::print_message;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, pidfd_send_signal};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::events::realtime_ns;
use understudy_formats::host::host_name;
use understudy_formats::private_directories::PrivateDirectory;
use understudy_protocol::{GuardianLimits, PeerSilence, SilenceChange};
use understudy_wire::line::{FromGuardian, Line, ManagerRole};

/// File in the job's directory that the guardian locks which reports the silence.
const REPORTER_LOCK: &str = "manager-silent";

/// A manager whose silence this guardian judges.
struct JudgedManager {
    role: ManagerRole,
    pid: u32,
    process: OwnedFd,
    silence: PeerSilence,
    /// Lock of the guardian that reports the silence.
    reporter: Option<File>,
    is_killed: bool,
}

/// Exchange of heartbeats with the manager.
pub struct ManagerWatch {
    began: Instant,
    limits: GuardianLimits,
    next_beat: Instant,
    /// True until the manager has returned the last heartbeat.
    ///
    /// A stopped manager reads nothing, and must not be sent more than its line can contain.
    is_awaited: bool,
    /// True if a message has arrived since the last poll.
    has_message: bool,
    manager: Option<JudgedManager>,
}

impl ManagerWatch {
    pub fn new(limits: GuardianLimits) -> ManagerWatch {
        let now = Instant::now();
        ManagerWatch {
            began: now,
            limits,
            next_beat: now,
            is_awaited: false,
            has_message: false,
            manager: None,
        }
    }

    /// Judges a manager, which this guardian has joined, from now on.
    pub fn judge(&mut self, role: ManagerRole, pid: u32, process: OwnedFd) {
        self.manager = (role != ManagerRole::Follower).then(|| JudgedManager {
            role,
            pid,
            process,
            silence: PeerSilence::on_node(self.limits, self.began.elapsed()),
            reporter: None,
            is_killed: false,
        });
    }

    /// Forgets a manager that has died.
    pub fn forget(&mut self) {
        (self.manager, self.is_awaited) = (None, false);
    }

    /// Records a message of the manager; `is_beat` is true if it is a heartbeat.
    pub fn note_message(&mut self, is_beat: bool) {
        self.has_message = true;
        self.is_awaited &= !is_beat;
    }

    /// Returns the time after which [`ManagerWatch::poll`] must be called.
    pub fn limit(&self) -> Duration {
        let beat = self.next_beat.saturating_duration_since(Instant::now());
        let judged = self.manager.as_ref().filter(|manager| !manager.is_killed);
        let judged = judged.map(|manager| manager.silence.limit(self.began.elapsed()));
        judged.map_or(beat, |judged| judged.min(beat))
    }

    /// Sends a heartbeat if it is time, and judges the manager.
    pub fn poll(&mut self, line: &Line, directory: &Path) {
        if Instant::now() >= self.next_beat {
            let interval = self.limits.beat_interval();
            self.next_beat = Instant::now() + until_sample(realtime_ns(), interval);
            if !std::mem::replace(&mut self.is_awaited, true) {
                // The death of the manager is detected soon.
                let _ = line.send(&FromGuardian::Beat);
            }
        }
        let has_message = std::mem::take(&mut self.has_message);
        if let Some(manager) = &mut self.manager {
            let change = manager.silence.update(self.began.elapsed(), has_message);
            manager.report(change, self.limits, directory);
        }
    }
}

impl JudgedManager {
    fn report(&mut self, change: Option<SilenceChange>, limits: GuardianLimits, job: &Path) {
        let (host, pid, limit) = (host_name(), self.pid, limits.wait.as_secs());
        match change {
            Some(SilenceChange::Began) => {
                self.reporter = reporter_lock(job);
                if self.reporter.is_some() {
                    let consequence = match self.role {
                        ManagerRole::Alone => "another one takes its place",
                        ManagerRole::Leader | ManagerRole::Follower => "the job ends",
                    };
                    print_message(message::manager_silent(host, pid, consequence, limit));
                }
            }
            Some(SilenceChange::Ended(time)) => {
                let was_reported = self.reporter.take().is_some();
                if was_reported {
                    let time = format_args!("{:.1}", time.as_secs_f64());
                    print_message(message::manager_answers(host, time));
                }
            }
            None if self.silence.is_lost() && !self.is_killed => {
                self.is_killed = true;
                // Other guardians may have killed the manager already.
                let _ = pidfd_send_signal(&self.process, Signal::KILL);
            }
            None => {}
        }
    }
}

/// Locks the report of the silence; `None` if another guardian reports.
fn reporter_lock(job: &Path) -> Option<File> {
    let directory = PrivateDirectory::open(job).ok()??;
    let file = directory.open_own(REPORTER_LOCK.as_ref(), libc::O_RDWR | libc::O_CREAT);
    let file = file.ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}
