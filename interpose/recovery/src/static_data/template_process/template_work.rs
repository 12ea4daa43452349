//! Main loop of a template process, which replays phases in child processes.
#![allow(unsafe_code)]

use super::blocked_signals::BlockedSignals;
use crate::Runtime;
use crate::copies::ReplayPlan;
use crate::static_data::finding::{ReplayFinding, TrialResult};
use crate::static_data::replay_child::{ChildTask, ReplayChild};
use crate::static_data::template_line::poll_descriptors;
use crate::static_data::template_request::{Answer, Request, read, write};
use crate::system_calls;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use understudy_abi::RUNTIME_FD_BASE;
use understudy_image::pages::PageRun;
use understudy_wire::line::Line;

/// Name of the process, which ps(1) shows.
const NAME: &std::ffi::CStr = c"understudy-seed";
/// Maximum number of trial replays of a phase if pages differ.
///
/// Several replays are made because pages that depend on values which differ between runs may be
/// equal by chance.
const MAX_TRIALS: u32 = 3;
/// Milliseconds between two polls for the lock of the node.
const LOCK_POLL_MS: i32 = 10;
/// Milliseconds between two checks of a child's timeout.
const CHILD_POLL_MS: i32 = 1000;

/// Lock by which one template process of the node runs trial replays at a time.
struct NodeLock<'a>(&'a File);

impl NodeLock<'_> {
    fn try_lock(lock_file: &File) -> Option<NodeLock<'_>> {
        // SAFETY: flock(2) has no memory effects.
        let is_ours =
            unsafe { libc::flock(lock_file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        is_ours.then_some(NodeLock(lock_file))
    }
}

impl Drop for NodeLock<'_> {
    fn drop(&mut self) {
        // SAFETY: flock(2) has no memory effects.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Trial replays of a phase.
#[derive(Default)]
struct Trial<'a> {
    lock: Option<NodeLock<'a>>,
    /// Combined finding of the replays up to now.
    found: Option<ReplayFinding>,
    /// Number of replays.
    times: u32,
}

impl Trial<'_> {
    /// Adds a finding; returns true if another replay is needed.
    ///
    /// The first replay records its inputs, and all later replays read the inputs from this record.
    /// If there are inputs, a second replay therefore tests the record. If a page has differed in
    /// any replay, further replays follow, up to [`MAX_TRIALS`] replays in total.
    fn add_finding(&mut self, finding: ReplayFinding, plan: &mut ReplayPlan) -> bool {
        self.times += 1;
        let is_recording = self.times == 1 && finding.failure.is_none();
        if is_recording {
            plan.set_inputs(finding.inputs.clone());
        }
        let has_new_record = is_recording && !finding.inputs.is_empty();
        let found = match self.found.take() {
            Some(before) => before.combined_with(finding),
            None => finding,
        };
        let has_differences = found.failure.is_none() && !found.different.is_empty();
        self.found = Some(found);
        has_new_record || has_differences && self.times < MAX_TRIALS
    }
}

/// Purpose of the replays of a request.
enum WorkGoal<'a> {
    TrialReplay(Trial<'a>),
    /// Write these pages to the result.
    WritePages(Vec<PageRun>),
}

/// Request that is being handled.
struct RequestInWork<'a> {
    number: u64,
    plan: ReplayPlan,
    goal: WorkGoal<'a>,
    result: File,
    child: Option<ReplayChild>,
}

