//! How many bytes are handed to MPI to be sent.
#![allow(unsafe_code)]

use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, VirtDatatype, real_datatype};
use crate::objects::comm;
use crate::traffic::Runtime;
use crate::world;
use std::ffi::c_int;

/// `MPI_ROOT`
const ROOT: c_int = -4;

/// Bytes of an element: noted with the datatype that was translated last.
#[inline]
fn size(rt: &Runtime, datatype: VirtDatatype) -> u64 {
    match handles::note(rt, HandleKind::Datatype, datatype.0) {
        0 => ask_size(rt, datatype),
        known => known as u64,
    }
}

#[cold]
#[inline(never)]
fn ask_size(rt: &Runtime, datatype: VirtDatatype) -> u64 {
    let mut size: i64 = 0;
    let datatype_of_library = real_datatype(rt, datatype);
    // SAFETY: a datatype handle; an invalid one is reported by the procedure that follows.
    unsafe { real::PMPI_Type_size_x(datatype_of_library, (&raw mut size).cast()) };
    if let Ok(short) = c_int::try_from(size) {
        handles::set_note(rt, HandleKind::Datatype, datatype.0, short.max(0));
    }
    size.max(0) as u64
}

fn positive(count: impl Into<i64>) -> u64 {
    count.into().max(0) as u64
}

/// So many elements.
#[inline]
pub fn one(rt: &Runtime, count: impl Into<i64>, datatype: VirtDatatype) -> u64 {
    positive(count) * size(rt, datatype)
}

/// So many blocks of so many elements.
pub fn each(rt: &Runtime, blocks: usize, count: impl Into<i64>, datatype: VirtDatatype) -> u64 {
    blocks as u64 * one(rt, count, datatype)
}

/// So many blocks of different sizes.
///
/// # Safety
/// `counts` must have an element for each.
pub unsafe fn list<T: Copy + Into<i64>>(
    rt: &Runtime,
    blocks: usize,
    counts: *const T,
    datatype: VirtDatatype,
) -> u64 {
    // SAFETY: handed on to the caller.
    let sum: u64 = unsafe { array(counts, blocks) }
        .iter()
        .copied()
        .map(positive)
        .sum();
    sum * size(rt, datatype)
}

/// The block with this number.
///
/// # Safety
/// `counts` must have so many elements.
pub unsafe fn block_of<T: Copy + Into<i64>>(
    rt: &Runtime,
    number: usize,
    counts: *const T,
    datatype: VirtDatatype,
) -> u64 {
    // SAFETY: handed on to the caller.
    let count = unsafe { array(counts, number + 1) }.last();
    count.map_or(0, |&count| one(rt, count, datatype))
}

/// So many blocks of different sizes and types.
///
/// # Safety
/// The arrays must have an element for each.
pub unsafe fn typed_list<T: Copy + Into<i64>>(
    rt: &Runtime,
    blocks: usize,
    counts: *const T,
    types: *const VirtDatatype,
) -> u64 {
    // SAFETY: handed on to the caller.
    let (counts, types) = unsafe { (array(counts, blocks), array(types, blocks)) };
    counts
        .iter()
        .zip(types)
        .map(|(&count, &datatype)| one(rt, count, datatype))
        .sum()
}

/// An array of the program; a program that hands over none will hear of it from MPI.
///
/// # Safety
/// It must be null or have so many elements.
unsafe fn array<'a, T>(first: *const T, length: usize) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: handed on to the caller.
    unsafe { std::slice::from_raw_parts(first, length) }
}

/// To how many a collective sends a block each: all members, or those of the other group.
pub fn peers(rt: &Runtime, comm: VirtComm) -> usize {
    comm::get(rt, comm).map_or(0, |comm| {
        comm.remote.as_ref().unwrap_or(&comm.members).len()
    })
}

/// How many members the own group has.
pub fn members(rt: &Runtime, comm: VirtComm) -> usize {
    comm::get(rt, comm).map_or(0, |comm| comm.members.len())
}

/// How many neighbours are sent to.
pub fn neighbours(rt: &Runtime, comm: VirtComm) -> usize {
    comm::degrees(rt, comm).1.max(0) as usize
}

/// The rank of this process.
pub fn my_rank(rt: &Runtime, comm: VirtComm) -> usize {
    comm::get(rt, comm)
        .and_then(|comm| comm::my_rank(rt, &comm))
        .unwrap_or(0)
}

/// Whether the root's data are this process's.
pub fn is_root(rt: &Runtime, comm: VirtComm, root: c_int) -> bool {
    comm::get(rt, comm).is_some_and(|comm| match comm.remote {
        Some(_) => root == ROOT,
        None => comm.members.get(root as usize) == Some(&world::worker(rt)),
    })
}

/// Whether this process sends something to the root; that of the other group does not.
pub fn sends_to(root: c_int) -> bool {
    root >= 0
}
