//! Child process in which a phase is replayed.
//!
//! The child calls no MPI, and changes nothing of the runtime side that other processes see.
#![allow(unsafe_code)]

use super::finding::ReplayFinding;
use super::input;
use super::replay_base;
use super::template_request::{MIN_TIMEOUT, timeout};
use crate::Runtime;
use crate::copies::{PageSource, ReplayPlan, ReplayedPhase};
use crate::disk::StaticFile;
use crate::journal::replay::ReplayError;
use crate::journal::{self, Inputs, syscall_filter};
use crate::{shim, user};
use bincode::config::standard;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use understudy_abi::RUNTIME_FD_BASE;
use understudy_image::absent_pages::PageSums;
use understudy_image::layout::Layout;
use understudy_image::pages::{PageIndex, PageRun};
use understudy_image::process_memory;
use understudy_image::vmas::{self, Vma};
use understudy_image::{PAGE_SIZE, sums};

/// Niceness of a trial replay, which yields to the program (nice(2)).
const TRIAL_NICENESS: c_int = 5;
/// Multiple of the phase's duration that a trial replay may take.
const TRIAL_TIME_FACTOR: u32 = 60;
/// Largest number of mappings that are named.
const MAX_NAMED_MAPPINGS: usize = 32;

/// Task of a child after its replay.
pub enum ChildTask<'a> {
    /// Compares the pages with those of the replay plan.
    Compare,
    /// Writes these sorted pages to this file, one after the other.
    Write(&'a [PageRun], &'a File),
}

/// Child process that replays a phase.
pub struct ReplayChild {
    /// Process number, until the child has been waited for.
    pid: Option<libc::pid_t>,
    /// Read end of the pipe to which the child writes its encoded [`ReplayFinding`].
    output: File,
    received: Vec<u8>,
    began: Instant,
    timeout: Duration,
}

impl ReplayChild {
    /// Starts a child process.
    ///
    /// This process must be in the worker's state at the end of `MPI_Init`.
    pub fn start(rt: &Runtime, plan: &ReplayPlan, task: &ChildTask<'_>) -> io::Result<ReplayChild> {
        let (mut ends, check) = ([0; 2], |rc: c_int| match rc {
            -1 => Err(io::Error::last_os_error()),
            rc => Ok(rc),
        });
        // SAFETY: the descriptors of pipe2(2) are new; the forked child never returns from `work`.
        unsafe {
            check(libc::pipe2(
                ends.as_mut_ptr(),
                libc::O_CLOEXEC | libc::O_NONBLOCK,
            ))?;
            let (output, input) = (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]));
            let pid = check(shim::fork())?;
            if pid == 0 {
                work(rt, plan, task, input.as_raw_fd());
            }
            Ok(ReplayChild {
                pid: Some(pid),
                output: output.into(),
                received: Vec::new(),
                began: Instant::now(),
                timeout: match task {
                    ChildTask::Compare => MIN_TIMEOUT + TRIAL_TIME_FACTOR * plan.duration(),
                    ChildTask::Write(..) => timeout(plan),
                },
            })
        }
    }

    /// Returns the descriptor that is readable when the child has sent data.
    pub fn descriptor(&self) -> c_int {
        self.output.as_raw_fd()
    }

    /// Reads the child's data; returns true if they are complete.
    ///
    /// Kills a child that has exceeded its timeout.
    pub fn is_done(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.output.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => self.received.extend(&buffer[..count]),
                Err(_) => break,
            }
        }
        if self.began.elapsed() > self.timeout {
            self.kill();
        }
        false
    }

    /// Takes the finding of a child that is done.
    pub fn finding(mut self) -> ReplayFinding {
        let status = self.reap();
        let finding = bincode::decode_from_slice(&self.received, standard());
        finding.map_or_else(
            |_| ReplayFinding::failed(format!("the replay ended with wait status {status:#x}")),
            |(finding, _)| finding,
        )
    }

    /// Waits for the end of the child, and returns its wait status.
    fn reap(&mut self) -> c_int {
        let mut status = 0;
        if let Some(pid) = self.pid.take() {
            // SAFETY: a child of this process that has not been waited for.
            unsafe { libc::waitpid(pid, &mut status, 0) };
        }
        status
    }

    fn kill(&self) {
        if let Some(pid) = self.pid {
            // SAFETY: a child of this process that has not been waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

impl Drop for ReplayChild {
    fn drop(&mut self) {
        self.kill();
        self.reap();
    }
}

/// Runs the child process.
///
/// `output` is the pipe for the finding. The descriptor `memory` below is the file for the pages,
/// or the pipe if there is no such file.
fn work(rt: &Runtime, plan: &ReplayPlan, task: &ChildTask<'_>, output: c_int) -> ! {
    // The descriptor for log messages is closed below, and its number is reused.
    log::set_max_level(log::LevelFilter::Off);
    let memory = match task {
        ChildTask::Compare => output,
        ChildTask::Write(_, file) => file.as_raw_fd(),
    };
    // SAFETY: system calls in a process that has one thread and is about to end.
    let (mut pipe, memory) = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        if let ChildTask::Compare = task {
            libc::setpriority(libc::PRIO_PROCESS, 0, TRIAL_NICENESS);
        }
        // The two descriptors are moved first, so that neither overwrites the other. Then all other
        // descriptors of the runtime side are closed: other processes must not mistake this process
        // for the rank.
        let moved =
            [memory, output].map(|fd| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, RUNTIME_FD_BASE + 2));
        let [memory, output] = [
            libc::dup2(moved[0], RUNTIME_FD_BASE),
            libc::dup2(moved[1], RUNTIME_FD_BASE + 1),
        ];
        libc::fcntl(output, libc::F_SETFL, 0);
        libc::close_range(RUNTIME_FD_BASE as u32 + 2, u32::MAX, 0);
        (File::from_raw_fd(output), memory)
    };
    user::replace_by_empty_input();
    user::stop_recording();
    let finding = match &plan.source {
        PageSource::Replay(replay) => replay_and_run_task(rt, plan, replay, task, memory),
        PageSource::File(path) => read(plan, path, task, memory),
    };
    let bytes = bincode::encode_to_vec(&finding, standard()).unwrap_or_default();
    let _ = pipe.write_all(&bytes);
    // SAFETY: the process ends here, without destructors.
    unsafe { libc::_exit(0) }
}

