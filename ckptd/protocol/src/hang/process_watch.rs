//! Inactivity of one process, from samples.

use std::time::Duration;

/// Time after which a stopped process is reported.
const STOPPED_LIMIT: Duration = Duration::from_secs(30);
/// Time after which a process in uninterruptible sleep is reported.
const BLOCKED_LIMIT: Duration = Duration::from_secs(60);
/// Number of samples in the shortest limit.
const SAMPLES_PER_LIMIT: u32 = 3;
/// Shortest time between samples, for settings of tests.
const MIN_PERIOD: Duration = Duration::from_millis(50);
/// Number of periods without a sample after which the watch begins anew.
///
/// The guardian itself was suspended, and the process probably was as well.
const MAX_PERIODS_WITHOUT_SAMPLE: u32 = 3;
/// Part of a processor, in percent, that an active process uses outside of MPI.
const ACTIVE_PERCENT: u128 = 10;
/// Part of a processor, in percent, that a process at normal speed uses.
///
/// Counts while the process could compute.
const CRAWLING_PERCENT: u128 = 20;
/// Bytes between two samples that an active process reads or writes.
const ACTIVE_BYTES: u64 = 64 << 10;

/// Time limits of inactivity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HangLimits {
    /// Time after which a process is inactive in any state.
    pub any: Duration,
    pub stopped: Duration,
    pub blocked: Duration,
}

impl HangLimits {
    /// Returns the limits of a job with this setting (UNDERSTUDY_HANG_AFTER).
    pub fn new(hang_after: Duration) -> HangLimits {
        HangLimits {
            any: hang_after,
            stopped: STOPPED_LIMIT.min(hang_after),
            blocked: BLOCKED_LIMIT.min(hang_after),
        }
    }

    /// Returns the time between two samples.
    pub fn period(self) -> Duration {
        (self.stopped / SAMPLES_PER_LIMIT).max(MIN_PERIOD)
    }
}

/// State of a process according to the kernel (proc_pid_stat(5)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessState {
    /// The process runs, or waits for a processor.
    Running,
    /// The process sleeps until an event or a signal.
    Sleeping,
    /// Uninterruptible sleep.
    Blocked,
    Stopped,
    Traced,
}

/// Calls of MPI since the last sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallSample {
    /// True if a call has begun since the last sample.
    pub has_called: bool,
    pub is_in_call: bool,
    /// True if the current call accesses files.
    pub is_in_file_call: bool,
}

/// State of a process at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessSample {
    pub state: ProcessState,
    /// Processor time of all threads.
    pub processor_time: Duration,
    /// Bytes that all threads have read and written.
    pub bytes: u64,
    /// `None` if the memory of the process cannot be read.
    pub calls: Option<CallSample>,
}

/// Kind of inactivity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InactivityKind {
    Stopped,
    Traced,
    Blocked,
    InCall,
    Idle,
    /// The process moves, but much more slowly than it could.
    Crawling,
}

/// Judgement of one process.
#[derive(Debug, Default)]
pub struct ProcessWatch {
    /// The last sample, and its time.
    last: Option<(Duration, ProcessSample)>,
    /// Time since which the process is inactive in any state.
    inactive_since: Duration,
    /// Present kind of inactivity, and the time of its first sample.
    kind: Option<(InactivityKind, Duration)>,
    reported: Option<InactivityKind>,
}

impl ProcessWatch {
    /// Judges the process by another sample.
    ///
    /// Returns the state to report, if it differs from the last one: `Some(None)` if the process is
    /// active again.
    pub fn update(
        &mut self,
        now: Duration,
        sample: ProcessSample,
        limits: HangLimits,
    ) -> Option<Option<InactivityKind>> {
        let before = self.last.replace((now, sample));
        let longest = limits.period() * MAX_PERIODS_WITHOUT_SAMPLE;
        let before = before.filter(|(at, _)| now.saturating_sub(*at) <= longest);
        let kind = before.and_then(|(at, before)| inactivity(now - at, &before, &sample));
        if matches!(kind, None | Some(InactivityKind::Crawling)) {
            self.inactive_since = now;
        }
        if self.kind.map(|(kind, _)| kind) != kind {
            self.kind = kind.map(|kind| (kind, now));
        }
        let is_due = |&(kind, since): &(InactivityKind, Duration)| {
            let limit = match kind {
                InactivityKind::Stopped | InactivityKind::Crawling => limits.stopped,
                InactivityKind::Blocked => limits.blocked,
                _ => limits.any,
            };
            now.saturating_sub(since) >= limit
                || now.saturating_sub(self.inactive_since) >= limits.any
        };
        let due = self.kind.filter(is_due).map(|(kind, _)| kind);
        let is_new = due != self.reported;
        self.reported = due;
        is_new.then_some(due)
    }

