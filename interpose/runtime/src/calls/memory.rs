//! Memory that MPI hands out or is handed (MPI 4.1, sections 3.6 and 9.2).
//!
//! MPI_Alloc_mem takes the program's own malloc, so that the memory is in the image. A buffer for buffered sends is only
//! counted with: such a send is an ordinary one from a copy of the layer's. The real library's own would wait for ever for
//! one to a process that has failed.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::outcome;
use super::combined::pack;
use crate::arch::Rewound;
use crate::arch::call_user;
use crate::calls::runtime;
use crate::errors::{ERR_BUFFER, ERR_NO_MEM, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, VirtInfo, predefined_handle, real_comm, real_datatype};
use crate::raise::finish;
use crate::recovery::Runtime;
use crate::requests::{Attached, Envelope};
use crate::told::user_symbol;
use crate::{checkpoint, completion, recovery, requests};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::RealRequest;

/// `MPI_BSEND_OVERHEAD` as the program knows it.
fn overhead() -> u64 {
    understudy_mpi::abi::current().map_or(128, |abi| abi.limit("MPI_BSEND_OVERHEAD").1 as u64)
}

/// Sends a copy of what is in a buffer; the copy is the layer's until the send has ended.
pub(super) fn buffered_send(rt: &Runtime, message: &Envelope) -> Result<c_int, Rewound> {
    let Some(attached) = requests::attached(rt) else {
        return Ok(ERR_BUFFER);
    };
    // SAFETY: the program's buffer.
    let (packed, length) = match unsafe { pack(rt, message, message.peer) } {
        Ok(packed) => packed,
        Err(rc) => return Ok(rc),
    };
    let needed = length.max(0) as u64 + overhead();
    if requests::buffered(rt) + needed > attached.size.max(0) as u64 {
        completion::reap_orphans(rt)?;
        if requests::buffered(rt) + needed > attached.size.max(0) as u64 {
            return Ok(ERR_BUFFER);
        }
    }
    let packed_type = real_datatype(rt, VirtDatatype(predefined_handle(rt, "ompi_mpi_packed")));
    let (from, comm) = (packed.as_ptr().cast::<c_void>(), message.comm());
    let mut request = RealRequest(std::ptr::null_mut());
    // SAFETY: the copy is kept until the send has ended.
    let rc = unsafe {
        real::PMPI_Isend(
            from,
            length,
            packed_type,
            message.peer,
            message.tag,
            real_comm(rt, comm),
            &mut request,
        )
    };
    let rc = recovery::check(rt, rc)?;
    if rc == SUCCESS {
        requests::count_sent(rt, comm, message.peer, message.count, message.datatype());
        requests::add_buffered(rt, comm, request, needed, Box::new(packed));
    }
    Ok(rc)
}

/// `MPI_Buffer_attach`
pub unsafe extern "C" fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) -> c_int {
    let rt = runtime();
    if requests::attached(rt).is_some() || buffer.is_null() || size < 0 {
        return finish(rt, Proc::MPI_Buffer_attach, ERR_BUFFER, None);
    }
    requests::attach(
        rt,
        Some(Attached {
            address: buffer as u64,
            size,
        }),
    );
    SUCCESS
}

/// `MPI_Buffer_detach`: waits for all that was sent from the buffer.
pub unsafe extern "C" fn MPI_Buffer_detach(buffer: *mut c_void, size: *mut c_int) -> c_int {
    let rt = runtime();
    let Some(attached) = requests::attached(rt) else {
        return finish(rt, Proc::MPI_Buffer_detach, ERR_BUFFER, None);
    };
    while requests::buffered(rt) > 0 {
        outcome!(completion::reap_orphans(rt));
        outcome!(checkpoint::poll(rt));
    }
    requests::attach(rt, None);
    // SAFETY: the program's arguments: where the address and the size go.
    unsafe {
        buffer.cast::<u64>().write(attached.address);
        size.write(attached.size);
    }
    SUCCESS
}

/// `MPI_Alloc_mem`
pub unsafe extern "C" fn MPI_Alloc_mem(size: isize, _info: VirtInfo, baseptr: *mut c_void) -> c_int {
    let rt = runtime();
    // SAFETY: the program's malloc(3), called on its own stack; `baseptr` is where the address goes.
    unsafe {
        let block = call_user(user_symbol("malloc") as *const c_void, size.max(1) as u64, 0, 0, 0, 0);
        baseptr.cast::<u64>().write(block);
        finish(
            rt,
            Proc::MPI_Alloc_mem,
            if block == 0 { ERR_NO_MEM } else { SUCCESS },
            None,
        )
    }
}

/// `MPI_Free_mem`
pub unsafe extern "C" fn MPI_Free_mem(base: *mut c_void) -> c_int {
    // SAFETY: the program's free(3), called on its own stack.
    unsafe { call_user(user_symbol("free") as *const c_void, base as u64, 0, 0, 0, 0) };
    SUCCESS
}
