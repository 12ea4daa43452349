//! Start and end of the job in this process: MPI_Init, MPI_Finalize, exit(3) and _exit(2).
#![allow(unsafe_code)]

use crate::Runtime;
use crate::arch::Rewound;
use crate::domains::{self, ProcessLocations};
use crate::errors::SUCCESS;
use crate::gather::gather_from_all;
use crate::handles::{self, VirtComm, real_comm};
use crate::objects::session::{self, WorldModel};
use crate::world::{self, Role, World, get, is_first_worker, is_protected, worker, workers_of};
use crate::{
    abort, arch, checkpoint, copies, cut, disk, events, fault, network, objects, process_info,
    protection, recovery, reinit, rendezvous, requests, spare, static_data, system_calls, user,
};
use std::ffi::c_int;
use std::time::Duration;
use understudy_catalogue::exit_status;
use understudy_catalogue::message;
use understudy_formats::events::{COPIES, COPIES_IN_OWN_DOMAIN, EndReason, Kind, NETWORK};
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{ProcessNumber, Rank, Worker};
use understudy_policy::redundancy::Redundancy;
use understudy_settings::{Config, Scheme};

/// Message for a failed collective at the end of the job.
const NO_END: &str = "the workers do not reach their end";
/// Time between two votes on the end of a job that a fault delays.
const VOTE_INTERVAL: Duration = Duration::from_millis(1);

/// Sets up the state of the job after the real MPI_Init.
///
/// A process that starts in a running job replaces a failed one: it joins the recovery, and the
/// program's frame is replaced by that of the cut.
pub fn init(rt: &Runtime) -> Result<(), Rewound> {
    user::begin_recording(rt);
    if !reinit::is_first(rt) {
        user::set_idle(false);
        enter(rt, recovery::join(rt));
        static_data::prepare(rt);
        return Err(recovery::recover_as_replacement(rt));
    }
    let config = process_info::config();
    let all = RealComm::world();
    all.return_errors();
    let size_and_rank = all.size().and_then(|size| Ok((size, all.rank()?)));
    let (worker_count, Rank(worker)) =
        size_and_rank.unwrap_or_else(|error| abort::await_restart_after_init(rt, error));
    let worker = Worker(worker);
    let mismatch = user::compare_layout(rt, all)
        .unwrap_or_else(|error| abort::await_restart_after_init(rt, error));
    let locations = domains::gather_locations(all)
        .unwrap_or_else(|error| abort::await_restart_after_init(rt, error));
    let processes = gather_from_all(all, &process_info::process())
        .unwrap_or_else(|error| abort::await_restart_after_init(rt, error));
    let mut nodes = Vec::new();
    recovery::record_places(&mut nodes, processes.iter().copied().zip(locations.all()));
    let layers = config
        .buddy_offset
        .unwrap_or_else(|| locations.most_per_node());
    let too_few_workers = config.check_workers(worker_count).err();
    let scheme = match too_few_workers {
        // A single worker has no buddy.
        None if worker_count == 1 => Scheme::Copies(0),
        Some(_) => Scheme::Copies(1.min(worker_count - 1)),
        None => {
            let on_one_node = locations.are_on_one_node(worker_count);
            config.effective_scheme(on_one_node && can_all_stores_persist(rt, all))
        }
    };
    let mismatch = mismatch
        .or_else(|| no_domain(&locations))
        .or(too_few_workers);
    let redundancy = Redundancy::place(&locations.domains(worker_count), layers, scheme);
    let made = workers_of(all, worker);
    let [workers, private] =
        made.unwrap_or_else(|error| abort::await_restart_after_init(rt, error));
    let own = real_comm(
        rt,
        VirtComm(handles::predefined_handle(rt, "ompi_mpi_comm_self")),
    );
    let own = own
        .duplicate()
        .unwrap_or_else(|error| abort::await_restart_after_init(rt, error));
    spare::record_start();
    enter(
        rt,
        World {
            workers,
            private,
            own,
            role: Role::Worker(worker),
            process: process_info::process(),
            worker_count,
            redundancy,
            nodes,
            protected: mismatch.is_none(),
            finalized: false,
            recoveries: 0,
            process_of: processes,
        },
    );
    let in_own_domain = report_replicas_in_own_domain(rt, &locations);
    emit_config(scheme, &in_own_domain, report_network(rt, &locations));
    if let Some(why) = mismatch {
        protection::refuse(rt, &why);
    }
    let is_restart = open_disk(rt);
    if !is_restart && is_protected() {
        begin_output(rt, worker);
    }
    objects::comm::init(rt, workers, worker_count, worker)
        .unwrap_or_else(|error| abort::await_restart_after_init(rt, error));
    rendezvous::republish_board(rt, worker)
        .unwrap_or_else(|error| abort::await_restart_after_init(rt, error));
    requests::init(rt, worker_count);
    match is_restart {
        true => Err(recovery::restart_from_disk(rt)),
        false => Ok(()),
    }
}

