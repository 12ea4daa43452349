//! The job as the program sees it, from MPI_Init to its end.
#![allow(unsafe_code)]

use crate::arch::Rewound;
use crate::domains::{self, Places};
use crate::errors::{SUCCESS, returns_errors};
use crate::handles::{self, VirtComm, real_comm};
use crate::redundancy::Redundancy;
use crate::world::{self, NULL, Part, World, duplicate, get, is_protected, size_and_rank, split, worker};
use crate::{
    arch, cell, checkpoint, cut, disk, events, fault, journal, objects, peers, protection, recovery, renewal, requests,
    sys, told, traffic, user,
};
use ckptd::events::{EndHow, Kind, Role, Spare, Worker, WorldRank};
use ckptd::settings::{Config, Scheme};
use std::ffi::c_int;
use understudy_abi::exit;

/// Sets the world up after the real MPI_Init. A worker returns; a spare sleeps here until it is given a part, and then
/// the program's frame has been replaced.
pub fn init() -> Result<(), Rewound> {
    user::begin();
    if told::launcher_rank() >= told::launcher_size() {
        enter(recovery::come_in());
        return recovery::take_part_at_once();
    }
    let config = told::config();
    let world = world::of_library();
    returns_errors(world);
    let (size, rank) = size_and_rank(world);
    let worker_count = size - config.spares;
    let part = if rank < worker_count {
        Part::Worker(rank)
    } else {
        Part::Spare
    };
    let mismatch = user::compare_layout(world);
    let places = domains::meet(world);
    peers::meet(places.all(), rank as usize);
    let wish = config.buddy_offset.unwrap_or_else(|| places.most_per_node());
    // What a single worker leaves, its process manager keeps.
    let is_single = worker_count == 1;
    let too_few = config.check_workers(worker_count).err();
    let scheme = match too_few {
        None if is_single => Scheme::Copies(0),
        Some(_) => Scheme::Copies(1.min(worker_count - 1)),
        None => config.scheme,
    };
    let mismatch = mismatch
        .or_else(|| no_domain(&places))
        .or(too_few)
        .filter(|_| !config.trace);
    let redundancy = Redundancy::place(&places.domains(worker_count), wish, scheme);
    let made = duplicate(world).and_then(|control| {
        let workers = split(control, matches!(part, Part::Worker(_)).then_some(rank))?;
        Ok((control, workers))
    });
    let (control, workers) = made.unwrap_or_else(|rc| recovery::failed_in_init(rc));
    let own = real_comm(VirtComm(handles::predefined_handle("ompi_mpi_comm_self")));
    let own = duplicate(own).unwrap_or_else(|rc| recovery::failed_in_init(rc));
    enter(World {
        control,
        workers: workers.unwrap_or(NULL),
        private: NULL,
        own,
        part,
        launcher_rank: rank,
        worker_count,
        spare_count: config.spares,
        redundancy,
        nodes: places.all().iter().map(|place| place.node).collect(),
        protected: mismatch.is_none() && !config.trace,
        finalized: false,
        recoveries: 0,
        players: (0..worker_count).collect(),
        living: (0..size).collect(),
    });
    emit_config(&tell_copies_at_home(&places));
    if let Some(why) = mismatch {
        protection::refuse(&why);
    }
    let is_restart = open_disk();
    match part {
        Part::Worker(worker) => {
            init_worker(worker)?;
            if is_restart {
                Err(recovery::restart_from_disk())
            } else {
                Ok(())
            }
        }
        Part::Spare => recovery::wait_for_part(),
    }
}

/// From here on this process knows its job.
fn enter(world: World) {
    world::enter(world);
    recovery::undone(user::undo_start());
    emit_start();
    listen_for_exit();
}

/// Opens the disk level. Whether the job goes on from an epoch on disk.
fn open_disk() -> bool {
    let world = get();
    if !world.protected {
        return false;
    }
    let part = match world.part {
        Part::Worker(worker) => Some(worker),
        Part::Spare => None,
    };
    let opened = disk::open(world.control, part, world.worker_count, &mut checkpoint::keep().store);
    match opened {
        Ok(Ok(is_restart)) => is_restart,
        Ok(Err(why)) => {
            if world.launcher_rank == 0 {
                sys::say(format_args!("{why}; the job stops"));
            }
            recovery::end_together(world.control, exit::REFUSED)
        }
        Err(rc) => recovery::failed_in_init(rc),
    }
}

/// Why copies cannot be placed.
fn no_domain(places: &Places) -> Option<String> {
    let rank = places.without_domain()?;
    let file = told::config().domains.clone().unwrap_or_default();
    Some(format!(
        "UNDERSTUDY_DOMAIN: rank {rank} cannot use {}; it must be readable on every node, with lines `host domain`",
        file.display()
    ))
}

