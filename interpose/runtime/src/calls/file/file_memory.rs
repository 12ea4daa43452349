//! Buffers of the program, as bytes in the order of their type map.
//!
//! The data of a buffer are accessed in one of three forms: in place, if they have no gaps; packed
//! and unpacked by the library; or copied by the type map, for elements that are longer than the
//! library can pack.
#![allow(unsafe_code)]

use super::extent::{external_size, size_of};
use super::file_failure::{FileResult, class, local};
use crate::Runtime;
use crate::errors::*;
use crate::generated::real;
use crate::handles::{VirtDatatype, real_datatype};
use crate::journal::typemap::{TypeMap, TypeMaps};
use crate::objects::datatype;
use crate::objects::file::Representation;
use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use understudy_catalogue::message;
use understudy_mpi::real_types::RealComm;

/// Largest number of bytes that are packed at once.
const MAX_PACKED_BYTES: u64 = 1 << 29;
/// Largest number of blocks in a dense datatype that is accessed without packing.
const MAX_DENSE_BLOCKS: usize = 64;
/// Largest number of pieces in an element that the library cannot pack.
///
/// An element with more pieces is refused.
const MAX_PIECES: usize = 1 << 24;

/// Elements in the program's memory.
pub(super) struct AccessMemory {
    address: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    size: u64,
    extent: isize,
    /// True if the data have no gaps and are in the order of memory.
    is_plain: bool,
    representation: Representation,
    /// Type map of an element that the library cannot pack; `None` if it can.
    pieces: Option<Arc<TypeMap>>,
}

/// True if an element's data start at its address, in order and without gaps.
fn is_dense(rt: &Runtime, datatype: VirtDatatype, size: u64) -> bool {
    datatype::is_predefined(rt, datatype)
        || TypeMaps::exact(MAX_DENSE_BLOCKS)
            .map_of(rt, datatype)
            .pieces
            == [(0, size as usize)]
}

fn pieces_of(rt: &Runtime, datatype: VirtDatatype) -> FileResult<Arc<TypeMap>> {
    let map = TypeMaps::exact(MAX_PIECES).map_of(rt, datatype);
    if map.pieces.iter().map(|(_, length)| length).sum::<usize>() != map.size {
        log::error!("{}", message::element_too_complex(MAX_PIECES));
        return Err(class(ERR_TYPE));
    }
    Ok(map)
}

impl AccessMemory {
    pub(super) fn new(
        rt: &Runtime,
        address: *mut c_void,
        count: c_int,
        datatype: VirtDatatype,
        representation: Representation,
    ) -> FileResult<AccessMemory> {
        if count < 0 {
            return Err(class(ERR_COUNT));
        }
        let size = size_of(rt, datatype)?;
        let (mut bound, mut extent) = (0, 0);
        // SAFETY: a local query of a datatype.
        local(unsafe {
            real::PMPI_Type_get_extent(real_datatype(rt, datatype), &mut bound, &mut extent)
        })?;
        let is_native = representation != Representation::External32;
        if !is_native && external_size(rt, datatype)? != size {
            return Err(class(ERR_CONVERSION));
        }
        let is_plain = is_native && extent as u64 == size && is_dense(rt, datatype, size);
        let is_long = is_native && !is_plain && c_int::try_from(size).is_err();
        let pieces = is_long.then(|| pieces_of(rt, datatype)).transpose()?;
        Ok(AccessMemory {
            address,
            count,
            datatype,
            size,
            extent,
            is_plain,
            representation,
            pieces,
        })
    }