/// True if the page store of every worker can outlive its process.
///
/// Collective over all workers.
fn can_all_stores_persist(rt: &Runtime, all: RealComm) -> bool {
    let own = [u64::from(copies::can_store_persist())];
    let least = all.allreduce_min_max(Extreme::Least, &own);
    least.unwrap_or_else(|error| abort::await_restart_after_init(rt, error)) == [1]
}

/// Stores the state of the job, and registers functions that need this state.
fn enter(rt: &Runtime, world: World) {
    world::enter(rt, world);
    fault::set_damage(|victim| checkpoint::damage(crate::DOOR.get(), victim));
    abort::abort_unless(rt, user::undo_start(rt));
    recovery::register_for_placement_requests();
    register_exit_hooks();
}

/// Opens the disk level; returns true if the job resumes from a checkpoint on disk.
fn open_disk(rt: &Runtime) -> bool {
    let world = get(rt);
    if !world.protected {
        return false;
    }
    let opened = disk::open(
        rt,
        world.private,
        worker(rt),
        world.worker_count,
        &mut copies::replicas(rt).store,
    );
    match opened {
        Ok(Ok(is_restart)) => is_restart,
        Ok(Err(why)) => {
            if is_first_worker(rt) {
                system_calls::print_message(format_args!("{why}; the job stops"));
            }
            recovery::end_together(rt, is_first_worker(rt), exit_status::REFUSED)
        }
        Err(error) => abort::await_restart_after_init(rt, error),
    }
}

/// Gives the worker's output its name, if `understudy run` collects the output of all workers.
fn begin_output(rt: &Runtime, worker: Worker) {
    if let Err(error) = user::begin_output(worker) {
        abort::abort_with_error(rt, message::WORKER_OUTPUT_NOT_BEGUN, &error);
    }
}

/// Returns the reason why replicas cannot be placed: a process without a failure domain.
fn no_domain(locations: &ProcessLocations) -> Option<String> {
    let rank = locations.without_domain()?;
    let file = process_info::config().domains.clone().unwrap_or_default();
    Some(message::domain_file_unreadable(rank, file.display()).to_string())
}

/// Returns the number of workers that are lost if their failure domain fails, as `N of W`.
///
/// Process 0 reports the number to the user if the job has several nodes; otherwise the number is
/// only logged.
fn report_replicas_in_own_domain(rt: &Runtime, locations: &ProcessLocations) -> String {
    let world = get(rt);
    let (in_own_domain, workers) = (
        world
            .redundancy
            .lost_with_domain(&locations.domains(world.worker_count))
            .len(),
        world.worker_count,
    );
    if in_own_domain > 0 && world.protected && world.process == ProcessNumber(0) {
        let warning = match world.redundancy.is_parity() {
            true => message::parity_in_own_domain(in_own_domain, workers).to_string(),
            false => message::replicas_in_own_domain(in_own_domain, workers).to_string(),
        };
        match locations.has_several_nodes() {
            true => system_calls::print_message(warning),
            false => log::info!("{warning}"),
        }
    }
    format!("{in_own_domain} of {workers}")
}

/// Returns the network, and prints a message if another one is not used.
///
/// Ranks of one node exchange messages through its memory, so `None` is returned for such a job.
fn report_network(rt: &Runtime, locations: &ProcessLocations) -> Option<String> {
    let is_first = get(rt).process == ProcessNumber(0);
    let print = |message: &dyn std::fmt::Display| {
        if is_first {
            system_calls::print_message(message);
        }
    };
    let has_network = locations.has_several_nodes();
    has_network.then(|| network::network(process_info::config().fabric, print))
}

/// Writes the settings, and what follows from them, to the event file.
fn emit_config(scheme: Scheme, copies_in_own_domain: &str, network: Option<String>) {
    let mut settings = Config::listing(|name| std::env::var(name).ok());
    settings.push((COPIES.into(), scheme.to_string()));
    settings.push((COPIES_IN_OWN_DOMAIN.into(), copies_in_own_domain.to_owned()));
    settings.extend(network.map(|network| (NETWORK.into(), network)));
    events::emit(Kind::Config { settings });
}

/// Returns true if several threads may call MPI simultaneously.
///
/// At the start of a job the result is true in all processes if `wanted` is true in any process. In
/// a process that joins later the result is `wanted`.
pub fn agree_on_threads(rt: &Runtime, wanted: bool) -> bool {
    if !reinit::is_first(rt) {
        return wanted;
    }
    let all = RealComm::world().allreduce_min_max(Extreme::Greatest, &[u64::from(wanted)]);
    all.unwrap_or_else(|error| abort::await_restart_after_init(rt, error)) != [0]
}

/// Takes the first checkpoint, at the end of MPI_Init, if the job is protected.
///
/// Any later failure is then recovered from.
pub fn first_checkpoint(rt: &Runtime) -> Result<(), Rewound> {
    if !is_protected() {
        // After this report a failure ends the unprotected job, and does not start all processes
        // again: the work up to now cannot be repeated.
        reinit::report_running();
        return Ok(());
    }
    cut::take(rt)?;
    checkpoint::finish(rt)?;
    reinit::report_running();
    fault::point("init.end", copies::committed_epoch(rt));
    Ok(())
}