/// Compares or writes the pages of the file of static data, as the task requires.
fn read(plan: &ReplayPlan, path: &Path, task: &ChildTask<'_>, memory: c_int) -> ReplayFinding {
    let began = Instant::now();
    let file = match StaticFile::open(path) {
        Ok(file) => file,
        Err(why) => return ReplayFinding::failed(why),
    };
    let mut content = [0u8; PAGE_SIZE];
    let different: Vec<u64> = match task {
        ChildTask::Compare => {
            let mut differs = |(page, sum): (PageIndex, u64)| {
                let is_read = file.read(page.0, &mut content).is_ok();
                (!is_read || sums::page_sum(page, &content) != sum).then_some(page.0)
            };
            let all = plan.pages.iter().flat_map(PageSums::each);
            all.filter_map(&mut differs).collect()
        }
        ChildTask::Write(pages, _) => {
            let mut copy_page = |(at, page): (u64, u64)| {
                file.read(page, &mut content)?;
                let written = write_possibly_unmapped(
                    memory,
                    content.as_ptr().cast(),
                    PAGE_SIZE,
                    at * PAGE_SIZE as u64,
                )?;
                (written == PAGE_SIZE)
                    .then_some(())
                    .ok_or(io::ErrorKind::WriteZero.into())
            };
            let indices = pages.iter().flat_map(|run| run.start.0..run.end());
            let copied: io::Result<()> = (0..).zip(indices).try_for_each(&mut copy_page);
            if let Err(error) = copied {
                return ReplayFinding::failed(format!(
                    "static data cannot be copied from {}: {error}",
                    path.display()
                ));
            }
            Vec::new()
        }
    };
    ReplayFinding {
        places: places(&different),
        different,
        duration: began.elapsed(),
        ..ReplayFinding::default()
    }
}

/// Calls pwrite(2) with memory that need not be mapped.
fn write_possibly_unmapped(
    file: c_int,
    from: *const c_void,
    length: usize,
    at: u64,
) -> io::Result<usize> {
    // SAFETY: pwrite(2) fails where no memory is mapped.
    match unsafe { libc::pwrite(file, from, length, at as i64) } {
        ..=-1 => Err(io::Error::last_os_error()),
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count as usize),
    }
}

