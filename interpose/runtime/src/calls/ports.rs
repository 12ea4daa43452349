//! Ports and published names (MPI 4.1, 11.8).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::{outcome, put_text};
use crate::Runtime;
use crate::calls::runtime;
use crate::error_handling::handle_error;
use crate::errors::*;
use crate::generated::Proc;
use crate::handles::VirtInfo;
use crate::objects::dynamic::{self, PublicBoard};
use crate::{cut, process_info, rendezvous, world};
use std::ffi::{CStr, c_char, c_int};
use std::io;
use understudy_catalogue::message;
use understudy_mpi::call;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

/// Prefix of the names of ports.
const PREFIX: &str = "understudy:";

pub(super) type Outcome<T> = Result<T, c_int>;

fn unreadable(why: &io::Error) -> c_int {
    log::error!("{}", message::ports_unreadable(why));
    ERR_INTERN
}

/// Returns boards; an error if they cannot be read or a process has failed.
pub(super) fn boards_or_failure<T>(boards: io::Result<Option<T>>) -> Outcome<T> {
    boards
        .map_err(|why| unreadable(&why))?
        .ok_or(call::ABANDONED)
}

/// Returns the owner of a port, and its number.
pub(super) fn port_of(name: *const c_char) -> Option<(Worker, u64)> {
    if name.is_null() {
        return None;
    }
    // SAFETY: MPI requires the program to pass a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_str().ok()?;
    let (worker, number) = name.strip_prefix(PREFIX)?.split_once(':')?;
    Some((
        Worker(worker.parse().ok()?),
        u64::from_str_radix(number, 16).ok()?,
    ))
}

/// Changes the board; reverts the change if the board cannot be published.
pub(super) fn change_board(rt: &Runtime, change: impl FnOnce(&mut PublicBoard)) -> Outcome<()> {
    let before = dynamic::get(rt).board.clone();
    change(&mut dynamic::get_mut(rt).board);
    rendezvous::publish_board(rt, world::worker(rt)).map_err(|why| {
        dynamic::get_mut(rt).board = before;
        unreadable(&why)
    })
}

fn finish(rt: &Runtime, procedure: Proc, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => SUCCESS,
        Err(rc) => handle_error(rt, procedure, rc, None),
    }
}

pub unsafe extern "C" fn MPI_Open_port(_info: VirtInfo, port_name: *mut c_char) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Open_port;
    if port_name.is_null() {
        return finish(rt, procedure, Err(ERR_ARG));
    }
    // A part of the number identifies the job, so ports of another job have other numbers.
    let number = dynamic::get_mut(rt).next_port(xxh3_64(process_info::job().as_bytes()));
    let opened = change_board(rt, |board| {
        board.ports.insert(number);
    });
    if opened.is_ok() {
        let name = format!("{PREFIX}{}:{number:x}", world::worker(rt).0);
        // SAFETY: MPI requires room for MPI_MAX_PORT_NAME characters; the name is shorter.
        unsafe { put_text(port_name, name.as_bytes()) };
    }
    finish(rt, procedure, opened)
}

pub unsafe extern "C" fn MPI_Close_port(port_name: *const c_char) -> c_int {
    let rt = runtime();
    let me = world::worker(rt);
    let closed = match port_of(port_name) {
        Some((owner, number)) if owner == me && dynamic::get_mut(rt).close(number) => {
            change_board(rt, |_| {})
        }
        _ => Err(ERR_PORT),
    };
    finish(rt, Proc::MPI_Close_port, closed)
}

/// Returns a name that the program passes: of a service, or of a port.
fn name_bytes(name: *const c_char) -> Outcome<Vec<u8>> {
    if name.is_null() {
        return Err(ERR_ARG);
    }
    // SAFETY: MPI requires the program to pass a C string.
    Ok(unsafe { CStr::from_ptr(name) }.to_bytes().to_vec())
}

/// Returns the port of a service that a worker of the job has published.
fn find(rt: &Runtime, service: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let boards = boards_or_failure(rendezvous::boards_of(
        rt,
        Worker::all(world::get(rt).worker_count),
    ))?;
    Ok(boards
        .into_iter()
        .find_map(|(_, mut board)| board.names.remove(service)))
}

pub unsafe extern "C" fn MPI_Publish_name(
    service_name: *const c_char,
    _info: VirtInfo,
    port_name: *const c_char,
) -> c_int {
    let rt = runtime();
    let published = name_bytes(service_name).and_then(|name| {
        let port = name_bytes(port_name)?;
        match find(rt, &name)? {
            Some(_) => Err(ERR_SERVICE),
            None => change_board(rt, |board| {
                board.names.insert(name, port);
            }),
        }
    });
    finish(rt, Proc::MPI_Publish_name, published)
}

pub unsafe extern "C" fn MPI_Unpublish_name(
    service_name: *const c_char,
    _info: VirtInfo,
    _port_name: *const c_char,
) -> c_int {
    let rt = runtime();
    let unpublished = name_bytes(service_name).and_then(|name| {
        if !dynamic::get(rt).board.names.contains_key(&name) {
            return Err(ERR_SERVICE);
        }
        change_board(rt, |board| {
            board.names.remove(&name);
        })
    });
    finish(rt, Proc::MPI_Unpublish_name, unpublished)
}

pub unsafe extern "C" fn MPI_Lookup_name(
    service_name: *const c_char,
    _info: VirtInfo,
    port_name: *mut c_char,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let found = name_bytes(service_name).and_then(|name| {
        if port_name.is_null() {
            return Err(ERR_ARG);
        }
        let port = find(rt, &name)?.ok_or(ERR_NAME)?;
        // SAFETY: MPI requires room for a port's name, which the published name is.
        unsafe { put_text(port_name, &port) };
        Ok(())
    });
    finish(rt, Proc::MPI_Lookup_name, found)
}