/// Handles exit(3) of a worker; does nothing if MPI has been finalised.
unsafe extern "C" fn on_exit(status: c_int) {
    if !world::is_worker() {
        return;
    }
    user::report_exit(status);
    let Some(rt) = crate::DOOR.try_get() else {
        return;
    };
    cut::leave_at_end(rt);
    world::update(rt, |world| world.finalized = true);
    if status != 0 {
        system_calls::print_message(message::worker_ends_without_finalize(worker(rt), status));
    }
    fault::report();
    events::emit(Kind::End {
        how: EndReason::Exited(status),
    });
    user::release_output(rt);
}

/// Handles _exit(2) of a worker; does nothing if MPI has been finalised.
///
/// A signal handler of the program may call _exit(2) at any point.
unsafe extern "C" fn on_immediate_exit(status: c_int) {
    if world::is_worker() {
        user::report_exit(status);
    }
}

/// Registers the functions for the end of the program.
fn register_exit_hooks() {
    let hook: unsafe extern "C" fn(c_int) = on_exit;
    let at_once: unsafe extern "C" fn(c_int) = on_immediate_exit;
    let calls: unsafe extern "C" fn() -> bool = ends_with_the_program;
    // SAFETY: the called function registers the hooks, on the program's stack.
    unsafe {
        arch::call_user(
            process_info::info().call_at_exit as *const std::ffi::c_void,
            hook as usize as u64,
            at_once as usize as u64,
            calls as usize as u64,
            0,
            0,
        )
    };
}

/// True if exit(3) must finalise MPI, which the program has left initialised because of sessions.
///
/// MPI stays initialised after `MPI_Finalize` if sessions can still be used, and after the end of
/// the last session if the program has never called `MPI_Init`.
///
/// Can be called in any thread.
unsafe extern "C" fn ends_with_the_program() -> bool {
    let is_over = match session::world_model() {
        WorldModel::NotYet => !session::has_sessions(),
        WorldModel::Open => false,
        WorldModel::Over => true,
    };
    is_over && world::is_worker()
}

/// Finalises MPI at exit(3), if the program has left MPI initialised because of sessions.
pub fn end_of_sessions(rt: &Runtime) -> Result<(), Rewound> {
    // SAFETY: the function only reads atomics and flags.
    if unsafe { ends_with_the_program() } && arch::top_frame().is_some() {
        finalize(rt)?;
    }
    Ok(())
}

/// Waits until no fault delays the end of any worker.
///
/// Checkpoints are taken meanwhile, as if the program called collectives over all workers.
pub fn await_permission_to_end(rt: &Runtime) -> Result<(), Rewound> {
    while let Some(may_end) = fault::may_end() {
        cut::point(rt)?;
        let least = world::private(rt).allreduce_min_max(Extreme::Least, &[u64::from(may_end)]);
        if recovery::check_own(rt, least, NO_END)? == [1] {
            break;
        }
        std::thread::sleep(VOTE_INTERVAL);
    }
    Ok(())
}

/// Implements MPI_Finalize, in which all workers wait for each other.
///
/// The delete functions of MPI_COMM_SELF's attributes run first, and may still use MPI (MPI 4.1,
/// 11.2.4).
pub fn finalize(rt: &Runtime) -> Result<c_int, Rewound> {
    fault::point("finalize.begin", copies::committed_epoch(rt));
    objects::attribute::delete_comm(rt, objects::comm::self_handle(rt));
    // Other workers may wait for messages that this process has sent. The library forwards such
    // messages only while it is called, so this process stays in the library until all workers have
    // arrived.
    let barrier = || world::private(rt).sleeping_barrier();
    if is_protected() {
        checkpoint::finish(rt)?;
        cut::finish(rt)?;
        disk::stop_writing(rt, &mut copies::replicas(rt).store);
        recovery::end_if_directory_is_lost(rt, true);
        // After a further failure, either all workers complete the end, or all workers recover.
        recovery::check_own(rt, barrier(), NO_END)?;
        recovery::check(rt, reinit::await_end_of_all(rt))?;
    } else if barrier().is_err() || reinit::await_end_of_all(rt) != SUCCESS {
        abort::abort_unprotected(rt);
    }
    fault::point("finalize.agreed", copies::committed_epoch(rt));
    world::update(rt, |world| world.finalized = true);
    disk::remove_job_files(rt);
    fault::point("finalize.end", copies::committed_epoch(rt));
    fault::report();
    events::emit(Kind::End {
        how: EndReason::Finalized,
    });
    user::release_output(rt);
    user::remove_closed_ledgers(rt);
    reinit::finalise(rt);
    // Info objects may be used before MPI_Init and after the end (MPI 4.1, 11.4.1). The reset
    // library has only the info objects from before MPI_Init, in their earlier state.
    objects::info::rebuild(rt);
    Ok(SUCCESS)
}