fn replay_and_run_task(
    rt: &Runtime,
    plan: &ReplayPlan,
    replay: &ReplayedPhase,
    task: &ChildTask<'_>,
    memory: c_int,
) -> ReplayFinding {
    let began = Instant::now();
    let inputs = match replay_phases(rt, replay) {
        Ok(inputs) => inputs,
        Err(why) => return ReplayFinding::failed(why),
    };
    let duration = began.elapsed();
    let different = match task {
        ChildTask::Compare => plan.pages.iter().flat_map(compare).collect(),
        ChildTask::Write(pages, _) => match write(pages, memory) {
            Ok(()) => Vec::new(),
            Err((page, error)) => {
                return ReplayFinding::failed(format!(
                    "page {:#x} cannot be written: {error}",
                    page.addr()
                ));
            }
        },
    };
    ReplayFinding {
        places: places(&different),
        different,
        duration,
        failure: None,
        inputs,
    }
}

/// Replays a phase, after all phases that precede it.
///
/// This process must be in the worker's state at the end of `MPI_Init`. Returns the record of the
/// inputs.
fn replay_phases(rt: &Runtime, replay: &ReplayedPhase) -> Result<Inputs, String> {
    if let Some(base) = &replay.base {
        replay_phases(rt, &base.before)?;
        replay_base::apply(rt, base)?;
    }
    let layout =
        Layout::read_self(user::ProgramState::zones()).map_err(|error| error.to_string())?;
    if layout
        .areas()
        .iter()
        .any(|area| area.backing.is_shared() && area.may_write)
    {
        return Err("the program has mapped memory that other processes share".into());
    }
    syscall_filter::start(rt, replay.inputs.clone())
        .map_err(|error| format!("system calls cannot be filtered: {error}"))?;
    if replay.base.is_none() {
        input::restore(rt, &rt.static_data.inputs.borrow())?;
    }
    // SAFETY: this process is in the worker's state at the beginning of the phase.
    let replayed = unsafe { journal::replay::run(rt, &replay.journal, &replay.begin, replay.end) };
    let replayed = replayed.map_err(|why| match why {
        ReplayError::Input(index) => syscall_filter::changed_message(rt, index),
        _ => why.to_string(),
    });
    let inputs = syscall_filter::stop(rt).map_err(|error| error.to_string());
    replayed.and(inputs)
}

/// Returns the pages of a run whose checksums differ here, or that are not mapped.
fn compare(run: &PageSums) -> Vec<u64> {
    let mut content = [0u8; PAGE_SIZE];
    let mut differs = |(page, sum): (PageIndex, u64)| {
        let is_mapped = process_memory::read_own_memory(page.addr(), &mut content);
        (!is_mapped || sums::page_sum(page, &content) != sum).then_some(page.0)
    };
    run.each().filter_map(&mut differs).collect()
}

/// Writes pages to a file, one after the other; the error contains the page.
fn write(pages: &[PageRun], file: c_int) -> Result<(), (PageIndex, io::Error)> {
    let mut at = 0;
    for run in pages {
        let (mut address, end) = (run.range().start, run.range().end);
        while address < end {
            let written = write_possibly_unmapped(
                file,
                address as *const c_void,
                (end - address) as usize,
                at,
            );
            let written = written.map_err(|error| (PageIndex::containing(address), error))? as u64;
            (address, at) = (address + written, at + written);
        }
    }
    Ok(())
}

fn label(vma: &Vma) -> String {
    match vma.path.as_slice() {
        [] => format!("anonymous memory at {:#x}", vma.range.start),
        path => String::from_utf8_lossy(path).into_owned(),
    }
}

/// Returns the names of the mappings around pages, with the number of pages in each.
fn places(pages: &[u64]) -> Vec<String> {
    let all = vmas::read_self().unwrap_or_default();
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for page in pages {
        let address = PageIndex(*page).addr();
        let vma = all.iter().find(|vma| vma.range.contains(address));
        *found
            .entry(vma.map_or("nothing mapped".into(), label))
            .or_default() += 1;
    }
    let named = found.into_iter().take(MAX_NAMED_MAPPINGS);
    named
        .map(|(name, count)| format!("{name}: {count}"))
        .collect()
}
