//! Generations: the MPI library is thrown away after a failure, and initialised again in a new world.
//!
//! A process that has a process manager (`ckptd::line`) gets its identity in MPI from there, once for each generation of the
//! job. Between two generations the library's side of this process is put back to where it was before `MPI_Init`
//! ([`understudy_mpi::side`]), so nothing of a failed world is left: no late message, no lock, no thread. All processes
//! of the job have done so before any of them begins the next generation.
#![allow(unsafe_code)]

mod ahead;
mod components;

use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::{fault, shim, sys, told, world};
use ckptd::line::{self, Hello, LINE, Line, Socket, ToManager, ToProcess};
use std::ffi::{CString, c_int};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use understudy_mpi::side::Snapshot;
use understudy_mpi::{call, library};

/// How long to wait for a word of the manager before the page is looked at again.
const LOOK: Duration = Duration::from_millis(20);

// understudy-mpi and ckptd do not know each other.
const _: () = {
    assert!(call::INTERRUPT == line::INTERRUPT);
    assert!(size_of::<call::Page>() <= size_of::<line::Page>() && size_of::<line::Page>() <= line::PAGE);
    assert!(offset_of!(call::Page, generation) == offset_of!(line::Page, generation));
    assert!(offset_of!(call::Page, is_inside) == offset_of!(line::Page, is_inside));
};

/// What connects this process with others of its job.
struct Lines {
    /// To the process manager; the guardian keeps the other end open when that dies.
    manager: Line,
    guardian: Line,
    page: &'static line::Page,
}

static LINES: OnceLock<Lines> = OnceLock::new();

/// What becomes of the library's side.
struct Renewal {
    before_init: Option<Snapshot>,
    /// The thread level that MPI_Init asks for.
    level: c_int,
    has_ended: bool,
}

static STATE: Main<Renewal> = Main::new(Renewal {
    before_init: None,
    level: 0,
    has_ended: false,
});

/// What a dead process has left to this one.
pub struct Inheritance {
    /// Its number, by which the job knows it.
    pub from: u32,
    /// How it has ended, as wait(2) tells it.
    pub status: c_int,
    /// What it has handed over.
    pub files: [OwnedFd; 2],
}

static INHERITANCE: Main<Option<Inheritance>> = Main::new(None);
/// Whose files have come last.
static HEIR_OF: Main<Option<u32>> = Main::new(None);

/// A generation that this process is a rank of.
pub struct Begin {
    generation: u32,
    /// How many ranks it has, and which one this process is.
    place: (u32, u32),
    variables: Vec<(String, String)>,
    /// A descriptor for the library, and the variable that tells its number.
    descriptor: Option<(String, OwnedFd)>,
    /// Who has left something to this process that comes before it begins.
    heir_of: Option<u32>,
}

/// What this process is for its guardian, and who that is.
struct Own {
    number: u32,
    guardian: u32,
    directory: PathBuf,
}

static OWN: OnceLock<Own> = OnceLock::new();

/// Learns of the process manager. To be called at the start.
///
/// # Errors
/// Why that cannot be used, for the user.
pub fn learn() -> Result<(), String> {
    let text =
        told::variable(LINE).ok_or("this process has no guardian; start the job with mpirun or understudy run")?;
    let mut parts = text.splitn(3, ',');
    let mut part = || parts.next();
    let own = part()
        .zip(part())
        .zip(part())
        .and_then(|((number, guardian), directory)| {
            Some(Own {
                number: number.parse().ok()?,
                guardian: guardian.parse().ok()?,
                directory: directory.into(),
            })
        });
    let own = own.ok_or_else(|| format!("{LINE} is `{text}`, not two numbers and a directory"))?;
    let _ = OWN.set(own);
    fault::renew_by(give_up, kill_manager);
    Ok(())
}

