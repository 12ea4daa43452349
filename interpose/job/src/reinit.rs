//! Reinit of the MPI library after a failure, in a new world.
//!
//! A process gets its identity in MPI from its node manager (`understudy_wire::line`), once for
//! each MPI instance. Between two MPI instances the MPI side of this process is reset to its state
//! before `MPI_Init` ([`understudy_mpi::side`]), so no late message, lock or thread of a failed
//! world remains. All processes of the job have been reset before any of them begins the next MPI
//! instance.
#![allow(unsafe_code)]

mod components;
mod instance_state;
mod library_preload;
mod manager_messages;
mod node_report;

pub use components::expect_driver;
pub(crate) use instance_state::InstanceState;
pub use instance_state::ReplicaStoreFiles;
pub use manager_messages::{
    abort, boards, checkpoint_request, directory, hand_over, is_connected, leave_order, neighbours,
    order_to_leave, passed_signals, report_can_leave, report_captured, report_committed,
    report_no_store, report_owner_file, report_rolled_back, report_running, report_spawn,
    request_checkpoint, request_spares, set_chooser, spare_deaths, take_store,
};
use understudy_catalogue::{exit_status, message};
use understudy_formats::process_segments::remove_segments_of;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Generation, ProcessNumber, Rank};

use crate::errors::SUCCESS;
use crate::generated::real;
use crate::{DOOR, Runtime, fault, process_info, system_calls, user};
use instance_state::POLL_INTERVAL;
use manager_messages::{lines, receive, receive_with_descriptors, send, set_interruptible};
use std::ffi::{CString, c_int};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use understudy_mpi::side::{self, Snapshot};
use understudy_mpi::{call, landings, library};
use understudy_wire::line::{ToManager, ToProcess};

/// Actions of a process that waits for its first MPI instance.
pub struct SpareActions {
    /// Periodic action; returns the time until its next call, if any.
    pub idle: fn() -> Option<Duration>,
    /// Exits this process at the end of a job that has never needed it.
    pub leave: fn() -> !,
}

/// Identity of this process in an MPI instance.
pub struct InstanceIdentity {
    generation: Generation,
    /// Number of ranks.
    size: u32,
    rank: Rank,
    is_first: bool,
    spares: u32,
    /// Time of the failure, as in [`ToProcess::Begin`].
    failed_at: Option<u64>,
    variables: Vec<(String, String)>,
    /// Descriptor for the library, and the variable for its number.
    descriptor: Option<(String, OwnedFd)>,
    /// Failed process whose replica store must arrive before this MPI instance begins.
    store_from: Option<ProcessNumber>,
}

/// Reads the address of the node manager, and registers actions for fault points.
///
/// Must be called at the start.
///
/// # Errors
/// Fails as `manager_messages::read_manager_address` does.
pub fn read_manager_address() -> Result<(), String> {
    manager_messages::read_manager_address()?;
    fault::set_reinit(|| report_failed(DOOR.get()), manager_messages::kill_manager);
    Ok(())
}

/// Initialises the library for the first time, when this process is needed.
///
/// The process is a spare until then, and any MPI instance of the job may be its first one. Earlier
/// calls of the library were local and belong to no MPI instance.
pub fn initialise(rt: &Runtime, level: c_int, provided: &mut c_int, spare: &SpareActions) -> c_int {
    manager_messages::connect_to_guardian();
    if understudy_mpi::abi::foreign_abi().is_some() || components::opens_components() {
        library_preload::open();
    }
    match Snapshot::take() {
        Ok(snapshot) => {
            log::debug!("{} bytes of the MPI library are kept", snapshot.size());
            let mut state = rt.reinit.instance.borrow_mut();
            (state.before_init, state.level) = (Some(snapshot), level);
        }
        Err(error) => {
            system_calls::print_message(format_args!(
                "{}; the job ends",
                system_calls::error_chain(&error)
            ));
            abort(exit_status::INTERNAL);
        }
    }
    let mut begin = await_first(rt, spare);
    loop {
        if let Some(level) = enter(rt, begin) {
            *provided = level;
            return SUCCESS;
        }
        reset(rt);
        begin = await_instance(rt);
    }
}

/// True if the job begins with this MPI instance.
pub fn is_first(rt: &Runtime) -> bool {
    rt.reinit.instance.borrow().is_first
}

/// Returns the number of spares at the beginning of this MPI instance.
pub fn spares(rt: &Runtime) -> u32 {
    rt.reinit.instance.borrow().spares
}

/// Returns the time of the last failure, as the node manager has sent it.
pub fn failed_at(rt: &Runtime) -> Option<u64> {
    rt.reinit.instance.borrow().failed_at
}

