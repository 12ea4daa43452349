//! Child process in which a phase is replayed.
//!
//! The child calls no MPI, and changes nothing of the runtime side that other processes see.
#![allow(unsafe_code)]

use super::base;
use super::finding::Finding;
use super::input;
use super::seed_request::{LEAST_TIMEOUT, limit};
use crate::Runtime;
use crate::copies::{Replay, Script, Way};
use crate::disk::StaticFile;
use crate::journal::replay::Diverged;
use crate::journal::{self, Inputs, hold};
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
use understudy_image::absent::Sums;
use understudy_image::layout::Layout;
use understudy_image::own_memory;
use understudy_image::runs::{PageIndex, PageRun};
use understudy_image::vmas::{self, Vma};
use understudy_image::{PAGE_SIZE, sums};

/// Niceness of a trial replay, which yields to the program (nice(2)).
const NICE: c_int = 5;
const TIMES_OF_NICE: u32 = 60;
/// Largest number of mappings that are named.
const MOST_PLACES: usize = 32;

/// Task of a child after its replay.
pub enum Task<'a> {
    /// Compares the pages with those of the replay plan.
    Compare,
    /// Writes these sorted pages to this file, one after the other.
    Write(&'a [PageRun], &'a File),
}

/// Child process that replays a phase.
pub struct Child {
    /// Process number, until the child has been waited for.
    pid: Option<libc::pid_t>,
    output: File,
    received: Vec<u8>,
    began: Instant,
    limit: Duration,
}

impl Child {
    /// Starts a child process.
    ///
    /// This process must be in the worker's state at the end of `MPI_Init`.
    pub fn start(rt: &Runtime, script: &Script, task: &Task<'_>) -> io::Result<Child> {
        let (mut ends, check) = ([0; 2], |rc: c_int| match rc {
            -1 => Err(io::Error::last_os_error()),
            rc => Ok(rc),
        });
        // SAFETY: pipe2(2) and fork(2); the child never returns from `work`.
        unsafe {
            check(libc::pipe2(
                ends.as_mut_ptr(),
                libc::O_CLOEXEC | libc::O_NONBLOCK,
            ))?;
            let (output, input) = (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]));
            let pid = check(shim::fork())?;
            if pid == 0 {
                work(rt, script, task, input.as_raw_fd());
            }
            Ok(Child {
                pid: Some(pid),
                output: output.into(),
                received: Vec::new(),
                began: Instant::now(),
                limit: match task {
                    Task::Compare => LEAST_TIMEOUT + TIMES_OF_NICE * script.took(),
                    Task::Write(..) => limit(script),
                },
            })
        }
    }

    /// Returns the descriptor that is readable when the child has sent data.
    pub fn descriptor(&self) -> c_int {
        self.output.as_raw_fd()
    }

    /// Reads the child's data; returns true if they are complete.
    pub fn is_done(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.output.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => self.received.extend(&buffer[..count]),
                Err(_) => break,
            }
        }
        if self.began.elapsed() > self.limit {
            self.kill();
        }
        false
    }

    /// Takes the finding of a child that is done.
    pub fn finding(mut self) -> Finding {
        let status = self.reap();
        let finding = bincode::decode_from_slice(&self.received, standard());
        finding.map_or_else(
            |_| Finding::failed(format!("the replay ended with wait status {status:#x}")),
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

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        self.reap();
    }
}

fn work(rt: &Runtime, script: &Script, task: &Task<'_>, output: c_int) -> ! {
    // The descriptor for messages is closed below, and its number is reused.
    log::set_max_level(log::LevelFilter::Off);
    let memory = match task {
        Task::Compare => output,
        Task::Write(_, file) => file.as_raw_fd(),
    };
    // SAFETY: system calls in a process that has one thread and is about to end.
    let (mut pipe, memory) = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        if let Task::Compare = task {
            libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
        }
        // The two descriptors are moved first, so that neither overwrites the other. Then all other
        // descriptors of the runtime side are closed: other processes must not mistake this process
        // for the rank.
        let aside =
            [memory, output].map(|fd| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, RUNTIME_FD_BASE + 2));
        let [memory, output] = [
            libc::dup2(aside[0], RUNTIME_FD_BASE),
            libc::dup2(aside[1], RUNTIME_FD_BASE + 1),
        ];
        libc::fcntl(output, libc::F_SETFL, 0);
        libc::close_range(RUNTIME_FD_BASE as u32 + 2, u32::MAX, 0);
        (File::from_raw_fd(output), memory)
    };
    user::leave_input();
    user::leave_files();
    let finding = match &script.way {
        Way::Replay(replay) => play(rt, script, replay, task, memory),
        Way::File(path) => read(script, path, task, memory),
    };
    let bytes = bincode::encode_to_vec(&finding, standard()).unwrap_or_default();
    let _ = pipe.write_all(&bytes);
    // SAFETY: the end of the process.
    unsafe { libc::_exit(0) }
}