    /// True if the process was reported as one that crawls.
    pub fn is_crawling(&self) -> bool {
        self.reported == Some(InactivityKind::Crawling)
    }

    /// Returns the time for which the process has been inactive.
    pub fn inactive_for(&self, now: Duration) -> Duration {
        let inactive = self.kind.map(|_| now.saturating_sub(self.inactive_since));
        inactive.unwrap_or_default()
    }

    /// Forgets reports, because another manager needs them.
    pub fn repeat_reports(&mut self) {
        self.reported = None;
    }
}

/// Returns the kind of inactivity between two samples; `None` if the process was active.
fn inactivity(
    elapsed: Duration,
    before: &ProcessSample,
    sample: &ProcessSample,
) -> Option<InactivityKind> {
    let processor_time = sample.processor_time.saturating_sub(before.processor_time);
    let has_called = sample.calls.is_some_and(|calls| calls.has_called);
    let is_in_call = sample.calls.is_some_and(|calls| calls.is_in_call);
    let percent = |part| processor_time.as_nanos() * 100 < elapsed.as_nanos() * part;
    // The process was stopped or had to wait for a processor most of the time, and not always.
    let crawls = percent(CRAWLING_PERCENT)
        && !processor_time.is_zero()
        && sample.state != ProcessState::Sleeping
        && !is_in_call;
    match sample.state {
        ProcessState::Traced => return Some(InactivityKind::Traced),
        ProcessState::Stopped if processor_time.is_zero() && !has_called => {
            return Some(InactivityKind::Stopped);
        }
        _ => {}
    }
    let calls = sample.calls?;
    let bytes = sample.bytes.saturating_sub(before.bytes);
    let uses_files = bytes >= ACTIVE_BYTES && (!is_in_call || calls.is_in_file_call);
    if uses_files {
        return None;
    }
    if crawls {
        return Some(InactivityKind::Crawling);
    }
    let was_in_call = before.calls.is_some_and(|calls| calls.is_in_call);
    if has_called || was_in_call != is_in_call || sample.state == ProcessState::Stopped {
        return None;
    }
    if sample.state == ProcessState::Blocked && processor_time.is_zero() {
        return Some(InactivityKind::Blocked);
    }
    // MPI libraries poll, so that a process that waits in a call uses a processor.
    if is_in_call {
        return Some(InactivityKind::InCall);
    }
    percent(ACTIVE_PERCENT).then_some(InactivityKind::Idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HangLimits = HangLimits {
        any: Duration::from_secs(300),
        stopped: Duration::from_secs(30),
        blocked: Duration::from_secs(60),
    };
    const WAITS: CallSample = CallSample {
        has_called: false,
        is_in_call: true,
        is_in_file_call: false,
    };
    const OUTSIDE: CallSample = CallSample {
        is_in_call: false,
        ..WAITS
    };

    fn sample(state: ProcessState, calls: CallSample) -> ProcessSample {
        ProcessSample {
            state,
            processor_time: Duration::ZERO,
            bytes: 0,
            calls: Some(calls),
        }
    }

    /// Returns the reports, with their times in seconds, for one sample in each period.
    fn reports(
        samples: impl Fn(u64) -> Option<ProcessSample>,
    ) -> Vec<(u64, Option<InactivityKind>)> {
        let mut watch = ProcessWatch::default();
        let times = (0..=60).map(|index| 10 * index);
        let judged = times.filter_map(|seconds| {
            let now = Duration::from_secs(seconds);
            Some((seconds, watch.update(now, samples(seconds)?, LIMITS)?))
        });
        judged.collect()
    }

    #[test]
    fn limits_follow_the_setting() {
        assert_eq!(HangLimits::new(LIMITS.any), LIMITS);
        assert_eq!(LIMITS.period(), Duration::from_secs(10));
        let short = HangLimits::new(Duration::from_secs(3));
        assert_eq!((short.stopped, short.blocked), (short.any, short.any));
        assert_eq!(short.period(), Duration::from_secs(1));
    }

    #[test]
    fn each_state_is_reported_after_its_limit() {
        use InactivityKind::{Blocked, Idle, InCall, Stopped, Traced};
        for (state, calls, kind, at) in [
            (ProcessState::Stopped, WAITS, Stopped, 40),
            (ProcessState::Blocked, WAITS, Blocked, 70),
            (ProcessState::Blocked, OUTSIDE, Blocked, 70),
            (ProcessState::Traced, OUTSIDE, Traced, 300),
            (ProcessState::Sleeping, WAITS, InCall, 300),
            (ProcessState::Sleeping, OUTSIDE, Idle, 300),
        ] {
            let found = reports(|_| Some(sample(state, calls)));
            assert_eq!(found, [(at, Some(kind))], "{state:?}");
        }
    }

    #[test]
    fn a_process_that_moves_is_active() {
        let active = |sample: fn(u64) -> ProcessSample| {
            assert_eq!(reports(|seconds| Some(sample(seconds))), []);
        };
        // A call in each period.
        active(|_| {
            let calls = CallSample {
                has_called: true,
                ..WAITS
            };
            sample(ProcessState::Sleeping, calls)
        });
        // A computation that uses a fifth of a processor.
        active(|seconds| ProcessSample {
            processor_time: Duration::from_secs(seconds / 5),
            ..sample(ProcessState::Running, OUTSIDE)
        });
        // Files are read slowly.
        for calls in [
            OUTSIDE,
            CallSample {
                is_in_file_call: true,
                ..WAITS
            },
        ] {
            let found = reports(|seconds| {
                Some(ProcessSample {
                    bytes: seconds * ACTIVE_BYTES,
                    ..sample(ProcessState::Blocked, calls)
                })
            });
            assert_eq!(found, []);
        }
        // The memory of the process cannot be read.
        active(|_| ProcessSample {
            calls: None,
            ..sample(ProcessState::Sleeping, WAITS)
        });
    }

    /// MPI libraries poll, and threads of the runtime write checkpoints.
    #[test]
    fn a_call_that_does_not_return_is_inactive_although_it_uses_the_processor() {
        let found = reports(|seconds| {
            Some(ProcessSample {
                processor_time: Duration::from_secs(seconds),
                bytes: seconds << 30,
                ..sample(ProcessState::Sleeping, WAITS)
            })
        });
        assert_eq!(found, [(300, Some(InactivityKind::InCall))]);
    }

    /// The process is stopped most of the time, or gets a tenth of a processor.
    #[test]
    fn a_process_that_is_mostly_stopped_crawls() {
        for state in [
            ProcessState::Stopped,
            ProcessState::Running,
            ProcessState::Blocked,
        ] {
            for has_called in [true, false] {
                let calls = CallSample {
                    has_called,
                    ..OUTSIDE
                };
                let found = reports(|seconds| {
                    Some(ProcessSample {
                        processor_time: Duration::from_secs(seconds / 10),
                        ..sample(state, calls)
                    })
                });
                assert_eq!(found, [(40, Some(InactivityKind::Crawling))], "{state:?}");
            }
        }
        // A process that sleeps by itself between its calls is not slow.
        let naps = CallSample {
            has_called: true,
            ..OUTSIDE
        };
        let found = reports(|seconds| {
            Some(ProcessSample {
                processor_time: Duration::from_secs(seconds / 10),
                ..sample(ProcessState::Sleeping, naps)
            })
        });
        assert_eq!(found, []);
    }

    #[test]
    fn a_process_that_continues_is_reported_as_active() {
        let found = reports(|seconds| {
            let is_stopped = (100..200).contains(&seconds);
            let calls = CallSample {
                has_called: !is_stopped,
                ..WAITS
            };
            let state = match is_stopped {
                true => ProcessState::Stopped,
                false => ProcessState::Sleeping,
            };
            Some(sample(state, calls))
        });
        assert_eq!(found, [(130, Some(InactivityKind::Stopped)), (200, None)]);
    }

    /// A batch system has suspended the guardian together with the process.
    #[test]
    fn time_in_which_the_guardian_was_suspended_does_not_count() {
        let found = reports(|seconds| {
            let is_awake = !(20..400).contains(&seconds);
            is_awake.then(|| sample(ProcessState::Sleeping, WAITS))
        });
        assert_eq!(found, []);
    }
}
