//! Generations: the MPI library is thrown away after a failure, and initialised again in a new
//! world.
//!
//! A process that has a process manager (`understudy_wire::line`) gets its identity in MPI from
//! there, once for each generation of the job. Between two generations the library's side of this
//! process is put back to where it was before `MPI_Init` ([`understudy_mpi::side`]), so nothing of
//! a failed world is left: no late message, no lock, no thread. All processes of the job have done
//! so before any of them begins the next generation.
#![allow(unsafe_code)]

mod ahead;
mod components;
mod instance_state;
mod talk;

pub use components::expect_driver;
pub use instance_state::Inheritance;
pub(crate) use instance_state::InstanceState;
pub use talk::{
    abort, boards, captured, choose_by, directory, hand_over, is_running, keep_nothing, neighbours,
    passed_signals, replenish, settle, spare_deaths, spawns, take_inheritance, went_back,
};
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Generation, ProcessNumber, Rank};

use crate::errors::SUCCESS;
use crate::generated::real;
use crate::{DOOR, Runtime, fault, sys, told, user};
use instance_state::LOOK;
use std::ffi::{CString, c_int};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use talk::{hear, hear_with, lines, set_interruptible, tell};
use understudy_mpi::side::{self, Snapshot};
use understudy_mpi::{call, library};
use understudy_wire::line::{ToManager, ToProcess};

/// What a process does while it waits for its first generation.
pub struct Spare {
    /// Something that has to be done now and then; when again, if at all.
    pub idle: fn() -> Option<Duration>,
    /// The job has ended without needing it.
    pub leave: fn() -> !,
}

/// A generation that this process is a rank of.
pub struct Begin {
    generation: Generation,
    /// How many ranks it has, and which one this process is.
    place: (u32, Rank),
    is_first: bool,
    spares: u32,
    /// Time of the failure, as in [`ToProcess::Begin`].
    failed_at: Option<u64>,
    variables: Vec<(String, String)>,
    /// A descriptor for the library, and the variable that tells its number.
    descriptor: Option<(String, OwnedFd)>,
    /// Who has left something to this process that comes before it begins.
    heir_of: Option<ProcessNumber>,
}

/// Learns of the process manager. To be called at the start.
///
/// # Errors
/// Those of [`talk::learn`].
pub fn learn() -> Result<(), String> {
    talk::learn()?;
    fault::renew_by(|| give_up(DOOR.get()), talk::kill_manager);
    Ok(())
}

/// Initialises the library for the first time, in whatever generation this process is needed in:
/// until then it is a spare. What has been asked of the library before was for no other process to
/// answer, and in no generation.
pub fn initialise(rt: &Runtime, level: c_int, provided: &mut c_int, spare: &Spare) -> c_int {
    talk::call_guardian();
    if understudy_mpi::abi::current().is_some() || components::are_opened() {
        ahead::open();
    }
    match Snapshot::take() {
        Ok(snapshot) => {
            log::debug!("{} bytes of the MPI library are kept", snapshot.size());
            let mut state = rt.renewal.instance.borrow_mut();
            (state.before_init, state.level) = (Some(snapshot), level);
        }
        Err(error) => {
            sys::say(format_args!("{}; the job ends", sys::chain(&error)));
            abort(understudy_abi::exit::INTERNAL);
        }
    }
    let mut begin = await_first(rt, spare);
    loop {
        if let Some(level) = enter(rt, begin) {
            *provided = level;
            return SUCCESS;
        }
        reset(rt);
        begin = await_generation(rt);
    }
}

/// Whether the job begins with this generation.
pub fn is_first(rt: &Runtime) -> bool {
    rt.renewal.instance.borrow().is_first
}

/// How many spares were left when this generation began.
pub fn spares(rt: &Runtime) -> u32 {
    rt.renewal.instance.borrow().spares
}

/// Time of the failure that led to the last generation, by the process manager.
pub fn failed_at(rt: &Runtime) -> Option<u64> {
    rt.renewal.instance.borrow().failed_at
}

/// Puts the library's side back. A process in which that cannot be done dies, and is replaced.
fn reset(rt: &Runtime) {
    if let Err(error) = put_back(rt) {
        sys::say(format_args!(
            "{}; process {} ends, to be replaced",
            sys::chain(&error),
            std::process::id()
        ));
        sys::kill_self();
    }
}

fn put_back(rt: &Runtime) -> Result<(), side::Error> {
    let state = rt.renewal.instance.borrow();
    let Some(snapshot) = &state.before_init else {
        return Ok(());
    };
    // SAFETY: this is the main thread, and the call that it was in has been abandoned or has
    // returned; handles and requests of the generation are not used again.
    let times = unsafe { snapshot.put_back() }?;
    log::debug!("the MPI library is put back: {times:?}");
    Ok(())
}

/// The library's side is put back, and all other processes have done so too, when this returns. If
/// nobody has died, this generation has failed.
pub fn leave_generation(rt: &Runtime) -> Begin {
    give_up(rt);
    reset(rt);
    await_generation(rt)
}

/// Sleeps until this process is a rank of a generation.
fn await_first(rt: &Runtime, spare: &Spare) -> Begin {
    tell_ready();
    loop {
        match hear_with(rt, (spare.idle)()) {
            Some((ToProcess::End, _)) => (spare.leave)(),
            // The manager before has taken this process for a rank, and may not have said so.
            Some((ToProcess::Again, _)) if lines().page.has_played.load(Ordering::Acquire) != 0 => {
                return await_generation(rt);
            }
            Some((ToProcess::Again, _)) => tell_ready(),
            heard => {
                let Some(begin) = begin_of(heard) else {
                    continue;
                };
                // That one may be over, and another wanted.
                return await_inheritance(rt, begin).unwrap_or_else(|| await_generation(rt));
            }
        }
    }
}