/// Resets the MPI side; after an error the process kills itself, and is replaced.
fn reset(rt: &Runtime) {
    if let Err(error) = reset_mpi_side(rt) {
        system_calls::print_message(format_args!(
            "{}; process {} ends, to be replaced",
            system_calls::error_chain(&error),
            std::process::id()
        ));
        system_calls::kill_self();
    }
}

fn reset_mpi_side(rt: &Runtime) -> Result<(), side::ResetError> {
    let state = rt.reinit.instance.borrow();
    let Some(snapshot) = &state.before_init else {
        return Ok(());
    };
    // SAFETY: this is the main thread, and the call that it was in has been abandoned or has
    // returned; handles and requests of the MPI instance are not used any more.
    let times = unsafe { snapshot.restore() }?;
    remove_segments_of(std::process::id());
    log::debug!("the MPI library is reset: {times:?}");
    Ok(())
}

/// Leaves a failed MPI instance; returns the identity in the next one.
///
/// Reports this MPI instance as failed, unless another one is required already. Resets the MPI
/// side, and waits until all other processes have reset their MPI sides.
pub fn leave_instance(rt: &Runtime) -> InstanceIdentity {
    report_failed(rt);
    reset(rt);
    await_instance(rt)
}

/// Blocks until this process is to be a rank of its first MPI instance.
fn await_first(rt: &Runtime, spare: &SpareActions) -> InstanceIdentity {
    report_ready();
    loop {
        match receive_with_descriptors(rt, (spare.idle)()) {
            Some((ToProcess::End, _)) => (spare.leave)(),
            // The previous manager has selected this process as a rank, and may not have sent
            // `Begin`.
            Some((ToProcess::ManagerReplaced, _))
                if lines().page.has_taken_part.load(Ordering::Acquire) != 0 =>
            {
                return await_instance(rt);
            }
            Some((ToProcess::ManagerReplaced, _)) => report_ready(),
            received => {
                let Some(begin) = identity_from(received) else {
                    continue;
                };
                // This MPI instance may have ended meanwhile, so that another one is required.
                return await_replica_store(rt, begin).unwrap_or_else(|| await_instance(rt));
            }
        }
    }
}

fn report_ready() {
    manager_messages::repeat_owner_file();
    if manager_messages::can_choose() {
        send(&ToManager::CanGivePlacementHints);
    }
    send(&ToManager::Ready {
        generation: call::required_instance(),
    });
}

fn identity_from(received: Option<(ToProcess, Vec<OwnedFd>)>) -> Option<InstanceIdentity> {
    let (message, mut descriptors) = received?;
    let ToProcess::Begin {
        generation,
        rank,
        size,
        is_first,
        spares,
        failed_at,
        variables,
        descriptor,
        adopts_from,
    } = message
    else {
        return None;
    };
    Some(InstanceIdentity {
        generation,
        size,
        rank,
        is_first,
        spares,
        failed_at,
        variables,
        descriptor: descriptor.zip(descriptors.pop()),
        store_from: adopts_from,
    })
}

/// Blocks until this process is to be a rank of the next MPI instance.
fn await_instance(rt: &Runtime) -> InstanceIdentity {
    let mut reported = None;
    loop {
        let wanted = call::required_instance();
        if reported != Some(wanted) {
            // Stored before the message is sent: if the manager fails, the next manager reads from
            // the page what the message reports.
            lines()
                .page
                .ready
                .store(wanted.0.wrapping_add(1), Ordering::Release);
            report_ready();
            reported = Some(wanted);
        }
        match receive_with_descriptors(rt, POLL_INTERVAL) {
            // All workers are at their end, and this process is not needed.
            Some((ToProcess::End, _)) => system_calls::exit_now(0),
            received => {
                if let Some(begin) =
                    identity_from(received).and_then(|it| await_replica_store(rt, it))
                {
                    return begin;
                }
            }
        }
    }
}

/// Waits for the replica store that this MPI instance requires.
///
/// Returns `None` if another MPI instance is required meanwhile.
fn await_replica_store(rt: &Runtime, begin: InstanceIdentity) -> Option<InstanceIdentity> {
    while begin.generation == call::required_instance() {
        if begin
            .store_from
            .is_none_or(|it| manager_messages::has_store_from(rt, it))
        {
            return Some(begin);
        }
        if receive(rt, POLL_INTERVAL) == Some(ToProcess::End) {
            system_calls::exit_now(0);
        }
    }
    None
}

