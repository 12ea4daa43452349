//! Ports and published names (MPI 4.1, 11.8).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::{outcome, put_text};
use crate::Runtime;
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::Proc;
use crate::handles::VirtInfo;
use crate::objects::dynamic::{self, Board};
use crate::raise::raise;
use crate::{cut, rendezvous, told, world};
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

/// Returns the boards of other workers, or the code for a failed process.
pub(super) fn seen<T>(looked: io::Result<Option<T>>) -> Outcome<T> {
    looked
        .map_err(|why| unreadable(&why))?
        .ok_or(call::ABANDONED)
}

/// Returns the owner of a port, and its number.
pub(super) fn port_of(name: *const c_char) -> Option<(Worker, u64)> {
    if name.is_null() {
        return None;
    }
    // SAFETY: a C string of the program.
    let name = unsafe { CStr::from_ptr(name) }.to_str().ok()?;
    let (worker, number) = name.strip_prefix(PREFIX)?.split_once(':')?;
    Some((
        Worker(worker.parse().ok()?),
        u64::from_str_radix(number, 16).ok()?,
    ))
}

/// Changes the board; reverts the change if the board cannot be published.
pub(super) fn change(rt: &Runtime, change: impl FnOnce(&mut Board)) -> Outcome<()> {
    let before = dynamic::get(rt).board.clone();
    change(&mut dynamic::get_mut(rt).board);
    rendezvous::show(rt, world::worker(rt)).map_err(|why| {
        dynamic::get_mut(rt).board = before;
        unreadable(&why)
    })
}

fn finish(rt: &Runtime, procedure: Proc, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => SUCCESS,
        Err(rc) => raise(rt, procedure, rc, None),
    }
}

pub unsafe extern "C" fn MPI_Open_port(_info: VirtInfo, port_name: *mut c_char) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Open_port;
    if port_name.is_null() {
        return finish(rt, procedure, Err(ERR_ARG));
    }
    // Ports of another job have other numbers.
    let number = dynamic::get_mut(rt).number(xxh3_64(told::job().as_bytes()));
    let opened = change(rt, |board| {
        board.ports.insert(number);
    });
    if opened.is_ok() {
        let name = format!("{PREFIX}{}:{number:x}", world::worker(rt).0);
        // SAFETY: the program's address for the name, with MPI_MAX_PORT_NAME characters.
        unsafe { put_text(port_name, name.as_bytes()) };
    }
    finish(rt, procedure, opened)
}

pub unsafe extern "C" fn MPI_Close_port(port_name: *const c_char) -> c_int {
    let rt = runtime();
    let me = world::worker(rt);
    let closed = match port_of(port_name) {
        Some((owner, number)) if owner == me && dynamic::get_mut(rt).close(number) => {
            change(rt, |_| {})
        }
        _ => Err(ERR_PORT),
    };
    finish(rt, Proc::MPI_Close_port, closed)
}

/// Returns the name of a service.
fn service(name: *const c_char) -> Outcome<Vec<u8>> {
    if name.is_null() {
        return Err(ERR_ARG);
    }
    // SAFETY: a C string of the program.
    Ok(unsafe { CStr::from_ptr(name) }.to_bytes().to_vec())
}

/// Returns the port of a service that a worker of the job has published.
fn find(rt: &Runtime, service: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let boards = seen(rendezvous::look_at(
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
    let published = service(service_name).and_then(|name| {
        let port = service(port_name)?;
        match find(rt, &name)? {
            Some(_) => Err(ERR_SERVICE),
            None => change(rt, |board| {
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
    let taken_back = service(service_name).and_then(|name| {
        if !dynamic::get(rt).board.names.contains_key(&name) {
            return Err(ERR_SERVICE);
        }
        change(rt, |board| {
            board.names.remove(&name);
        })
    });
    finish(rt, Proc::MPI_Unpublish_name, taken_back)
}

pub unsafe extern "C" fn MPI_Lookup_name(
    service_name: *const c_char,
    _info: VirtInfo,
    port_name: *mut c_char,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let found = service(service_name).and_then(|name| {
        if port_name.is_null() {
            return Err(ERR_ARG);
        }
        let port = find(rt, &name)?.ok_or(ERR_NAME)?;
        // SAFETY: the program's address for the name. The published name fits, since it is that of
        // a port.
        unsafe { put_text(port_name, &port) };
        Ok(())
    });
    finish(rt, Proc::MPI_Lookup_name, found)
}
