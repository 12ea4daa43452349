//! Samples the processes of a guardian, and reports those that are inactive.

use super::guarded_process::GuardedProcess;
use super::process_sample::SampledProcess;
use crate::spawn_thread::spawn_thread;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};
use understudy_formats::events::realtime_ns;
use understudy_numbers::ProcessNumber;
use understudy_protocol::{HangLimits, InactivityKind, ProcessWatch};
use understudy_sockets::Source;
use understudy_wire::line::{FromGuardian, Line, ProcessActivity};

/// A process that is watched.
struct Watched {
    /// Descriptor of the page of the process: another program of a script has another page.
    page: RawFd,
    process: SampledProcess,
    watch: ProcessWatch,
}

/// Watch over the processes of a guardian.
pub struct HangWatch {
    began: Instant,
    /// Time limits; `None` if hangs are not reported.
    limits: Option<HangLimits>,
    next_sample: Instant,
    watched: BTreeMap<ProcessNumber, Watched>,
}

impl HangWatch {
    /// Returns a watch that reports after this time; `None` for no reports.
    pub fn new(hang_after: Option<Duration>) -> HangWatch {
        let now = Instant::now();
        HangWatch {
            began: now,
            limits: hang_after.map(HangLimits::new),
            next_sample: now,
            watched: BTreeMap::new(),
        }
    }

    /// Returns the time until the next sample; `None` if none is due.
    pub fn limit(&self) -> Option<Duration> {
        self.limits?;
        Some(self.next_sample.saturating_duration_since(Instant::now()))
    }

    /// Reports all inactive processes again, to another manager.
    pub fn repeat_reports(&mut self) {
        self.watched
            .values_mut()
            .for_each(|watched| watched.watch.repeat_reports());
    }

    /// Answers a command of the user, in a thread.
    ///
    /// A file system that does not answer may block the thread.
    pub fn answer(&self, line: Source<Line>, processes: &[GuardedProcess]) {
        let activities = self.activities(processes);
        let answer = move || {
            let with_stack = |(mut it, process): (ProcessActivity, SampledProcess)| {
                it.stack = process.stack();
                it
            };
            let all: Vec<_> = activities.into_iter().map(with_stack).collect();
            // The command may have exited.
            let _ = line.send(&all);
        };
        // Without a thread the command reports that this guardian does not answer.
        let _ = spawn_thread(answer);
    }

    /// Returns the present activities of all processes, without their stacks.
    fn activities(&self, processes: &[GuardedProcess]) -> Vec<(ProcessActivity, SampledProcess)> {
        let activity = |process: &GuardedProcess| {
            let (pid, page) = process.watchable()?;
            let sampled = SampledProcess::open(pid, page)?;
            let known = self.watched.get(&process.number);
            let known = known.filter(|it| it.is(pid, page));
            let now = self.began.elapsed();
            let crawls = known.is_some_and(|it| it.watch.is_crawling());
            let activity = match crawls {
                true => sampled.describe(InactivityKind::Crawling),
                false => sampled.activity()?,
            };
            let activity = ProcessActivity {
                number: process.number,
                activity,
                inactive_for: known.map_or(Duration::ZERO, |it| it.watch.inactive_for(now)),
                stack: Vec::new(),
            };
            Some((activity, sampled))
        };
        processes.iter().filter_map(activity).collect()
    }

    /// Samples the processes if it is time; returns reports for the manager.
    pub fn poll(&mut self, processes: &[GuardedProcess]) -> Vec<FromGuardian> {
        let Some(limits) = self.limits.filter(|_| Instant::now() >= self.next_sample) else {
            return Vec::new();
        };
        self.next_sample = Instant::now() + until_sample(realtime_ns(), limits.period());
        let mut watched = std::mem::take(&mut self.watched);
        let mut reports = Vec::new();
        for process in processes {
            let Some((pid, page)) = process.watchable() else {
                continue;
            };
            let number = process.number;
            let known = watched.remove(&number).filter(|it| it.is(pid, page));
            let new = || SampledProcess::open(pid, page).map(|process| Watched::new(process, page));
            let Some(mut known) = known.or_else(new) else {
                continue;
            };
            if let Some(sample) = known.process.sample() {
                let now = self.began.elapsed();
                let report = known.watch.update(now, sample, limits);
                if let Some(Some(_)) = report {
                    log_stack(number, pid, page);
                }
                reports.extend(report.map(|kind| FromGuardian::Activity {
                    number,
                    activity: kind.map(|kind| known.process.describe(kind)),
                }));
                self.watched.insert(number, known);
            }
        }
        reports
    }
}

/// Logs the stack of an inactive process, in a thread.
///
/// A file system that does not answer may block the thread.
fn log_stack(number: ProcessNumber, pid: u32, page: &OwnedFd) {
    let process = SampledProcess::open(pid, page).filter(|_| log::log_enabled!(log::Level::Info));
    let Some(process) = process else { return };
    let log = move || {
        let frames = process.stack().into_iter();
        let frames: Vec<_> = frames
            .map(|frame| format!("{}+{:#x}", frame.path, frame.offset))
            .collect();
        log::info!("stack of process {number}: {}", frames.join(" < "));
    };
    // Without a thread the stack is not logged.
    let _ = spawn_thread(log);
}

impl Watched {
    fn new(process: SampledProcess, page: &OwnedFd) -> Watched {
        Watched {
            page: page.as_raw_fd(),
            process,
            watch: ProcessWatch::default(),
        }
    }

    fn is(&self, pid: u32, page: &OwnedFd) -> bool {
        self.process.pid() == pid && self.page == page.as_raw_fd()
    }
}

/// Returns the time until the next multiple of the period since 1970.
///
/// All guardians of a job take their samples at the same time, so that the processes of a job are
/// delayed together and not one after the other.
pub(super) fn until_sample(now_ns: u64, period: Duration) -> Duration {
    let period_ns = period.as_nanos() as u64;
    Duration::from_nanos(period_ns - now_ns % period_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_at_multiples_of_the_period() {
        let period = Duration::from_millis(10);
        assert_eq!(until_sample(20_000_000, period), period);
        assert_eq!(until_sample(29_000_000, period), Duration::from_millis(1));
    }
}
