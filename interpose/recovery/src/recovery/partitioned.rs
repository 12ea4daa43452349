//! First message of partitioned requests that were recreated.
//!
//! Open MPI 5 delivers the first message of a partitioned request into the receiver's buffer as
//! soon as both ends are connected. Only later messages wait for MPI_Start. After a recovery all
//! requests are new, and the buffers contain data of the program. So both ends use each request
//! once here, hidden from the program.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, real_datatype};
use crate::requests::{Argument, RequestRecipe};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealComm, RealDatatype, RealRequest};
use understudy_mpi::{self as mpi, check};

/// Maximum number of bytes that are packed at a time.
const MAX_PACKED_BYTES: i64 = 1 << 30;

/// Message that a request transfers.
struct Message {
    is_receive: bool,
    buffer: u64,
    partitions: u64,
    elements: i64,
    datatype: RealDatatype,
}

impl Message {
    /// Returns the message of a partitioned request between two processes; otherwise `None`.
    fn of(rt: &Runtime, recipe: &RequestRecipe) -> Option<Message> {
        let is_receive = match Proc::from_slot(u32::from(recipe.slot))? {
            Proc::MPI_Precv_init => true,
            Proc::MPI_Psend_init => false,
            _ => return None,
        };
        let [
            Argument::Word(buffer),
            Argument::Word(partitions),
            Argument::Word(count),
            Argument::Datatype(datatype),
            ..,
        ] = recipe.arguments[..]
        else {
            return None;
        };
        (recipe.members == 2).then(|| Message {
            is_receive,
            buffer,
            partitions,
            elements: partitions.saturating_mul(count) as i64,
            datatype: real_datatype(rt, VirtDatatype(datatype as *mut c_void)),
        })
    }

    /// Calls `piece` with addresses in the buffer, and the numbers of elements and bytes.
    fn pieces(&self, mut piece: impl FnMut(*mut c_void, c_int, usize) -> c_int) -> mpi::Result<()> {
        let (mut size, mut lower, mut extent) = (0, 0, 0);
        // SAFETY: local queries of a valid datatype; the results have room.
        unsafe {
            check(real::PMPI_Type_size_x(self.datatype, &mut size))?;
            check(real::PMPI_Type_get_extent_x(
                self.datatype,
                &mut lower,
                &mut extent,
            ))?;
        }
        let most = (MAX_PACKED_BYTES / size.max(1)).clamp(1, i64::from(c_int::MAX));
        let mut first = 0;
        while first < self.elements && size > 0 {
            let count = most.min(self.elements - first);
            let place = self.buffer.wrapping_add_signed(first * extent) as *mut c_void;
            check(piece(place, count as c_int, (count * size) as usize))?;
            first += count;
        }
        Ok(())
    }

    /// Returns the data in the buffer.
    fn content(&self) -> mpi::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.pieces(|from, count, bytes| {
            let start = all.len();
            all.resize(start + bytes, 0_u8);
            let (to, room, mut position) = (all[start..].as_mut_ptr().cast(), bytes as c_int, 0);
            // SAFETY: MPI makes the program responsible for a buffer with these elements; `all` has
            // room for their data.
            unsafe {
                real::PMPI_Pack(
                    from,
                    count,
                    self.datatype,
                    to,
                    room,
                    &mut position,
                    RealComm::of_self(),
                )
            }
        })?;
        Ok(all)
    }

    fn put_back(&self, content: &[u8]) -> mpi::Result<()> {
        let mut rest = content;
        self.pieces(|to, count, bytes| {
            let (piece, others) = rest.split_at(bytes);
            rest = others;
            let (from, room, mut position) = (piece.as_ptr().cast(), bytes as c_int, 0);
            // SAFETY: `piece` has the data of this number of elements; MPI makes the program
            // responsible for a buffer with room for them.
            unsafe {
                real::PMPI_Unpack(
                    from,
                    room,
                    &mut position,
                    to,
                    count,
                    self.datatype,
                    RealComm::of_self(),
                )
            }
        })
    }
}

/// Sends and receives once with each new request, and restores the buffers.
///
/// # Errors
/// Fails with the error of a real procedure, if a process has failed.
pub fn use_once(rt: &Runtime, made: &[(RealRequest, RequestRecipe)]) -> mpi::Result<()> {
    let messages = made
        .iter()
        .filter_map(|(real, recipe)| Some((*real, Message::of(rt, recipe)?)));
    let (mut requests, messages): (Vec<RealRequest>, Vec<Message>) = messages.unzip();
    let (receives, sends): (Vec<usize>, Vec<usize>) =
        (0..messages.len()).partition(|&at| messages[at].is_receive);
    let kept: mpi::Result<Vec<Vec<u8>>> =
        receives.iter().map(|&at| messages[at].content()).collect();
    let kept = kept?;
    // SAFETY: the requests are new and inactive; MPI makes the program responsible for their
    // buffers.
    unsafe {
        check(real::PMPI_Startall(
            requests.len() as c_int,
            requests.as_mut_ptr(),
        ))?;
        for at in sends {
            let last = messages[at].partitions.saturating_sub(1) as c_int;
            check(real::PMPI_Pready_range(0, last, requests[at]))?;
        }
        let ignored = std::ptr::null_mut();
        check(real::PMPI_Waitall(
            requests.len() as c_int,
            requests.as_mut_ptr(),
            ignored,
        ))?;
    }
    receives
        .iter()
        .zip(&kept)
        .try_for_each(|(&at, content)| messages[at].put_back(content))
}
