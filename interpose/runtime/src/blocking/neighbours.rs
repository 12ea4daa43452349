//! Blocking collectives among neighbours, which receive into memory of the runtime.
//!
//! The library's non-blocking ones will not do: where a process is a neighbour twice, as on a ring of two, they may hand its
//! blocks over in another order than the blocking ones (which the standard settles: MPI 4.1, section 8.6).
#![allow(unsafe_code)]

use super::{EAGER_BYTES, matters};
use crate::errors::{SUCCESS, succeeded};
use crate::generated::real;
use crate::handles::{VirtComm, VirtDatatype, real_datatype};
use crate::objects::comm::{self, degrees};
use crate::{shim, world};
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use understudy_mpi::real_types::RealDatatype;

/// What is received from one neighbour.
#[derive(Clone, Copy)]
pub struct Block {
    /// Bytes from the start of the buffer.
    offset: isize,
    count: c_int,
    datatype: RealDatatype,
}

/// Blocks of the same size, one after the other.
pub fn regular(comm: VirtComm, count: c_int, datatype: VirtDatatype) -> Vec<Block> {
    let datatype = real_datatype(datatype);
    let step = count as isize * extent(datatype).1;
    let block = |number| Block {
        offset: number as isize * step,
        count,
        datatype,
    };
    (0..degrees(comm).0).map(block).collect()
}

/// Blocks of different sizes at displacements in elements.
///
/// # Safety
/// The program's arrays, with an element for each neighbour that sends.
pub unsafe fn listed(
    comm: VirtComm,
    counts: *const c_int,
    displacements: *const c_int,
    datatype: VirtDatatype,
) -> Vec<Block> {
    let datatype = real_datatype(datatype);
    let size = extent(datatype).1;
    // SAFETY: the caller's promise.
    let block = |number: usize| unsafe {
        Block {
            offset: *displacements.add(number) as isize * size,
            count: *counts.add(number),
            datatype,
        }
    };
    (0..degrees(comm).0 as usize).map(block).collect()
}

/// Blocks of different types at displacements in bytes.
///
/// # Safety
/// The program's arrays, with an element for each datatype.
pub unsafe fn typed(counts: *const c_int, displacements: *const isize, datatypes: &[RealDatatype]) -> Vec<Block> {
    // SAFETY: the caller's promise.
    let block = |(number, &datatype)| unsafe {
        Block {
            offset: *displacements.add(number),
            count: *counts.add(number),
            datatype,
        }
    };
    datatypes.iter().enumerate().map(block).collect()
}

/// Lower bound and extent of a datatype.
fn extent(datatype: RealDatatype) -> (isize, isize) {
    let (mut bound, mut extent) = (0, 0);
    // SAFETY: a local query; an invalid datatype is reported by the procedure that follows.
    unsafe { real::PMPI_Type_get_extent(datatype, &mut bound, &mut extent) };
    (bound, extent)
}

impl Block {
    /// Bytes of data.
    fn size(&self) -> i64 {
        let mut size = 0;
        // SAFETY: as in `extent`.
        unsafe { real::PMPI_Type_size(self.datatype, &mut size) };
        i64::from(size) * i64::from(self.count)
    }

    /// Where its first byte is and where its last one ends, from the start of the buffer.
    fn span(&self) -> (isize, isize) {
        let (mut bound, mut true_extent) = (0isize, 0isize);
        // SAFETY: as in `extent`.
        unsafe { real::PMPI_Type_get_true_extent(self.datatype, &mut bound, &mut true_extent) };
        let reach = (self.count as isize - 1) * extent(self.datatype).1;
        let first = self.offset + bound + reach.min(0);
        (first, first + true_extent + reach.abs())
    }