/// Duplicates a descriptor for the library; the reset of the MPI side closes the duplicate.
fn duplicate_for_library(descriptor: &OwnedFd) -> c_int {
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
/// Returns `None` after a failed initialisation; another MPI instance is then required.
fn enter(rt: &Runtime, begin: InstanceIdentity) -> Option<c_int> {
    let library_variables = begin
        .descriptor
        .map(|(name, descriptor)| (name, duplicate_for_library(&descriptor).to_string()));
    for (name, value) in begin.variables.iter().chain(&library_variables) {
        if let (Ok(name), Ok(value)) = (CString::new(name.as_str()), CString::new(value.as_str())) {
            // SAFETY: the library has no threads before it is initialised.
            unsafe { library::set_variable(&name, Some(&value)) };
        }
    }
    // Later initialisations would print the output of the first one once more.
    user::show_library_output(begin.generation == Generation(0));
    let began = Instant::now();
    landings::begin_instance();
    call::enter_instance(begin.generation);
    let (level, mut provided) = {
        let mut state = rt.reinit.instance.borrow_mut();
        (state.is_first, state.spares) = (begin.is_first, begin.spares);
        state.failed_at = begin.failed_at;
        (state.level, 0)
    };
    // SAFETY: MPI permits null for the program's arguments (MPI 4.1, 11.2.1), and `provided` is a
    // local variable.
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
    // If the PMIx server cannot be reached, Open MPI assumes that the process is the only one of
    // its job, and succeeds. The size and the rank are therefore compared.
    if rc == SUCCESS && (world.size(), world.rank()) == (Ok(begin.size), Ok(begin.rank)) {
        return Some(provided);
    }
    if rc == SUCCESS && begin.generation == Generation(0) {
        let library = library::version().0.lines().next().unwrap_or_default();
        let found = world.size().unwrap_or_default();
        system_calls::print_message(message::mpi_world_differs(library, found, begin.size));
        // Libraries of foreign ABIs use PMI-1, which takes size and rank from the environment. If
        // the manager fails during this call, its closed socket is an error of PMI_Init and of all
        // later calls (MPICH 5.0.2 with both ABIs; Intel MPI 2021.18 crashes). A success therefore
        // means that the library uses another process manager, so every start would have this
        // result.
        if understudy_mpi::abi::foreign_abi().is_some() {
            abort(exit_status::REFUSED);
        }
    }
    report_failed(rt);
    None
}

/// Initialises the library in the next MPI instance.
///
/// # Errors
/// Fails if the initialisation fails; another MPI instance is then required.
pub fn begin(rt: &Runtime, begin: InstanceIdentity) -> mpi::Result<()> {
    enter(rt, begin).map(|_| ()).ok_or(mpi::Error::ABANDONED)
}

/// Reports that this MPI instance has failed, and waits until another one is required.
///
/// Returns at once if another MPI instance is already required. Exits if the job has ended.
pub fn report_failed(rt: &Runtime) {
    if call::is_over() {
        return;
    }
    send(&ToManager::Failed {
        generation: call::own_instance(),
    });
    while !call::is_over() {
        if let Some(ToProcess::End) = receive(rt, POLL_INTERVAL) {
            system_calls::exit_now(0);
        }
    }
}

/// Waits until the node manager terminates this process.
///
/// The manager then restarts the whole job if no other process has continued after `MPI_Init`;
/// otherwise the manager replaces this process alone.
pub fn await_restart(rt: &Runtime) -> ! {
    let mut reported = None;
    loop {
        // If the manager is replaced, the next manager, which begins another MPI instance, must
        // receive the message as well.
        let generation = call::required_instance();
        if reported.replace(generation) != Some(generation) {
            send(&ToManager::Failed { generation });
        }
        receive(rt, POLL_INTERVAL);
    }
}

/// Waits until all workers are at their end.
///
/// Returns an error code if a process fails before all workers are at their end.
pub fn await_end_of_all(rt: &Runtime) -> c_int {
    set_interruptible(false);
    send(&ToManager::AtEnd {
        generation: call::own_instance(),
    });
    loop {
        if call::is_over() {
            return call::ABANDONED;
        }
        if let Some(ToProcess::End) = receive(rt, POLL_INTERVAL) {
            return SUCCESS;
        }
    }
}

/// Stops using the library; state that cannot be reset remains until the process exits.
///
/// Destructors of the library do not run at exit(3): they would run on the program's stack, and
/// join threads that have been terminated.
pub fn finalise(rt: &Runtime) {
    call::enter_instance(call::required_instance());
    if let Err(error) = reset_mpi_side(rt) {
        log::info!("{}", system_calls::error_chain(&error));
    }
    for link_map in library::link_maps() {
        // SAFETY: `link_map` is a record of ld.so's, and the library is not called any more.
        unsafe {
            (process_info::info().program_hide_destructors)(std::ptr::from_ref(link_map).cast())
        };
    }
}