/// Reads the pages from a file.
fn read(script: &Script, path: &Path, task: &Task<'_>, memory: c_int) -> Finding {
    let began = Instant::now();
    let file = match StaticFile::open(path) {
        Ok(file) => file,
        Err(why) => return Finding::failed(why),
    };
    let mut content = [0u8; PAGE_SIZE];
    let different: Vec<u64> = match task {
        Task::Compare => {
            let mut differs = |(page, sum): (PageIndex, u64)| {
                let is_read = file.read(page.0, &mut content).is_ok();
                (!is_read || sums::of_page(page, &content) != sum).then_some(page.0)
            };
            let all = script.pages.iter().flat_map(Sums::each);
            all.filter_map(&mut differs).collect()
        }
        Task::Write(pages, _) => {
            let mut give = |(at, page): (u64, u64)| {
                file.read(page, &mut content)?;
                let done = given(
                    memory,
                    content.as_ptr().cast(),
                    PAGE_SIZE,
                    at * PAGE_SIZE as u64,
                )?;
                (done == PAGE_SIZE)
                    .then_some(())
                    .ok_or(io::ErrorKind::WriteZero.into())
            };
            let numbers = pages.iter().flat_map(|run| run.start.0..run.end());
            let written: io::Result<()> = (0..).zip(numbers).try_for_each(&mut give);
            if let Err(error) = written {
                return Finding::failed(format!("{}: {error}", path.display()));
            }
            Vec::new()
        }
    };
    Finding {
        places: places(&different),
        different,
        took: began.elapsed(),
        ..Finding::default()
    }
}

/// Calls pwrite(2) with memory that may not be mapped.
fn given(file: c_int, from: *const c_void, length: usize, at: u64) -> io::Result<usize> {
    // SAFETY: pwrite(2) fails where no memory is mapped.
    match unsafe { libc::pwrite(file, from, length, at as i64) } {
        ..=0 => Err(io::Error::last_os_error()),
        count => Ok(count as usize),
    }
}

fn play(rt: &Runtime, script: &Script, replay: &Replay, task: &Task<'_>, memory: c_int) -> Finding {
    let began = Instant::now();
    let inputs = match run(rt, replay) {
        Ok(inputs) => inputs,
        Err(why) => return Finding::failed(why),
    };
    let took = began.elapsed();
    let different = match task {
        Task::Compare => script.pages.iter().flat_map(compare).collect(),
        Task::Write(pages, _) => match write(pages, memory) {
            Ok(()) => Vec::new(),
            Err((page, error)) => {
                return Finding::failed(format!(
                    "page {:#x} cannot be given: {error}",
                    page.addr()
                ));
            }
        },
    };
    Finding {
        places: places(&different),
        different,
        took,
        failure: None,
        inputs,
    }
}

/// Replays a phase, and the phases before it.
///
/// This process must be in the worker's state at the end of `MPI_Init`. Returns the record of the
/// inputs.
fn run(rt: &Runtime, replay: &Replay) -> Result<Inputs, String> {
    if let Some(base) = &replay.base {
        run(rt, &base.before)?;
        base::lay_over(rt, base)?;
    }
    let layout = Layout::read_self(user::State::zones()).map_err(|error| error.to_string())?;
    if layout
        .areas()
        .iter()
        .any(|area| area.backing.is_shared() && area.may_write)
    {
        return Err("the program has mapped memory that others share".into());
    }
    hold::begin(rt, replay.inputs.clone())
        .map_err(|error| format!("system calls cannot be held back: {error}"))?;
    if replay.base.is_none() {
        input::restore(rt, &rt.rehearsal.inputs.borrow())?;
    }
    // SAFETY: this process is in the worker's state at the begin of the phase.
    let played = unsafe { journal::replay::run(rt, &replay.journal, &replay.begin, replay.end) };
    let played = played.map_err(|why| match why {
        Diverged::Input(number) => hold::tell_changed(rt, number),
        _ => why.to_string(),
    });
    let ended = hold::end(rt).map_err(|error| error.to_string());
    played.and(ended)
}

/// Returns the pages of a run whose checksums differ here, or that are not mapped.
fn compare(run: &Sums) -> Vec<u64> {
    let mut content = [0u8; PAGE_SIZE];
    let mut differs = |(page, sum): (PageIndex, u64)| {
        let is_there = own_memory::read(page.addr(), &mut content);
        (!is_there || sums::of_page(page, &content) != sum).then_some(page.0)
    };
    run.each().filter_map(&mut differs).collect()
}

/// Writes pages to a file; the error names the page.
fn write(pages: &[PageRun], file: c_int) -> Result<(), (PageIndex, io::Error)> {
    let mut at = 0;
    for run in pages {
        let (mut address, end) = (run.range().start, run.range().end);
        while address < end {
            let written = given(file, address as *const c_void, (end - address) as usize, at);
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
    let told = found.into_iter().take(MOST_PLACES);
    told.map(|(name, count)| format!("{name}: {count}"))
        .collect()
}