    /// Copies its data, and nothing between them, from one buffer to another. Returns the real library's code.
    ///
    /// # Safety
    /// Buffers that hold the block.
    unsafe fn copy(&self, from: *const u8, to: *mut u8) -> c_int {
        let (first, end) = self.span();
        // SAFETY: the caller's promise; a message from this process to itself on a communicator of our own.
        unsafe {
            if self.size() == (end - first) as i64 {
                let (from, to) = (from.wrapping_offset(first), to.wrapping_offset(first));
                std::ptr::copy_nonoverlapping(from, to, (end - first) as usize);
                return SUCCESS;
            }
            let (from, to) = (from.wrapping_offset(self.offset), to.wrapping_offset(self.offset));
            real::PMPI_Sendrecv(
                from.cast(),
                self.count,
                self.datatype,
                0,
                0,
                to.cast(),
                self.count,
                self.datatype,
                0,
                0,
                world::own_comm(),
                std::ptr::null_mut(),
            )
        }
    }
}

/// A blocking collective among neighbours under way.
pub struct Neighbours {
    buffer: *mut u8,
    aside: Option<Aside>,
}

/// Memory of the runtime in place of the program's. It is given up if it is not put back.
struct Aside {
    memory: ManuallyDrop<Vec<u64>>,
    /// How far the start of the buffer lies before it.
    first: isize,
    blocks: Vec<Block>,
}

impl Neighbours {
    /// Before the real procedure: memory for all blocks if one is large, with what the program has there, since a block
    /// stays as it is if there is no neighbour (MPI_PROC_NULL).
    ///
    /// # Safety
    /// The program's buffer, with those blocks.
    pub unsafe fn begin(comm: VirtComm, buffer: *mut c_void, mut blocks: Vec<Block>) -> Neighbours {
        blocks.retain(|block| block.count > 0 && block.size() > 0);
        let buffer = buffer.cast::<u8>();
        let is_large = blocks.iter().any(|block| block.size() > i64::from(EAGER_BYTES));
        if !is_large || !comm::get(comm).as_deref().is_some_and(matters) {
            return Neighbours { buffer, aside: None };
        }
        let spans = blocks.iter().map(Block::span);
        let first = spans.clone().map(|(first, _)| first).min().unwrap_or(0);
        let length = (spans.map(|(_, end)| end).max().unwrap_or(0) - first) as usize;
        let memory = ManuallyDrop::new(Vec::with_capacity(length.div_ceil(size_of::<u64>())));
        let aside = Aside { memory, first, blocks };
        // SAFETY: the caller's promise; the memory has room for all blocks.
        let filled = aside.copy_each(|block| unsafe { block.copy(buffer, aside.buffer()) });
        if let Err(rc) = filled {
            log::warn!(
                "a collective among neighbours does without memory of its own, since a copy has failed with {rc}"
            );
            return Neighbours { buffer, aside: None };
        }
        shim::hold_frees();
        let aside = Some(aside);
        Neighbours { buffer, aside }
    }

    /// Where the real procedure receives.
    pub fn place(&self) -> *mut c_void {
        self.aside.as_ref().map_or(self.buffer, Aside::buffer).cast()
    }

    /// After the real procedure, whose return code is handed on.
    pub fn end(self, rc: c_int) -> c_int {
        let Some(aside) = self.aside else { return rc };
        shim::release_frees(rc == SUCCESS);
        if rc != SUCCESS {
            return rc;
        }
        // SAFETY: the program's buffer, and what was received.
        let delivered = aside.copy_each(|block| unsafe { block.copy(aside.buffer(), self.buffer) });
        drop(ManuallyDrop::into_inner(aside.memory));
        delivered.err().unwrap_or(SUCCESS)
    }
}

impl Aside {
    /// Copies all blocks; the first error ends it.
    fn copy_each(&self, copy: impl Fn(&Block) -> c_int) -> Result<(), c_int> {
        self.blocks.iter().try_for_each(|block| succeeded(copy(block)))
    }

    /// What stands for the start of the program's buffer.
    fn buffer(&self) -> *mut u8 {
        self.memory
            .as_ptr()
            .cast::<u8>()
            .wrapping_offset(-self.first)
            .cast_mut()
    }
}
