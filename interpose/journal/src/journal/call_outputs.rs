//! Memory of the program side that a call has written.
//!
//! Addresses and lengths are derived from the call table and the call's arguments.
#![allow(unsafe_code)]

use super::clock_sources;
use super::row::{Amount, Members, Numbers, Output, Row, Unit};
use super::typemap::{TypeMaps, spread};
use crate::arch::Frame;
use crate::handles::{VirtComm, VirtDatatype};
use crate::objects::comm::{self, Comm, topology};
use std::cell::Ref;
use std::ffi::{c_int, c_void};
use understudy_objects::Runtime;

include!("../generated/outputs.rs");

const PROC_NULL: c_int = -2;
const ROOT: c_int = -4;
/// Lowest valid address: `MPI_IN_PLACE` and other special pointers are lower.
const LOWEST_ADDRESS: u64 = 4096;

/// Error: the outputs of a call cannot be determined, so the call cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownOutputs;

/// Address and length in bytes of a piece of memory.
pub type Piece = (usize, usize);

/// Call that the program has made.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    frame: &'a Frame,
    row: &'static Row,
}

impl<'a> Call<'a> {
    /// Returns the call in a frame; `None` if no procedure has its slot.
    pub fn from_frame(frame: &'a Frame) -> Option<Call<'a>> {
        let slot = frame.slot as usize;
        let row = OUTPUTS.get(slot).or_else(|| clock_sources::row_of(slot))?;
        Some(Call { frame, row })
    }

    /// Returns the outputs of the procedure.
    pub fn outputs(&self) -> &'static [Output] {
        self.row.outputs
    }

    /// Returns the address at which the procedure writes the handle of a request.
    pub fn request(&self) -> Option<u64> {
        self.row.request.map(|index| self.argument(index))
    }

    /// Returns the hash of the arguments.
    pub fn hash(&self) -> u32 {
        let values = self.row.widths.iter().enumerate().map(|(index, &width)| {
            let value = self.argument(index as u8);
            if width < 8 {
                value & ((1 << (8 * width)) - 1)
            } else {
                value
            }
        });
        let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
        xxhash_rust::xxh3::xxh3_64(&bytes) as u32
    }

    /// Returns an argument as 64 bits, whose upper bits are undefined for narrower types.
    pub fn argument(&self, index: u8) -> u64 {
        let index = usize::from(index);
        match self.frame.arguments.get(index) {
            Some(&value) => value,
            // SAFETY: stack arguments follow the return address (System V ABI, 3.2.3).
            None => unsafe {
                *((self.frame.rsp as *const u64).add(1 + index - self.frame.arguments.len()))
            },
        }
    }

    fn int(&self, index: u8) -> c_int {
        self.argument(index) as c_int
    }

    /// Returns `count` numbers of an array; none if the array's address is null.
    fn array(&self, Numbers(index, bytes): Numbers, count: usize) -> impl Iterator<Item = i64> {
        let address = self.argument(index);
        let count = if address == 0 { 0 } else { count };
        // SAFETY: MPI makes the program responsible for an array with as many elements as the
        // standard requires.
        (0..count).map(move |at| unsafe {
            match bytes {
                4 => i64::from(*(address as *const c_int).add(at)),
                _ => *(address as *const i64).add(at),
            }
        })
    }

    fn comm<'rt>(&self, rt: &'rt Runtime) -> Option<Ref<'rt, Comm>> {
        comm::get(rt, VirtComm(self.argument(self.row.comm?) as *mut c_void))
    }

    fn members(&self, rt: &Runtime) -> usize {
        self.comm(rt).map_or(0, |comm| {
            comm.remote.as_ref().unwrap_or(&comm.members).len()
        })
    }

    fn neighbours(&self, rt: &Runtime) -> usize {
        self.comm(rt).map_or(0, |comm| {
            topology::source_count(&comm.topology, comm::my_rank(rt, &comm).unwrap_or(0))
        })
    }

    /// Returns the value of a factor of an output's length.
    fn amount(&self, rt: &Runtime, amount: Amount) -> usize {
        let positive = |value: i64| value.max(0) as usize;
        match amount {
            Amount::Value(Numbers(index, 4)) => positive(self.int(index).into()),
            Amount::Value(Numbers(index, _)) => positive(self.argument(index) as i64),
            Amount::PointedValue(pointer) => self.array(pointer, 1).next().map_or(0, positive),
            Amount::Constant(value) => value as usize,
            Amount::Members => self.members(rt),
            Amount::Neighbours => self.neighbours(rt),
            Amount::OwnCount(counts) => {
                let rank = self
                    .comm(rt)
                    .and_then(|comm| comm::my_rank(rt, &comm))
                    .unwrap_or(0);
                self.array(counts, rank + 1).last().map_or(0, positive)
            }
            Amount::Span(counts, displacements, is_neighbour) => {
                let blocks = if is_neighbour {
                    self.neighbours(rt)
                } else {
                    self.members(rt)
                };
                let ends = self
                    .array(counts, blocks)
                    .zip(self.array(displacements, blocks));
                ends.filter(|(count, _)| *count > 0)
                    .map(|(count, displacement)| positive(count + displacement))
                    .max()
                    .unwrap_or(0)
            }
        }
    }

    /// True if this process is one of the members that have an output.
    fn has_output(&self, rt: &Runtime, members: Members) -> bool {
        let is_root = |index: u8| match (self.int(index), self.comm(rt)) {
            (ROOT, _) => Some(true),
            (PROC_NULL, _) | (_, None) => None,
            (_, Some(comm)) if comm.remote.is_some() => Some(false),
            (root, Some(comm)) => Some(comm::my_rank(rt, &comm) == usize::try_from(root).ok()),
        };
        match members {
            Members::All => true,
            Members::Only(root) => is_root(root) == Some(true),
            Members::AllBut(root) => is_root(root) == Some(false),
        }
    }

    /// Passes the pieces of memory of an output to `piece`.
    ///
    /// `bytes` limits the data that are passed for a message buffer.
    pub fn pieces(
        &self,
        rt: &Runtime,
        output: &Output,
        bytes: usize,
        maps: &mut TypeMaps,
        mut piece: impl FnMut(usize, usize),
    ) -> Result<(), UnknownOutputs> {
        let address = self.argument(output.argument);
        if address < LOWEST_ADDRESS || !self.has_output(rt, output.members) {
            return Ok(());
        }
        let address = address as usize;
        let count = || {
            output
                .amounts
                .iter()
                .map(|&amount| self.amount(rt, amount))
                .product::<usize>()
        };
        match output.unit {
            Unit::Bytes(size) => piece(address, count() * usize::from(size)),
            Unit::Datatype(index) => {
                let map = maps.map_of(rt, VirtDatatype(self.argument(index) as *mut c_void));
                spread(&map, address, count(), bytes, piece);
            }
            // SAFETY: the buffer has room for a C string of this length, and contains one if the
            // procedure has written.
            Unit::Text => piece(
                address,
                unsafe { libc::strnlen(address as *const _, count()) } + 1,
            ),
            Unit::Packed(elements, datatype, position) => {
                let size = maps
                    .map_of(rt, VirtDatatype(self.argument(datatype) as *mut c_void))
                    .size;
                let end = self.amount(rt, Amount::PointedValue(position));
                let length = end.min(size * self.amount(rt, Amount::Value(elements)));
                piece(address + end - length, length);
            }
            Unit::Unknown => return Err(UnknownOutputs),
        }
        Ok(())
    }
}
