//! Reinit of the MPI library after a failure, in a new world.
//!
//! A process with a process manager (`understudy_wire::line`) gets its identity in MPI from the
//! manager, once for each MPI instance. Between two MPI instances the MPI side of this process is
//! reset to its state before `MPI_Init` ([`understudy_mpi::side`]), so no late message, lock or
//! thread of a failed world remains. All processes of the job have been reset before any of them
//! begins the next MPI instance.
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

/// Actions of a process that waits for its first MPI instance.
pub struct Spare {
    /// Periodic action; returns the time until its next call, if any.
    pub idle: fn() -> Option<Duration>,
    /// Exits the process, when the job has ended without needing it.
    pub leave: fn() -> !,
}

/// Identity of this process in an MPI instance.
pub struct Begin {
    generation: Generation,
    /// Number of ranks, and the rank of this process.
    place: (u32, Rank),
    is_first: bool,
    spares: u32,
    /// Time of the failure, as in [`ToProcess::Begin`].
    failed_at: Option<u64>,
    variables: Vec<(String, String)>,
    /// Descriptor for the library, and the variable for its number.
    descriptor: Option<(String, OwnedFd)>,
    /// Failed process whose replica store must arrive before this MPI instance begins.
    heir_of: Option<ProcessNumber>,
}

/// Reads the address of the process manager. Must be called at the start.
///
/// # Errors
/// As for [`talk::learn`].
pub fn learn() -> Result<(), String> {
    talk::learn()?;
    fault::renew_by(|| give_up(DOOR.get()), talk::kill_manager);
    Ok(())
}

/// Initialises the library for the first time, when this process is needed.
///
/// Until then the process is a spare. Its first MPI instance may be any of the job's. Earlier calls
/// of the library were local and belong to no MPI instance.
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

/// True if the job begins with this MPI instance.
pub fn is_first(rt: &Runtime) -> bool {
    rt.renewal.instance.borrow().is_first
}

/// Returns the number of spares at the begin of this MPI instance.
pub fn spares(rt: &Runtime) -> u32 {
    rt.renewal.instance.borrow().spares
}

/// Returns the time of the last failure, as the process manager has sent it.
pub fn failed_at(rt: &Runtime) -> Option<u64> {
    rt.renewal.instance.borrow().failed_at
}

/// Resets the MPI side; after an error the process exits, and is replaced.
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
    // returned; handles and requests of the MPI instance are not used any more.
    let times = unsafe { snapshot.put_back() }?;
    log::debug!("the MPI library is reset: {times:?}");
    Ok(())
}

/// Resets the MPI side, and waits until all other processes have done so.
///
/// If no process has failed, this MPI instance is reported as failed.
pub fn leave_generation(rt: &Runtime) -> Begin {
    give_up(rt);
    reset(rt);
    await_generation(rt)
}

/// Blocks until this process is a rank of an MPI instance.
fn await_first(rt: &Runtime, spare: &Spare) -> Begin {
    tell_ready();
    loop {
        match hear_with(rt, (spare.idle)()) {
            Some((ToProcess::End, _)) => (spare.leave)(),
            // The previous manager has made this process a rank, and may not have sent the message.
            Some((ToProcess::Again, _)) if lines().page.has_played.load(Ordering::Acquire) != 0 => {
                return await_generation(rt);
            }
            Some((ToProcess::Again, _)) => tell_ready(),
            heard => {
                let Some(begin) = begin_of(heard) else {
                    continue;
                };
                // This MPI instance may have ended, and another one may be required.
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

/// Waits until this process is a rank of the next MPI instance.
fn await_generation(rt: &Runtime) -> Begin {
    let mut told = None;
    loop {
        let wanted = call::wanted();
        if told != Some(wanted) {
            // Stored before the message, which another manager may receive.
            lines()
                .page
                .ready
                .store(wanted.0.wrapping_add(1), Ordering::Release);
            tell_ready();
            told = Some(wanted);
        }
        match hear_with(rt, LOOK) {
            // All workers are at their end, and this process is not needed.
            Some((ToProcess::End, _)) => sys::exit_now(0),
            heard => {
                if let Some(begin) = begin_of(heard).and_then(|it| await_inheritance(rt, it)) {
                    return begin;
                }
            }
        }
    }
}

/// Waits for the replica store that this MPI instance requires.
///
/// Returns `None` if another MPI instance is required meanwhile.
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

/// Duplicates a descriptor for the library; the reset of the MPI side closes it.
fn lend(descriptor: &OwnedFd) -> c_int {
    // SAFETY: fcntl(2), without libc, which would move the copy to the runtime's descriptors.
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

/// Initialises the library in an MPI instance, and returns the thread level.
///
/// Returns `None` if another failure has occurred meanwhile.
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
    // Later initialisations would print the output of the first one once more.
    user::show_library_output(begin.generation == Generation(0));
    let began = Instant::now();
    call::enter(begin.generation);
    let (level, mut provided) = {
        let mut state = rt.renewal.instance.borrow_mut();
        (state.is_first, state.spares) = (begin.is_first, begin.spares);
        state.failed_at = begin.failed_at;
        (state.level, 0)
    };
    // SAFETY: the real library gets no arguments of the program.
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
    // If the server cannot be reached, Open MPI assumes that the process is the only one of its
    // job.
    if rc == SUCCESS && (world.size(), world.rank()) == (Ok(begin.place.0), Ok(begin.place.1)) {
        return Some(provided);
    }
    give_up(rt);
    None
}

/// Initialises the library in the next MPI instance.
///
/// # Errors
/// Another failure has occurred meanwhile.
pub fn begin(rt: &Runtime, begin: Begin) -> mpi::Result<()> {
    enter(rt, begin).map(|_| ()).ok_or(mpi::Error::ABANDONED)
}

/// Reports that this MPI instance has failed, and waits until another one is required.
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

/// Waits until the process manager terminates this process.
///
/// The manager then restarts the whole job; if other processes have already run the program, it
/// restarts this process alone.
pub fn await_restart(rt: &Runtime) -> ! {
    let mut told = None;
    loop {
        // Another manager, which begins another MPI instance, must receive the message as well.
        let generation = call::wanted();
        if told.replace(generation) != Some(generation) {
            tell(&ToManager::Failed { generation });
        }
        hear(rt, LOOK);
    }
}

/// Waits until all workers are at their end.
///
/// Returns an error code if a process fails before.
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

/// Stops using the library; state that cannot be reset remains until the process exits.
///
/// Destructors of its libraries do not run at exit(3): they would join threads that have been
/// terminated, on the program's stack.
pub fn finalise(rt: &Runtime) {
    call::enter(call::wanted());
    if let Err(error) = put_back(rt) {
        log::info!("{}", sys::chain(&error));
    }
    for link_map in library::link_maps() {
        // SAFETY: a record of ld.so's; nothing of the library is called after this.
        unsafe { (told::info().user_hide_destructors)(std::ptr::from_ref(link_map).cast()) };
    }
}