/// Calls the guardian, which knows where the process manager is. Not before `MPI_Init`: until then this process may be a script's interpreter, and
/// execute the program.
fn call_guardian(own: &Own) -> io::Result<()> {
    let line = Line::call(&own.directory, Socket::Guardian(own.guardian))?;
    let guardian = Line::from(lift(line.into()));
    guardian.send(&Hello::Process {
        number: own.number,
        library: library::file(),
    })?;
    let manager = Line::from(lift(await_descriptor(&guardian, &ToProcess::Line)?));
    let page = await_descriptor(&manager, &ToProcess::Page)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new shared mapping of the manager's file.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            line::PAGE,
            access,
            libc::MAP_SHARED,
            page.as_raw_fd(),
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page is never unmapped, and its words are atomic.
    let page = unsafe { &*mapped.cast::<line::Page>() };
    let _ = LINES.set(Lines {
        manager,
        guardian,
        page,
    });
    // SAFETY: it begins with the words that calls need.
    call::listen(unsafe { &*mapped.cast::<call::Page>() });
    call::enter(u32::MAX);
    // The snapshot is taken after this, so the shim keeps it.
    shim::hold_ends(is_over);
    Ok(())
}

/// Asked by any thread of the MPI library.
extern "C" fn is_over() -> bool {
    call::is_over()
}

/// The descriptor that comes with this message.
fn await_descriptor(line: &Line, message: &ToProcess) -> io::Result<OwnedFd> {
    loop {
        match line.receive_with::<ToProcess>(LOOK)? {
            Some((said, mut descriptors)) if said == *message => {
                return descriptors.pop().ok_or(io::ErrorKind::InvalidData.into());
            }
            _ => {}
        }
    }
}

/// Moved out of the way of the program's descriptors.
fn lift(descriptor: OwnedFd) -> OwnedFd {
    // SAFETY: a descriptor of this function's own, which becomes another one.
    unsafe { OwnedFd::from_raw_fd(sys::lift(descriptor.into_raw_fd())) }
}

fn lines() -> &'static Lines {
    LINES.get().expect("the guardian has been called")
}

fn tell(message: &ToManager) {
    or_end(lines().manager.send(message));
}

/// Without its guardian a process cannot go on.
fn or_end<T>(talk: std::io::Result<T>) -> T {
    talk.unwrap_or_else(|_| {
        sys::say(format_args!(
            "the guardian of process {0} has gone; process {0} ends",
            std::process::id()
        ));
        sys::exit_now(understudy_abi::exit::LOST)
    })
}

/// Initialises the library for the first time, in whatever generation the job is. What has been asked of the library before
/// was for no other process to answer, and in no generation.
pub fn initialise(level: c_int, provided: &mut c_int) -> c_int {
    if let Some(own) = OWN.get()
        && let Err(error) = call_guardian(own)
    {
        sys::say(format_args!(
            "the process manager of this job cannot be called ({}): {error}; start the job again",
            own.directory.display()
        ));
        sys::exit_now(understudy_abi::exit::LOST);
    }
    if crate::abi::is_foreign() || components::are_files() {
        ahead::open();
    }
    match Snapshot::take() {
        Ok(snapshot) => {
            log::debug!("{} bytes of the MPI library are kept", snapshot.size());
            let mut state = STATE.borrow_mut();
            (state.before_init, state.level) = (Some(snapshot), level);
        }
        Err(error) => {
            sys::say(format_args!("{}; the job ends", sys::chain(&error)));
            abort(understudy_abi::exit::INTERNAL);
        }
    }
    loop {
        let begin = await_generation();
        if let Some(level) = enter(begin) {
            *provided = level;
            return SUCCESS;
        }
        reset();
    }
}