    /// Returns the number of bytes of data, in memory and in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.size * self.count as u64
    }

    /// Returns the memory itself, if it contains the data in the form of the file.
    pub(super) fn plain(&self) -> Option<*mut [u8]> {
        let is_usable = self.is_plain && self.bytes() > 0;
        is_usable
            .then(|| std::ptr::slice_from_raw_parts_mut(self.address.cast(), self.bytes() as usize))
    }

    /// Splits elements into ranges for packing: the first element, and the number of elements.
    fn packing_ranges(&self, elements: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let max_elements = (MAX_PACKED_BYTES / self.size.max(1)).max(1);
        (0..elements)
            .step_by(max_elements as usize)
            .map(move |first| (first, max_elements.min(elements - first)))
    }

    fn element(&self, index: u64) -> *mut c_void {
        self.address
            .wrapping_byte_offset((index as isize).wrapping_mul(self.extent))
    }

    /// Calls `piece` for the pieces of memory with the first `bytes` bytes of data.
    ///
    /// Passes the number of preceding bytes of data, the address, and the length.
    fn walk(&self, map: &TypeMap, bytes: usize, mut piece: impl FnMut(usize, *mut u8, usize)) {
        let mut at = 0;
        for element in 0..self.count as u64 {
            for &(offset, length) in &map.pieces {
                if at == bytes {
                    return;
                }
                let length = length.min(bytes - at);
                piece(
                    at,
                    self.element(element).wrapping_byte_offset(offset).cast(),
                    length,
                );
                at += length;
            }
        }
    }

    fn pack(&self, rt: &Runtime, first: u64, count: u64, into: &mut [u8]) -> FileResult<()> {
        let (from, count, length) = (self.element(first), count as c_int, into.len());
        let (datatype, to) = (real_datatype(rt, self.datatype), into.as_mut_ptr().cast());
        // SAFETY: MPI requires the program's elements to be valid; `into` has room for their data.
        local(unsafe {
            match self.representation {
                Representation::Native => {
                    let mut position = 0;
                    real::PMPI_Pack(
                        from,
                        count,
                        datatype,
                        to,
                        length as c_int,
                        &mut position,
                        RealComm::of_self(),
                    )
                }
                Representation::External32 => {
                    let mut position = 0;
                    let name = c"external32".as_ptr();
                    real::PMPI_Pack_external(
                        name,
                        from,
                        count,
                        datatype,
                        to,
                        length as isize,
                        &mut position,
                    )
                }
            }
        })
    }

    fn unpack(&self, rt: &Runtime, first: u64, count: u64, from: &[u8]) -> FileResult<()> {
        let (to, count, length) = (self.element(first), count as c_int, from.len());
        let (datatype, from) = (real_datatype(rt, self.datatype), from.as_ptr().cast());
        // SAFETY: `from` has the data of `count` elements; MPI requires valid memory for them.
        local(unsafe {
            match self.representation {
                Representation::Native => {
                    let mut position = 0;
                    real::PMPI_Unpack(
                        from,
                        length as c_int,
                        &mut position,
                        to,
                        count,
                        datatype,
                        RealComm::of_self(),
                    )
                }
                Representation::External32 => {
                    let mut position = 0;
                    let name = c"external32".as_ptr();
                    real::PMPI_Unpack_external(
                        name,
                        from,
                        length as isize,
                        &mut position,
                        to,
                        count,
                        datatype,
                    )
                }
            }
        })
    }

    /// Returns the data.
    ///
    /// # Safety
    /// The elements must be the program's buffer.
    pub(super) unsafe fn gather(&self, rt: &Runtime) -> FileResult<Cow<'_, [u8]>> {
        if let Some(plain) = self.plain() {
            // SAFETY: MPI requires the program's buffer to be valid and unchanged during the call.
            return Ok(Cow::Borrowed(unsafe { &*plain }));
        }
        let mut data = vec![0; self.bytes() as usize];
        if let Some(map) = &self.pieces {
            self.walk(map, data.len(), |at, address, length| {
                // SAFETY: a part of an element, which MPI requires to be valid.
                let piece = unsafe { std::slice::from_raw_parts(address, length) };
                data[at..at + length].copy_from_slice(piece);
            });
            return Ok(Cow::Owned(data));
        }
        for (first, count) in
            self.packing_ranges(if self.size == 0 { 0 } else { self.count as u64 })
        {
            let (begin, end) = (first * self.size, (first + count) * self.size);
            self.pack(rt, first, count, &mut data[begin as usize..end as usize])?;
        }
        Ok(Cow::Owned(data))
    }

    /// Writes data to the elements; the last element may be written in part.
    pub(super) fn scatter(&self, rt: &Runtime, data: &[u8]) -> FileResult<()> {
        if self.size == 0 {
            return Ok(());
        }
        if let Some(map) = &self.pieces {
            self.walk(map, data.len(), |at, address, length| {
                // SAFETY: a part of an element, which MPI requires to be valid and to have no other
                // users during the call.
                let piece = unsafe { std::slice::from_raw_parts_mut(address, length) };
                piece.copy_from_slice(&data[at..at + length]);
            });
            return Ok(());
        }
        let whole = data.len() as u64 / self.size;
        for (first, count) in self.packing_ranges(whole) {
            let (begin, end) = (first * self.size, (first + count) * self.size);
            self.unpack(rt, first, count, &data[begin as usize..end as usize])?;
        }
        let rest = &data[(whole * self.size) as usize..];
        if !rest.is_empty() {
            let mut last = vec![0; self.size as usize];
            self.pack(rt, whole, 1, &mut last)?;
            last[..rest.len()].copy_from_slice(rest);
            self.unpack(rt, whole, 1, &last)?;
        }
        Ok(())
    }
}
