//! Work of a template process: it waits for requests, and replays phases in child processes.
#![allow(unsafe_code)]

use super::quiet::Quiet;
use crate::Runtime;
use crate::copies::Script;
use crate::rehearsal::child::{Child, Task};
use crate::rehearsal::finding::{Finding, Rehearsed};
use crate::rehearsal::seed_line::look;
use crate::rehearsal::seed_request::{Answer, Request, read, write};
use crate::sys;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use understudy_abi::RUNTIME_FD_BASE;
use understudy_image::runs::PageRun;
use understudy_wire::line::Line;

/// Name of the process in lists of processes.
const NAME: &std::ffi::CStr = c"understudy-seed";
/// Number of trial replays of a phase whose pages are not all equal.
///
/// Pages that depend on values which differ between runs may be equal by chance.
const DOUBTFUL_TIMES: u32 = 3;
/// Milliseconds between two polls for the lock of the node.
///
/// `CHILD` is the time between two checks of a child's timeout.
const TURN: i32 = 10;
const CHILD: i32 = 1000;

/// Lock by which one template process of the node works at a time.
struct Turn<'a>(&'a File);

impl Turn<'_> {
    fn get(turns: &File) -> Option<Turn<'_>> {
        // SAFETY: flock(2) has no memory effects.
        let is_ours = unsafe { libc::flock(turns.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        is_ours.then_some(Turn(turns))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // SAFETY: flock(2) has no memory effects.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Trial replays of a phase.
#[derive(Default)]
struct Rehearsal<'a> {
    turn: Option<Turn<'a>>,
    /// Combined finding of the replays up to now.
    found: Option<Finding>,
    times: u32,
}

impl Rehearsal<'_> {
    /// Adds a finding; returns true if another replay is needed.
    ///
    /// Later replays read from the record of the first one, so one replay with the record is also
    /// tried.
    fn learn(&mut self, finding: Finding, script: &mut Script) -> bool {
        self.times += 1;
        let is_recording = self.times == 1 && finding.failure.is_none();
        if is_recording {
            script.set_inputs(finding.inputs.clone());
        }
        let is_new = is_recording && !finding.inputs.is_empty();
        let found = match self.found.take() {
            Some(before) => before.and(finding),
            None => finding,
        };
        let is_doubtful = found.failure.is_none() && !found.different.is_empty();
        self.found = Some(found);
        is_new || is_doubtful && self.times < DOUBTFUL_TIMES
    }
}

enum Goal<'a> {
    Rehearse(Rehearsal<'a>),
    Make(Vec<PageRun>),
}

/// Request that is being handled.
struct Work<'a> {
    number: u64,
    script: Script,
    goal: Goal<'a>,
    result: File,
    child: Option<Child>,
}

impl<'a> Work<'a> {
    fn of(request: Request, files: Vec<OwnedFd>) -> Option<Work<'a>> {
        let mut files = files.into_iter().map(sys::lift_owned).map(File::from);
        let (mut question, result) = (files.next()?, files.next()?);
        let (number, script, goal) = match request {
            Request::Rehearse(number) => (
                number,
                read(&mut question).ok()?,
                Goal::Rehearse(Rehearsal::default()),
            ),
            Request::Make(number) => {
                let (script, pages) = read(&mut question).ok()?;
                (number, script, Goal::Make(pages))
            }
            Request::Nothing => return None,
        };
        Some(Work {
            number,
            script,
            goal,
            result,
            child: None,
        })
    }

    /// Makes progress as far as possible; returns the outcome at the end.
    fn go_on(
        &mut self,
        rt: &Runtime,
        turns: &'a File,
        quiet: &Quiet,
    ) -> Option<Result<(), String>> {
        if self.child.as_mut().is_some_and(|child| !child.is_done()) {
            return None;
        }
        if let Some(finding) = self.child.take().map(Child::finding) {
            match &mut self.goal {
                Goal::Make(_) => return Some(finding.failure.map_or(Ok(()), Err)),
                Goal::Rehearse(rehearsal) => {
                    if !rehearsal.learn(finding, &mut self.script) {
                        let found = rehearsal.found.take().unwrap_or_default();
                        let rehearsed = Rehearsed::of(&self.script, found);
                        return Some(
                            write(&mut self.result, &rehearsed).map_err(|error| error.to_string()),
                        );
                    }
                }
            }
        }
        let task = match &mut self.goal {
            Goal::Make(pages) => Task::Write(pages, &self.result),
            Goal::Rehearse(rehearsal) => {
                rehearsal.turn = rehearsal.turn.take().or_else(|| Turn::get(turns));
                rehearsal.turn.as_ref()?;
                Task::Compare
            }
        };
        match quiet.pause(|| Child::start(rt, &self.script, &task)) {
            Ok(child) => self.child = Some(child),
            Err(error) => return Some(Err(error.to_string())),
        }
        None
    }
}

/// Runs the template process.
///
/// `kept` are the line to the owner, a descriptor of the owner, and the lock file of the node.
pub fn serve(rt: &Runtime, kept: [OwnedFd; 3], quiet: &Quiet) -> ! {
    // SAFETY: system calls in a process that has one thread. All other descriptors of the runtime
    // side are closed, which other processes could mistake for the rank's.
    let [line, owner, turns] = unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        let aside =
            kept.map(|fd| libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, RUNTIME_FD_BASE + 3));
        let mut low = RUNTIME_FD_BASE..;
        let kept = aside.map(|fd| libc::dup3(fd, low.next().unwrap_or(fd), libc::O_CLOEXEC));
        libc::close_range(RUNTIME_FD_BASE as u32 + 3, u32::MAX, 0);
        kept.map(|fd| OwnedFd::from_raw_fd(fd))
    };
    let (line, turns) = (Line::from(line), File::from(turns));
    let mut work: Option<Work> = None;
    loop {
        let child = work
            .as_ref()
            .and_then(|work| work.child.as_ref())
            .map(Child::descriptor);
        let timeout = match (&work, child) {
            (None, _) => -1,
            (Some(_), None) => TURN,
            (Some(_), Some(_)) => CHILD,
        };
        let mut all = vec![line.as_fd().as_raw_fd(), owner.as_raw_fd()];
        all.extend(child);
        let seen = look(&all, timeout);
        if seen[1] != 0 {
            end();
        }
        match line.receive_with::<Request>(Duration::ZERO) {
            Ok(None) => {}
            Ok(Some((request, files))) => {
                // Dropping the former request releases the lock of the node first.
                drop(work.take());
                work = Work::of(request, files);
            }
            Err(_) => end(),
        }
        let outcome = work
            .as_mut()
            .and_then(|work| Some((work.number, work.go_on(rt, &turns, quiet)?)));
        if let Some((number, outcome)) = outcome {
            work = None;
            if line.send(&Answer { number, outcome }).is_err() {
                end();
            }
        }
    }
}

fn end() -> ! {
    // SAFETY: the end of the process.
    unsafe { libc::_exit(0) }
}
