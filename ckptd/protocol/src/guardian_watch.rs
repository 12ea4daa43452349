//! Verdicts on silent guardians.

use crate::{DOUBT_TIMEOUT, SilenceChange};
use bincode::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use understudy_numbers::Guardian;

/// State of a guardian whose heartbeats its manager awaits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum GuardianSilence {
    Changed(SilenceChange),
    /// The silence has reached the wait (UNDERSTUDY_NODE_TIMEOUT); reported repeatedly.
    Overdue,
}

/// Reaction to a silent guardian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuardianAction {
    /// Reports that a guardian with this process id does not answer.
    ReportSilence(Guardian, u32),
    /// Reports that a guardian has answered, after this time.
    ReportAnswer(Guardian, Duration),
    /// Kills a guardian, whose processes are then replaced.
    Kill(Guardian),
}

#[derive(Debug)]
struct SilentGuardian {
    pid: u32,
    is_overdue: bool,
    is_reported: bool,
    is_killed: bool,
}

/// Silent guardians of a job.
///
/// The job is judged a second after a report, when other managers and guardians that were stopped
/// at the same time have been noticed. A job whose guardians are all silent was suspended by its
/// user or the batch system.
#[derive(Debug)]
pub struct GuardianWatch {
    /// True if the launcher tolerates the death of a guardian.
    kills: bool,
    silent: BTreeMap<Guardian, SilentGuardian>,
    /// Time of the next judgement.
    judgement_at: Option<Duration>,
}

impl GuardianWatch {
    pub fn new(kills: bool) -> GuardianWatch {
        GuardianWatch {
            kills,
            silent: BTreeMap::new(),
            judgement_at: None,
        }
    }

    /// True if overdue guardians are killed.
    pub fn kills(&self) -> bool {
        self.kills
    }

    /// Records a report of a guardian's manager; returns an action that is due at once.
    pub fn record(
        &mut self,
        now: Duration,
        (guardian, pid): (Guardian, u32),
        silence: GuardianSilence,
    ) -> Option<GuardianAction> {
        if let GuardianSilence::Changed(SilenceChange::Ended(time)) = silence {
            let before = self.silent.remove(&guardian)?;
            let answer = GuardianAction::ReportAnswer(guardian, time);
            return before.is_reported.then_some(answer);
        }
        let state = self.silent.entry(guardian).or_insert(SilentGuardian {
            pid,
            is_overdue: false,
            is_reported: false,
            is_killed: false,
        });
        state.is_overdue |= silence == GuardianSilence::Overdue;
        self.judgement_at.get_or_insert(now + DOUBT_TIMEOUT);
        None
    }

    /// Returns the time at which [`GuardianWatch::judge`] must be called.
    pub fn deadline(&self) -> Option<Duration> {
        self.judgement_at
    }

    /// Judges the silent guardians if it is time; `living` are all guardians of the job.
    pub fn judge(&mut self, now: Duration, living: &BTreeSet<Guardian>) -> Vec<GuardianAction> {
        if self.judgement_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.judgement_at = None;
        self.silent.retain(|guardian, _| living.contains(guardian));
        let is_suspended = living
            .iter()
            .all(|guardian| self.silent.contains_key(guardian));
        if is_suspended {
            return Vec::new();
        }
        let mut actions = Vec::new();
        for (&guardian, state) in &mut self.silent {
            if !std::mem::replace(&mut state.is_reported, true) {
                actions.push(GuardianAction::ReportSilence(guardian, state.pid));
            }
            if state.is_overdue && self.kills && !std::mem::replace(&mut state.is_killed, true) {
                actions.push(GuardianAction::Kill(guardian));
            }
        }
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: GuardianSilence = GuardianSilence::Changed(SilenceChange::Began);
    const ONE: (Guardian, u32) = (Guardian(1), 4711);

    fn living() -> BTreeSet<Guardian> {
        (0..4).map(Guardian).collect()
    }

    fn judge(watch: &mut GuardianWatch) -> Vec<GuardianAction> {
        let Some(deadline) = watch.deadline() else {
            return Vec::new();
        };
        watch.judge(deadline, &living())
    }

    #[test]
    fn a_silent_guardian_is_reported_once_and_killed_after_the_wait() {
        for kills in [true, false] {
            let mut watch = GuardianWatch::new(kills);
            assert_eq!(watch.record(Duration::ZERO, ONE, BEGAN), None);
            assert_eq!(watch.judge(Duration::ZERO, &living()), []);
            let report = GuardianAction::ReportSilence(ONE.0, ONE.1);
            assert_eq!(judge(&mut watch), [report]);
            let now = Duration::from_secs(60);
            watch.record(now, ONE, GuardianSilence::Overdue);
            let expected: &[_] = if kills {
                &[GuardianAction::Kill(ONE.0)]
            } else {
                &[]
            };
            assert_eq!(judge(&mut watch), expected);
            watch.record(now, ONE, GuardianSilence::Overdue);
            assert_eq!(judge(&mut watch), [], "a guardian is killed once");
        }
    }

    #[test]
    fn an_answer_is_reported_after_a_report_only() {
        let mut watch = GuardianWatch::new(true);
        let time = Duration::from_secs(12);
        let ended = GuardianSilence::Changed(SilenceChange::Ended(time));
        watch.record(Duration::ZERO, ONE, BEGAN);
        assert_eq!(watch.record(time, ONE, ended), None);
        assert_eq!(judge(&mut watch), []);
        watch.record(time, ONE, BEGAN);
        judge(&mut watch);
        let answer = GuardianAction::ReportAnswer(ONE.0, time);
        assert_eq!(watch.record(time, ONE, ended), Some(answer));
    }

    /// The user or a batch system has stopped all processes that the launcher has started.
    #[test]
    fn a_suspended_job_is_neither_reported_nor_killed() {
        let mut watch = GuardianWatch::new(true);
        for guardian in living() {
            watch.record(Duration::ZERO, (guardian, 1), BEGAN);
            watch.record(Duration::ZERO, (guardian, 1), GuardianSilence::Overdue);
        }
        assert_eq!(judge(&mut watch), []);
        // Some continue; the others are judged when they are reported again.
        let ended = GuardianSilence::Changed(SilenceChange::Ended(Duration::from_secs(70)));
        assert_eq!(watch.record(Duration::ZERO, (Guardian(0), 1), ended), None);
        assert_eq!(judge(&mut watch), []);
    }
}
