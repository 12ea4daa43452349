//! Memory from `MPI_Alloc_mem`, and buffered sends (MPI 4.1, sections 3.6 and 9.2).
//!
//! MPI_Alloc_mem calls the program's own malloc, so checkpoints contain the memory. A buffered send
//! is an ordinary non-blocking send from a copy in the runtime's memory; the program's buffer
//! (`buffers`) is not used. The real library would wait forever for a buffered send to a failed
//! process.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::combined::pack;
use crate::Runtime;
use crate::arch::Rewound;
use crate::calls::runtime;
use crate::error_handling::finish;
use crate::errors::{ERR_BUFFER, ERR_NO_MEM, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtInfo, real_comm, real_datatype};
use crate::requests::{BufferUse, MessageArguments};
use crate::user::heap;
use crate::{completion, recovery, requests};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{PROC_NULL, RealRequest};

/// Returns `MPI_BSEND_OVERHEAD` with the value that the program has.
fn overhead() -> u64 {
    understudy_mpi::abi::limit("MPI_BSEND_OVERHEAD") as u64
}

/// Sends a copy of a buffer, which the runtime keeps until the send has completed.
pub(super) fn buffered_send(rt: &Runtime, message: &MessageArguments) -> Result<c_int, Rewound> {
    if message.peer == PROC_NULL {
        // No message is buffered, and no buffer need be attached.
        let (from, datatype) = (
            message.buffer as *const c_void,
            real_datatype(rt, message.datatype()),
        );
        let (to, tag, comm) = (message.peer, message.tag, real_comm(rt, message.comm()));
        // SAFETY: a send to MPI_PROC_NULL reads no data from the program's buffer.
        let rc = unsafe { real::PMPI_Send(from, message.count, datatype, to, tag, comm) };
        return recovery::check(rt, rc);
    }
    // SAFETY: MPI requires the program's buffer to have this count and datatype.
    let (packed, bytes) = match unsafe { pack(rt, message, message.peer) } {
        Ok(packed) => packed,
        Err(rc) => return Ok(rc),
    };
    let needed = packed.len() as u64 + overhead();
    let mut owner = requests::buffer_with_room(rt, message.comm(), needed);
    if owner.is_none() {
        completion::reap_orphans(rt)?;
        owner = requests::buffer_with_room(rt, message.comm(), needed);
    }
    let Some(owner) = owner else {
        return Ok(ERR_BUFFER);
    };
    let (from, comm) = (packed.as_ptr().cast::<c_void>(), message.comm());
    let mut request = RealRequest(std::ptr::null_mut());
    // SAFETY: the copy lives until the send has completed.
    let rc = unsafe {
        real::PMPI_Isend(
            from,
            bytes.count(),
            bytes.datatype(),
            message.peer,
            message.tag,
            real_comm(rt, comm),
            &mut request,
        )
    };
    let rc = recovery::check(rt, rc)?;
    if rc == SUCCESS {
        requests::count_sent(rt, comm, (message.peer, message.tag));
        let buffer_use = BufferUse {
            owner,
            bytes: needed,
        };
        requests::add_buffered(rt, comm, request, buffer_use, Box::new(packed));
    }
    Ok(rc)
}

pub unsafe extern "C" fn MPI_Alloc_mem(
    size: isize,
    _info: VirtInfo,
    baseptr: *mut c_void,
) -> c_int {
    let rt = runtime();
    let block = heap::allocate(size.max(1) as u64);
    // SAFETY: MPI requires a valid address for the result.
    unsafe { baseptr.cast::<u64>().write(block) };
    let rc = if block == 0 { ERR_NO_MEM } else { SUCCESS };
    finish(rt, Proc::MPI_Alloc_mem, rc, None)
}

pub unsafe extern "C" fn MPI_Free_mem(base: *mut c_void) -> c_int {
    heap::free(base as u64);
    SUCCESS
}