/// Puts the library's side back. A process in which that cannot be done dies, and is replaced.
fn reset() {
    let state = STATE.borrow();
    let Some(snapshot) = &state.before_init else { return };
    // SAFETY: this is the main thread, and the call that it was in has been abandoned or has returned; handles and
    // requests of the generation are not used again.
    match unsafe { snapshot.put_back() } {
        Ok(times) => log::debug!("the MPI library is put back: {times:?}"),
        Err(error) => {
            sys::say(format_args!(
                "{}; process {} ends, to be replaced",
                sys::chain(&error),
                std::process::id()
            ));
            sys::kill_self();
        }
    }
}

/// The library's side is put back, and all other processes have done so too, when this returns. If nobody has died, this
/// generation has failed.
pub fn leave_generation() -> Begin {
    give_up();
    reset();
    await_generation()
}

/// Waits until this process is a rank of the generation that is to be.
fn await_generation() -> Begin {
    let (mut told, mut begin) = (None, None);
    loop {
        let wanted = call::wanted();
        if told != Some(wanted) {
            // Before: another manager may be the one that hears it.
            lines().page.ready.store(wanted.wrapping_add(1), Ordering::Release);
            tell(&ToManager::Ready { generation: wanted });
            (told, begin) = (Some(wanted), None);
        }
        match hear_with(LOOK) {
            Some((
                ToProcess::Begin {
                    generation,
                    size,
                    rank,
                    variables,
                    descriptor: name,
                    heir_of,
                },
                mut descriptors,
            )) if generation == wanted => {
                begin = Some(Begin {
                    generation,
                    place: (size, rank),
                    variables,
                    descriptor: name.zip(descriptors.pop()),
                    heir_of,
                });
            }
            // All workers are at their end, and this process is not needed: it has no part.
            Some((ToProcess::End, _)) => sys::exit_now(0),
            _ => {}
        }
        let has_all = |begin: &mut Begin| begin.heir_of.is_none_or(|from| *HEIR_OF.borrow() == Some(from));
        if let Some(begin) = begin.take_if(has_all) {
            return begin;
        }
    }
}

fn hear(limit: Duration) -> Option<ToProcess> {
    hear_with(limit).map(|(message, _)| message)
}

/// With the descriptors that have come with the message.
fn hear_with(limit: Duration) -> Option<(ToProcess, Vec<OwnedFd>)> {
    match or_end(lines().manager.receive_with(limit)) {
        Some((ToProcess::Inherit { from, status }, files)) => {
            inherit(from, status, files);
            None
        }
        heard => heard,
    }
}

fn inherit(from: u32, status: c_int, files: Vec<OwnedFd>) {
    HEIR_OF.set(Some(from));
    if let Ok(files) = files.into_iter().map(lift).collect::<Vec<_>>().try_into() {
        INHERITANCE.set(Some(Inheritance { from, status, files }));
    }
}

/// What a dead process has left, if that has come since the last call.
pub fn take_inheritance() -> Option<Inheritance> {
    INHERITANCE.take()
}

/// These files are needed by whoever takes the part of this worker when this process dies; in place of any others.
pub fn hand_over(worker: u32, files: [&impl AsFd; 2]) {
    let (message, lines) = (ToManager::Keeps { worker }, lines());
    // The guardian first: it keeps them for another manager as well.
    for line in [&lines.guardian, &lines.manager] {
        if let Err(error) = line.send_with(&message, &files.map(AsFd::as_fd)) {
            log::warn!("copies do not outlive this process: {error}");
        }
    }
}

/// This process keeps nothing that anybody needs when it dies.
pub fn keep_nothing() {
    or_end(lines().guardian.send(&ToManager::KeepsNothing));
    tell(&ToManager::KeepsNothing);
}

/// The number of a copy that is the library's: it is closed when its side is put back.
fn lend(descriptor: &OwnedFd) -> c_int {
    // SAFETY: fcntl(2), past libc, which would move the copy to the runtime's descriptors.
    let copy = unsafe {
        libc::syscall(
            libc::SYS_fcntl,
            descriptor.as_raw_fd(),
            libc::F_DUPFD,
            understudy_abi::MPI_FD_BASE,
        )
    };
    copy as c_int
}