/// Workers that would be lost with their domain, as `N of W`; with several nodes the user is told.
fn tell_copies_at_home(places: &Places) -> String {
    let world = get();
    let (at_home, workers) = (
        world.redundancy.together(&places.domains(world.worker_count)).len(),
        world.worker_count,
    );
    if at_home > 0 && world.protected && world.launcher_rank == 0 {
        let what = match world.redundancy.is_parity() {
            true => format!(
                "{at_home} of {workers} workers share their domain with another one of their parity group, since there are fewer domains of their size than workers in a group; they are lost if all of it fails"
            ),
            false => format!(
                "{at_home} of {workers} copies are in the domain of their own worker, since more than half of the workers are there; they are lost if all of it fails"
            ),
        };
        if places.are_several_nodes() {
            sys::say(format_args!(
                "{what}; spread the ranks more evenly (see UNDERSTUDY_DOMAIN)"
            ));
        } else {
            log::info!("{what}");
        }
    }
    format!("{at_home} of {workers}")
}

fn emit_start() {
    let world = get();
    let role = match world.part {
        Part::Worker(worker) => Role::Worker(Worker(worker)),
        Part::Spare => Role::Spare(Spare(world.launcher_rank - world.worker_count)),
    };
    events::emit(Kind::Start {
        pid: std::process::id(),
        world_rank: WorldRank(world.launcher_rank),
        role,
        workers: world.worker_count,
        spares: world.spare_count,
        host: user::host_name(),
        program: user::program_name(),
        command: user::command_line(),
        version: env!("CARGO_PKG_VERSION").into(),
        job: told::job(),
    });
}

fn emit_config(copies_at_home: &str) {
    let mut settings = Config::listing(|name| std::env::var(name).ok());
    settings.push(("copies in their own domain".into(), copies_at_home.to_owned()));
    events::emit(Kind::Config { settings });
}

fn init_worker(worker: u32) -> Result<(), Rewound> {
    let private = duplicate(get().workers).unwrap_or_else(|rc| recovery::failed_in_init(rc));
    world::update(|world| world.private = private);
    let world = get();
    objects::comm::init(world.workers, world.worker_count, worker).unwrap_or_else(|rc| recovery::failed_in_init(rc));
    requests::init(world.worker_count);
    traffic::init(world.worker_count);
    Ok(())
}

/// The first checkpoint, at the end of MPI_Init: from here on any failure is recovered from.
pub fn first_checkpoint() -> Result<(), Rewound> {
    if !is_protected() {
        // A death from here on is the end of the job: what has been done so far cannot be done twice.
        renewal::is_running();
        return Ok(());
    }
    cut::take()?;
    checkpoint::finish()?;
    renewal::is_running();
    fault::point("init.end", checkpoint::epoch());
    Ok(())
}

/// The program ends by exit(3). If it has not called MPI_Finalize, the others will find it dead; that it is not, and that
/// nobody needs to take its part, can only be told to the spares.
unsafe extern "C" fn leaving(status: c_int) {
    if !world::is_playing() {
        return;
    }
    user::leave(status);
    if !cell::is_owner() {
        return;
    }
    world::update(|world| world.finalized = true);
    if status != 0 {
        sys::say(format_args!(
            "worker {} ends with status {status}, without MPI_Finalize",
            worker()
        ));
    }
    fault::report();
    traffic::tell();
    events::emit(Kind::End {
        how: EndHow::Exited(status),
    });
    user::release_output();
}

/// The program ends by _exit(2), maybe in a signal handler and in the middle of anything.
unsafe extern "C" fn leaving_at_once(status: c_int) {
    if world::is_playing() {
        user::leave(status);
    }
}

/// Lets the runtime know when the program ends.
fn listen_for_exit() {
    let hook: unsafe extern "C" fn(c_int) = leaving;
    let at_once: unsafe extern "C" fn(c_int) = leaving_at_once;
    // SAFETY: registers on the program's stack.
    unsafe {
        arch::call_user(
            told::info().call_at_exit as *const std::ffi::c_void,
            hook as usize as u64,
            at_once as usize as u64,
            0,
            0,
            0,
        )
    };
}

/// The end (MPI_Finalize): all workers meet.
pub fn finalize() -> Result<c_int, Rewound> {
    fault::point("finalize.begin", checkpoint::epoch());
    if is_protected() {
        checkpoint::finish()?;
        cut::finish()?;
        disk::stop_writing(&mut checkpoint::keep().store);
        // If somebody dies meanwhile, either all go on to the end or all recover.
        recovery::check(renewal::meet_at_the_end())?;
    } else if renewal::meet_at_the_end() != SUCCESS {
        recovery::end_unprotected();
    }
    fault::point("finalize.agreed", checkpoint::epoch());
    journal::trace::report();
    world::update(|world| world.finalized = true);
    objects::attribute::delete_comm(objects::comm::self_handle());
    disk::end(true);
    fault::point("finalize.end", checkpoint::epoch());
    fault::report();
    traffic::tell();
    events::emit(Kind::End { how: EndHow::Finalized });
    user::release_output();
    user::remove_closed_ledgers(0..get().nodes.len() as u32);
    renewal::finalise();
    Ok(SUCCESS)
}