fn tell_ready() {
    if talk::can_choose() {
        tell(&ToManager::CanChoose);
    }
    tell(&ToManager::Ready {
        generation: call::wanted(),
    });
}

fn begin_of(heard: Option<(ToProcess, Vec<OwnedFd>)>) -> Option<Begin> {
    let (message, mut descriptors) = heard?;
    let ToProcess::Begin {
        generation,
        rank,
        size,
        is_first,
        spares,
        failed_at,
        variables,
        descriptor,
        heir_of,
    } = message
    else {
        return None;
    };
    Some(Begin {
        generation,
        place: (size, rank),
        is_first,
        spares,
        failed_at,
        variables,
        descriptor: descriptor.zip(descriptors.pop()),
        heir_of,
    })
}

/// Waits until this process is a rank of the generation that is to be.
fn await_generation(rt: &Runtime) -> Begin {
    let mut told = None;
    loop {
        let wanted = call::wanted();
        if told != Some(wanted) {
            // Before: another manager may be the one that hears it.
            lines()
                .page
                .ready
                .store(wanted.0.wrapping_add(1), Ordering::Release);
            tell_ready();
            told = Some(wanted);
        }
        match hear_with(rt, LOOK) {
            // All workers are at their end, and this process is not needed: it has no part.
            Some((ToProcess::End, _)) => sys::exit_now(0),
            heard => {
                if let Some(begin) = begin_of(heard).and_then(|it| await_inheritance(rt, it)) {
                    return begin;
                }
            }
        }
    }
}

/// Waits until what comes before this generation begins has come; nothing if another one is wanted.
fn await_inheritance(rt: &Runtime, begin: Begin) -> Option<Begin> {
    while begin.generation == call::wanted() {
        if begin
            .heir_of
            .is_none_or(|it| talk::has_inherited_from(rt, it))
        {
            return Some(begin);
        }
        if hear(rt, LOOK) == Some(ToProcess::End) {
            sys::exit_now(0);
        }
    }
    None
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

/// Initialises the library in a generation; the thread level, or nothing if another failure has
/// come before the end.
fn enter(rt: &Runtime, begin: Begin) -> Option<c_int> {
    let lent = begin
        .descriptor
        .map(|(name, descriptor)| (name, lend(&descriptor).to_string()));
    for (name, value) in begin.variables.iter().chain(&lent) {
        if let (Ok(name), Ok(value)) = (CString::new(name.as_str()), CString::new(value.as_str())) {
            // SAFETY: the library has no threads before it is initialised.
            unsafe { library::set_variable(&name, Some(&value)) };
        }
    }
    // Later initialisations print what the first one has printed.
    user::show_library_output(begin.generation == Generation(0));
    let began = Instant::now();
    call::enter(begin.generation);
    let (level, mut provided) = {
        let mut state = rt.renewal.instance.borrow_mut();
        (state.is_first, state.spares) = (begin.is_first, begin.spares);
        state.failed_at = begin.failed_at;
        (state.level, 0)
    };
    // SAFETY: the real library gets no arguments of the program's.
    let rc = unsafe {
        real::PMPI_Init_thread(
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            level,
            &mut provided,
        )
    };
    log::debug!(
        "MPI_Init of generation {} took {:?}",
        begin.generation,
        began.elapsed()
    );
    user::show_library_output(true);
    let world = RealComm::world();
    // Open MPI takes a process for the only one of its job if the server cannot be reached.
    if rc == SUCCESS && (world.size(), world.rank()) == (Ok(begin.place.0), Ok(begin.place.1)) {
        return Some(provided);
    }
    give_up(rt);
    None
}

/// Initialises the library in the next generation; an error if another failure has come before the
/// end.
pub fn begin(rt: &Runtime, begin: Begin) -> mpi::Result<()> {
    enter(rt, begin).map(|_| ()).ok_or(mpi::Error::ABANDONED)
}

/// This generation has failed: returns when another one is to be.
pub fn give_up(rt: &Runtime) {
    if call::is_over() {
        return;
    }
    tell(&ToManager::Failed {
        generation: call::current(),
    });
    while !call::is_over() {
        if let Some(ToProcess::End) = hear(rt, LOOK) {
            sys::exit_now(0);
        }
    }
}

/// Before that, the manager starts the whole job again, and ends this process; where others have
/// gone on, this process alone.
pub fn await_restart(rt: &Runtime) -> ! {
    let mut told = None;
    loop {
        // Another manager, which begins another generation, has to hear it as well.
        let generation = call::wanted();
        if told.replace(generation) != Some(generation) {
            tell(&ToManager::Failed { generation });
        }
        hear(rt, LOOK);
    }
}

/// Waits until all workers are at their end. An error code if a process fails before.
pub fn meet_at_the_end(rt: &Runtime) -> c_int {
    set_interruptible(false);
    tell(&ToManager::AtEnd {
        generation: call::current(),
    });
    loop {
        if call::is_over() {
            return call::ABANDONED;
        }
        if let Some(ToProcess::End) = hear(rt, LOOK) {
            return SUCCESS;
        }
    }
}

/// Ends the use of the library: state that cannot be reset ends with the process.
///
/// Destructors of its libraries do not run at exit(3): they would join threads that have been
/// ended, on the program's stack.
pub fn finalise(rt: &Runtime) {
    call::enter(call::wanted());
    if let Err(error) = put_back(rt) {
        log::info!("{}", sys::chain(&error));
    }
    for link_map in library::link_maps() {
        // SAFETY: a record of ld.so's; nothing of the library is called again.
        unsafe { (told::info().user_hide_destructors)(std::ptr::from_ref(link_map).cast()) };
    }
}
