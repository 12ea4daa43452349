//! Probing (MPI 4.1, section 3.8): messages that the last drain took come first.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::point_to_point::{outcome, put_status};
use crate::errors::{SUCCESS, finish};
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, real_comm};
use crate::real_types::Status;
use crate::recovery::Rewound;
use crate::requests::EMPTY;
use crate::{checkpoint, drain, recovery};
use std::ffi::c_int;

fn iprobe(source: c_int, tag: c_int, comm: VirtComm) -> Result<(Option<Status>, c_int), Rewound> {
    if let Some(status) = drain::peek_early(comm, source, tag) {
        return Ok((Some(status), SUCCESS));
    }
    let (mut flag, mut status) = (0, EMPTY);
    // SAFETY: plain arguments.
    let rc = recovery::check(unsafe { real::PMPI_Iprobe(source, tag, real_comm(comm), &mut flag, &mut status) })?;
    Ok(((flag != 0).then_some(status), rc))
}

/// `MPI_Iprobe`
pub unsafe extern "C" fn MPI_Iprobe(source: c_int, tag: c_int, comm: VirtComm, flag: *mut c_int, status: *mut Status) -> c_int {
    let (found, rc) = outcome!(iprobe(source, tag, comm));
    outcome!(checkpoint::poll());
    // SAFETY: the program's arguments.
    unsafe {
        flag.write(c_int::from(found.is_some()));
        if let Some(found) = found {
            put_status(status, found);
        }
    }
    finish(Proc::MPI_Iprobe, rc, Some(comm))
}

/// `MPI_Probe`
pub unsafe extern "C" fn MPI_Probe(source: c_int, tag: c_int, comm: VirtComm, status: *mut Status) -> c_int {
    loop {
        let (found, rc) = outcome!(iprobe(source, tag, comm));
        outcome!(checkpoint::poll());
        if let Some(found) = found {
            // SAFETY: the program's argument.
            unsafe { put_status(status, found) };
            return SUCCESS;
        }
        if rc != SUCCESS {
            return finish(Proc::MPI_Probe, rc, Some(comm));
        }
    }
}