/// Initialises the library in a generation; the thread level, or nothing if another failure has come before the end.
fn enter(begin: Begin) -> Option<c_int> {
    let lent = begin
        .descriptor
        .map(|(name, descriptor)| (name, lend(&descriptor).to_string()));
    for (name, value) in begin.variables.iter().chain(&lent) {
        if let (Ok(name), Ok(value)) = (CString::new(name.as_str()), CString::new(value.as_str())) {
            // SAFETY: the library has no threads before it is initialised.
            unsafe { library::set_variable(&name, Some(&value)) };
        }
    }
    let began = Instant::now();
    call::enter(begin.generation);
    let (level, mut provided) = (STATE.borrow().level, 0);
    // SAFETY: the real library gets no arguments of the program's.
    let rc = unsafe { real::PMPI_Init_thread(std::ptr::null_mut(), std::ptr::null_mut(), level, &mut provided) };
    log::debug!("MPI_Init of generation {} took {:?}", begin.generation, began.elapsed());
    // Open MPI takes a process for the only one of its job if the server cannot be reached.
    if rc == SUCCESS && world::size_and_rank(world::of_library()) == begin.place {
        return Some(provided);
    }
    give_up();
    None
}

/// Initialises the library in the next generation; an error if another failure has come before the end.
pub fn begin(begin: Begin) -> Result<(), c_int> {
    enter(begin).map(|_| ()).ok_or(call::ABANDONED)
}

/// This generation has failed: returns when another one is to be.
pub fn give_up() {
    if call::is_over() {
        return;
    }
    tell(&ToManager::Failed {
        generation: call::wanted(),
    });
    while !call::is_over() {
        if let Some(ToProcess::End) = hear(LOOK) {
            sys::exit_now(0);
        }
    }
}

/// Kills the process manager, for a test.
fn kill_manager() {
    let manager = LINES.get().map(|lines| lines.page.manager.load(Ordering::Acquire));
    if let Some(manager @ 1..) = manager {
        // SAFETY: kill(2).
        unsafe { libc::kill(manager as libc::pid_t, libc::SIGKILL) };
    }
}

/// This process goes on with the program: from now on a death does not lead back to its start.
pub fn is_running() {
    lines().page.has_run.store(1, Ordering::Release);
    tell(&ToManager::Running {
        generation: call::wanted(),
    });
}

/// So many spares are missing.
pub fn replenish(spares: u32) {
    tell(&ToManager::Replenish { spares });
}

/// Before that, the manager starts the whole job again, and ends this process.
pub fn await_restart() -> ! {
    let mut told = None;
    loop {
        // Another manager, which begins another generation, has to hear it as well.
        let generation = call::wanted();
        if told.replace(generation) != Some(generation) {
            tell(&ToManager::Failed { generation });
        }
        hear(LOOK);
    }
}

/// Whether all workers are at their end; asked by spares.
pub fn has_ended() -> bool {
    if !STATE.borrow().has_ended && hear(Duration::ZERO) == Some(ToProcess::End) {
        STATE.borrow_mut().has_ended = true;
    }
    STATE.borrow().has_ended
}

/// Waits until all workers are at their end. An error code if a process fails before.
pub fn meet_at_the_end() -> c_int {
    tell(&ToManager::AtEnd {
        generation: call::wanted(),
    });
    loop {
        if call::is_over() {
            return call::ABANDONED;
        }
        if let Some(ToProcess::End) = hear(LOOK) {
            return SUCCESS;
        }
    }
}

/// The library is not needed any more.
pub fn finalise() {
    call::enter(call::wanted());
    reset();
}

/// The whole job is to end with this status.
pub fn abort(status: c_int) -> ! {
    tell(&ToManager::Abort { status });
    sys::exit_now(if status & 0xff == 0 { 1 } else { status })
}
