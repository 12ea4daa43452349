//! A process that stays what this one was at the end of `MPI_Init`, so that the phase can be replayed at any time.
//!
//! It is forked there and sleeps until it is asked, or until this process ends. It has this process's memory of that
//! moment, of which the kernel keeps a copy only where this process has written since. It is nobody's child: the program
//! must not meet it when it waits for its own.
#![allow(unsafe_code)]

use super::child::{self, Child, Task};
use super::script::Script;
use crate::cell::Main;
use crate::image::PAGE_SIZE;
use crate::image::runs::{self, PageRun};
use crate::{shim, sys};
use bincode::config::standard;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use understudy_abi::RUNTIME_FD_BASE;

/// What the process is called in lists of processes.
const NAME: &std::ffi::CStr = c"understudy-seed";
/// Time between two looks at a replay.
const NAP: Duration = Duration::from_micros(200);
/// How much longer an answer may take than the replay.
const MARGIN: Duration = Duration::from_secs(30);

/// The way to the seed, if there is one.
static SEED: Main<Option<UnixStream>> = Main::new(None);

/// This process stands at the end of `MPI_Init`.
pub fn plant() {
    match fork() {
        Ok(seed) => SEED.set(Some(seed)),
        Err(error) => log::warn!("no process for replays, so copies of static data are kept: {error}"),
    }
}

/// Whether there is one.
pub fn lives() -> bool {
    let mut seed = SEED.borrow_mut();
    let lives = |seed: &mut UnixStream| !is_readable(&[seed.as_raw_fd()], 0);
    *seed = seed.take_if(lives);
    seed.is_some()
}

/// It is not needed any more.
pub fn end() {
    SEED.set(None);
}

/// Replays a phase; these pages as they come out, one after the other.
pub fn replay(script: &Script, pages: &[PageRun]) -> Result<Vec<u8>, String> {
    let Some(mut seed) = SEED.take() else {
        return Err("the process for replays has ended".into());
    };
    let limit = child::limit(script) + MARGIN;
    let answer = ask(&mut seed, script, pages, limit).map_err(|error| format!("the process for replays: {error}"))?;
    SEED.set(Some(seed));
    answer
}

fn ask(
    seed: &mut UnixStream,
    script: &Script,
    pages: &[PageRun],
    limit: Duration,
) -> io::Result<Result<Vec<u8>, String>> {
    seed.set_read_timeout(Some(limit))?;
    send(seed, &(script, pages))?;
    let outcome: Result<(), String> = receive(seed)?;
    if let Err(why) = outcome {
        return Ok(Err(why));
    }
    let mut bytes = vec![0; runs::total(pages) as usize * PAGE_SIZE];
    seed.read_exact(&mut bytes)?;
    Ok(Ok(bytes))
}

fn send(stream: &mut UnixStream, what: &impl bincode::Encode) -> io::Result<()> {
    let bytes = bincode::encode_to_vec(what, standard()).map_err(io::Error::other)?;
    stream.write_all(&(bytes.len() as u64).to_ne_bytes())?;
    stream.write_all(&bytes)
}

fn receive<T: bincode::Decode<()>>(stream: &mut UnixStream) -> io::Result<T> {
    let mut length = [0; size_of::<u64>()];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u64::from_ne_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    let (what, _) = bincode::decode_from_slice(&bytes, standard()).map_err(io::Error::other)?;
    Ok(what)
}

/// Waits until one of the descriptors has something to say, or has ended.
fn is_readable(descriptors: &[i32], timeout: i32) -> bool {
    let ask = |&fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut all: Vec<libc::pollfd> = descriptors.iter().map(ask).collect();
    // SAFETY: as many structures as are named.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, timeout) > 0 }
}

/// Signals that are blocked while this exists.
struct Quiet {
    before: libc::sigset_t,
}

impl Quiet {
    fn begin() -> Quiet {
        // SAFETY: plain system calls on sets of their own.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
            Quiet { before }
        }
    }

    /// Does something without.
    fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        self.end();
        let result = work();
        std::mem::forget(Quiet::begin());
        result
    }

    fn end(&self) {
        // SAFETY: as above.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.end();
    }
}

fn fork() -> io::Result<UnixStream> {
    let (mine, theirs) = UnixStream::pair()?;
    let quiet = Quiet::begin();
    // SAFETY: pidfd_open(2), whose descriptor is new, and fork(2); children do not come back.
    unsafe {
        let own = match libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) {
            -1 => return Err(io::Error::last_os_error()),
            // The program's descriptors must have the numbers in a replay that they had in the phase.
            fd => OwnedFd::from_raw_fd(sys::lift(fd as i32)),
        };
        match shim::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                if libc::fork() == 0 {
                    serve(&theirs, &own, &quiet);
                }
                libc::_exit(0)
            }
            child => {
                libc::waitpid(child, std::ptr::null_mut(), 0);
                forget_child();
                Ok(mine)
            }
        }
    }
}

/// The program is not told of a child that was not its own.
fn forget_child() {
    // SAFETY: takes the signal off the list, which is blocked; plain system calls.
    unsafe {
        let mut ended: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut ended, libc::SIGCHLD);
        let now: libc::timespec = std::mem::zeroed();
        libc::sigtimedwait(&ended, std::ptr::null_mut(), &now);
    }
}

/// The seed's life.
fn serve(requests: &UnixStream, owner: &OwnedFd, quiet: &Quiet) -> ! {
    // SAFETY: system calls in a process that has one thread. It keeps nothing of the runtime side open that others could
    // take for the rank's.
    let (mut requests, owner) = unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        let aside = [requests.as_raw_fd(), owner.as_raw_fd()]
            .map(|fd| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, RUNTIME_FD_BASE + 2));
        let kept = [0, 1].map(|at| libc::dup3(aside[at], RUNTIME_FD_BASE + at as i32, libc::O_CLOEXEC));
        libc::close_range(RUNTIME_FD_BASE as u32 + 2, u32::MAX, 0);
        (UnixStream::from_raw_fd(kept[0]), OwnedFd::from_raw_fd(kept[1]))
    };
    loop {
        is_readable(&[requests.as_raw_fd(), owner.as_raw_fd()], -1);
        if is_readable(&[owner.as_raw_fd()], 0) || answer(&mut requests, quiet).is_err() {
            // SAFETY: the end of the process.
            unsafe { libc::_exit(0) }
        }
    }
}

fn answer(requests: &mut UnixStream, quiet: &Quiet) -> io::Result<()> {
    let (script, pages): (Script, Vec<PageRun>) = receive(requests)?;
    let made = make(&script, &pages, quiet);
    let outcome = made.as_ref().map(|_| ()).map_err(Clone::clone);
    send(requests, &outcome)?;
    match made {
        Ok(mut memory) => io::copy(&mut memory, requests).map(|_| ()),
        Err(_) => Ok(()),
    }
}

/// Has the pages made in a child.
fn make(script: &Script, pages: &[PageRun], quiet: &Quiet) -> Result<File, String> {
    let tell = |error: io::Error| error.to_string();
    let mut memory = child::memory_file().map_err(tell)?;
    let child = quiet.pause(|| Child::start(script, &Task::Write(pages, &memory)));
    let mut child = child.map_err(tell)?;
    while !child.is_done() {
        std::thread::sleep(NAP);
    }
    if let Some(why) = child.finding().failure {
        return Err(why);
    }
    memory.seek(SeekFrom::Start(0)).map_err(tell)?;
    Ok(memory)
}