impl<'a> RequestInWork<'a> {
    fn from_request(request: Request, files: Vec<OwnedFd>) -> Option<RequestInWork<'a>> {
        let mut files = files
            .into_iter()
            .map(system_calls::move_owned_descriptor)
            .map(File::from);
        let (mut request_file, result) = (files.next()?, files.next()?);
        let (number, plan, goal) = match request {
            Request::Trial(number) => (
                number,
                read(&mut request_file).ok()?,
                WorkGoal::TrialReplay(Trial::default()),
            ),
            Request::Rebuild(number) => {
                let (plan, pages) = read(&mut request_file).ok()?;
                (number, plan, WorkGoal::WritePages(pages))
            }
            Request::Cancel => return None,
        };
        Some(RequestInWork {
            number,
            plan,
            goal,
            result,
            child: None,
        })
    }

    /// Makes progress as far as possible without waiting; returns the outcome at the end.
    fn make_progress(
        &mut self,
        rt: &Runtime,
        lock_file: &'a File,
        blocked_signals: &BlockedSignals,
    ) -> Option<Result<(), String>> {
        if self.child.as_mut().is_some_and(|child| !child.is_done()) {
            return None;
        }
        if let Some(finding) = self.child.take().map(ReplayChild::finding) {
            match &mut self.goal {
                WorkGoal::WritePages(_) => return Some(finding.failure.map_or(Ok(()), Err)),
                WorkGoal::TrialReplay(trial) => {
                    if !trial.add_finding(finding, &mut self.plan) {
                        let found = trial.found.take().unwrap_or_default();
                        let result = TrialResult::new(&self.plan, found);
                        return Some(
                            write(&mut self.result, &result).map_err(|error| error.to_string()),
                        );
                    }
                }
            }
        }
        let task = match &mut self.goal {
            WorkGoal::WritePages(pages) => ChildTask::Write(pages, &self.result),
            WorkGoal::TrialReplay(trial) => {
                trial.lock = trial.lock.take().or_else(|| NodeLock::try_lock(lock_file));
                trial.lock.as_ref()?;
                ChildTask::Compare
            }
        };
        match blocked_signals.without_blocking(|| ReplayChild::start(rt, &self.plan, &task)) {
            Ok(child) => self.child = Some(child),
            Err(error) => return Some(Err(error.to_string())),
        }
        None
    }
}

/// Runs the template process.
///
/// `descriptors` are the line to the rank that owns this process, a pidfd of the rank, and the lock
/// file of the node.
pub fn serve(rt: &Runtime, descriptors: [OwnedFd; 3], blocked_signals: &BlockedSignals) -> ! {
    // SAFETY: system calls in a process that has one thread. All other descriptors of the runtime
    // side are closed, which other processes could mistake for the rank's.
    let [line, owner, lock_file] = unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        let moved = descriptors
            .map(|fd| libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, RUNTIME_FD_BASE + 3));
        let mut low = RUNTIME_FD_BASE..;
        let descriptors = moved.map(|fd| libc::dup3(fd, low.next().unwrap_or(fd), libc::O_CLOEXEC));
        libc::close_range(RUNTIME_FD_BASE as u32 + 3, u32::MAX, 0);
        descriptors.map(|fd| OwnedFd::from_raw_fd(fd))
    };
    let (line, lock_file) = (Line::from(line), File::from(lock_file));
    let mut work: Option<RequestInWork> = None;
    loop {
        let child = work
            .as_ref()
            .and_then(|work| work.child.as_ref())
            .map(ReplayChild::descriptor);
        let timeout = match (&work, child) {
            (None, _) => -1,
            (Some(_), None) => LOCK_POLL_MS,
            (Some(_), Some(_)) => CHILD_POLL_MS,
        };
        let mut all = vec![line.as_fd().as_raw_fd(), owner.as_raw_fd()];
        all.extend(child);
        let events = poll_descriptors(&all, timeout);
        // The owner has ended.
        if events[1] != 0 {
            end();
        }
        match line.receive_with::<Request>(Duration::ZERO) {
            Ok(None) => {}
            Ok(Some((request, files))) => {
                // Dropping the former request releases the lock of the node first.
                drop(work.take());
                work = RequestInWork::from_request(request, files);
            }
            Err(_) => end(),
        }
        let outcome = work.as_mut().and_then(|work| {
            Some((
                work.number,
                work.make_progress(rt, &lock_file, blocked_signals)?,
            ))
        });
        if let Some((number, outcome)) = outcome {
            work = None;
            if line.send(&Answer { number, outcome }).is_err() {
                end();
            }
        }
    }
}

fn end() -> ! {
    // SAFETY: the process ends here, without destructors.
    unsafe { libc::_exit(0) }
}
