//! Elements of buffers with derived datatypes, for accumulates (MPI 4.1, 12.3.4).
//!
//! A datatype may be used in an accumulate only if all its elements have one predefined datatype.
#![allow(unsafe_code)]

use super::datatype_entries::recipe_even_if_freed;
use super::real_datatypes::null_handle;
use crate::Runtime;
use crate::errors::{ERR_TYPE, SUCCESS};
use crate::generated::real;
use crate::handles::{VirtDatatype, VirtOp, real_datatype, real_op};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealComm, RealDatatype};

/// Buffer of the program, or memory of a window.
#[derive(Clone, Copy)]
pub struct Operand {
    /// Address of the buffer.
    pub address: *mut c_void,
    /// Number of items of the datatype.
    pub count: c_int,
    pub datatype: VirtDatatype,
}

/// Predefined datatype of a datatype's elements, and the layout of the elements.
#[derive(Clone, Copy)]
pub struct Elements {
    datatype: VirtDatatype,
    real: RealDatatype,
    size: usize,
    extent: usize,
}

/// Copies of elements in the runtime's memory, aligned for any datatype.
struct ElementBuffer {
    words: Vec<u128>,
    count: usize,
}

impl ElementBuffer {
    fn new(count: usize, extent: usize) -> ElementBuffer {
        let words = vec![0; (count * extent).div_ceil(size_of::<u128>())];
        ElementBuffer { words, count }
    }

    fn address(&self) -> *mut c_void {
        self.words.as_ptr().cast_mut().cast()
    }
}

/// Returns size and extent of a datatype in bytes.
fn size_and_extent(datatype: RealDatatype) -> Option<(usize, usize)> {
    let (mut size, mut bound, mut extent) = (0, 0, 0);
    // SAFETY: local queries with variables for the results; the library checks the datatype.
    let codes = unsafe {
        [
            real::PMPI_Type_size(datatype, &mut size),
            real::PMPI_Type_get_extent(datatype, &mut bound, &mut extent),
        ]
    };
    let sizes = (usize::try_from(size).ok()?, usize::try_from(extent).ok()?);
    (codes == [SUCCESS; 2]).then_some(sizes)
}

/// Returns the predefined datatype of all elements; `None` if the elements differ.
fn only_base(rt: &Runtime, datatype: VirtDatatype) -> Option<VirtDatatype> {
    // The program may have freed the datatypes from which this datatype is derived.
    let Some(recipe) =
        recipe_even_if_freed(rt, datatype).filter(|recipe| !recipe.contained.is_empty())
    else {
        return (datatype != null_handle(rt)).then_some(datatype);
    };
    let mut bases = recipe
        .contained
        .iter()
        .map(|&handle| only_base(rt, VirtDatatype(handle as *mut c_void)));
    let first = bases.next()??;
    bases.all(|other| other == Some(first)).then_some(first)
}

/// Returns the bytes that a buffer's data span.
///
/// The result is the offset of the bytes from the buffer's address, and the number of bytes. `None`
/// if there are no data.
pub fn data_span(rt: &Runtime, count: c_int, datatype: VirtDatatype) -> Option<(isize, u64)> {
    let (mut lower, mut true_extent, mut bound, mut extent) = (0, 0, 0, 0);
    let real = real_datatype(rt, datatype);
    // SAFETY: local queries with variables for the results; the library checks the datatype.
    let codes = unsafe {
        [
            real::PMPI_Type_get_true_extent(real, &mut lower, &mut true_extent),
            real::PMPI_Type_get_extent(real, &mut bound, &mut extent),
        ]
    };
    let last = isize::try_from(count).ok().filter(|&count| count > 0)? - 1;
    // A negative extent places the last item before the first one.
    let offset_of_last = extent.checked_mul(last)?;
    let start = lower.checked_add(offset_of_last.min(0))?;
    let bytes = u64::try_from(true_extent)
        .ok()?
        .checked_add(offset_of_last.unsigned_abs() as u64)?;
    (codes == [SUCCESS; 2] && bytes > 0).then_some((start, bytes))
}

impl Elements {
    /// Returns the elements of a predefined datatype without gaps, of `size` bytes each.
    pub fn dense(rt: &Runtime, datatype: VirtDatatype, size: usize) -> Elements {
        Elements {
            datatype,
            real: real_datatype(rt, datatype),
            size,
            extent: size,
        }
    }

    /// Returns the size of one element, if the datatype is `datatype` and has no gaps.
    pub fn size_of_dense(&self, datatype: VirtDatatype) -> Option<usize> {
        (self.datatype == datatype && self.are_dense()).then_some(self.size)
    }

    /// Returns the elements of a datatype; `None` unless it consists of one predefined datatype.
    pub fn of_datatype(rt: &Runtime, datatype: VirtDatatype) -> Option<Elements> {
        let datatype = only_base(rt, datatype)?;
        let real = real_datatype(rt, datatype);
        let (size, extent) = size_and_extent(real)?;
        (size > 0).then_some(Elements {
            datatype,
            real,
            size,
            extent,
        })
    }

    /// Returns the number of elements of a buffer that can be used without a copy.
    ///
    /// `None` if the elements are not adjacent in the buffer.
    fn in_place(&self, operand: Operand) -> Option<usize> {
        let count = usize::try_from(operand.count).ok()?;
        (operand.datatype == self.datatype && (self.size == self.extent || count <= 1))
            .then_some(count)
    }

    fn are_dense(&self) -> bool {
        self.size == self.extent
    }

    /// Copies the elements of a buffer to adjacent memory.
    ///
    /// # Safety
    /// The operand's memory must be valid.
    unsafe fn gather(&self, rt: &Runtime, from: Operand) -> Result<ElementBuffer, c_int> {
        let real = real_datatype(rt, from.datatype);
        let (size, _) = size_and_extent(real).ok_or(ERR_TYPE)?;
        let bytes = size * usize::try_from(from.count).map_err(|_| ERR_TYPE)?;
        let packed = ElementBuffer::new(bytes / self.size, self.size);
        // SAFETY: the caller passes a valid operand; `packed` and `copies` have room for its data.
        unsafe {
            pack(from.address, from.count, real, packed.address(), bytes)?;
            if self.are_dense() {
                return Ok(packed);
            }
            let copies = ElementBuffer::new(packed.count, self.extent);
            unpack(
                packed.address(),
                bytes,
                copies.address(),
                copies.count as c_int,
                self.real,
            )?;
            Ok(copies)
        }
    }

    /// Copies adjacent elements to a buffer.
    ///
    /// # Safety
    /// The operand's memory must be valid.
    unsafe fn scatter(
        &self,
        rt: &Runtime,
        copies: &ElementBuffer,
        to: Operand,
    ) -> Result<(), c_int> {
        let (real, bytes) = (real_datatype(rt, to.datatype), copies.count * self.size);
        // SAFETY: the caller passes a valid operand; `copies` and `packed` contain all elements.
        unsafe {
            if self.are_dense() {
                return unpack(copies.address(), bytes, to.address, to.count, real);
            }
            let packed = ElementBuffer::new(copies.count, self.size);
            pack(
                copies.address(),
                copies.count as c_int,
                self.real,
                packed.address(),
                bytes,
            )?;
            unpack(packed.address(), bytes, to.address, to.count, real)
        }
    }

    /// Copies elements, up to the end of the shorter buffer.
    ///
    /// # Errors
    /// Fails if a real procedure fails.
    ///
    /// # Safety
    /// The operands' memory must be valid.
    pub unsafe fn copy(&self, rt: &Runtime, from: Operand, to: Operand) -> Result<(), c_int> {
        match (self.in_place(from), self.in_place(to)) {
            (Some(count), Some(room)) if self.are_dense() => {
                let bytes = count.min(room) * self.size;
                // SAFETY: both operands are valid and have at least `bytes` bytes without gaps.
                unsafe {
                    to.address
                        .cast::<u8>()
                        .copy_from(from.address.cast(), bytes)
                };
                Ok(())
            }
            // SAFETY: the caller passes valid operands.
            _ => unsafe { self.scatter(rt, &self.gather(rt, from)?, to) },
        }
    }

    /// Combines each element of `into` with that of `from`, and stores the result in `into`.
    ///
    /// # Errors
    /// Fails if a real procedure fails.
    ///
    /// # Safety
    /// The operands' memory must be valid.
    pub unsafe fn combine(
        &self,
        rt: &Runtime,
        from: Operand,
        into: Operand,
        op: VirtOp,
    ) -> Result<(), c_int> {
        let reduce = |from: *const c_void, into: *mut c_void, count: usize| {
            let count = c_int::try_from(count).map_err(|_| ERR_TYPE)?;
            // SAFETY: there are `count` elements at both addresses.
            check(unsafe { real::PMPI_Reduce_local(from, into, count, self.real, real_op(rt, op)) })
        };
        // SAFETY: the caller passes valid operands, and the copies are as long as their elements.
        unsafe {
            let copies = match self.in_place(from) {
                Some(_) => None,
                None => Some(self.gather(rt, from)?),
            };
            let origin = copies
                .as_ref()
                .map_or(from.address.cast_const(), |copies| copies.address());
            match self.in_place(into) {
                Some(count) => reduce(origin, into.address, count),
                None => {
                    let whole = self.gather(rt, into)?;
                    reduce(origin, whole.address(), whole.count)?;
                    self.scatter(rt, &whole, into)
                }
            }
        }
    }

    /// True if two elements are equal; elements must have no gaps.
    ///
    /// # Safety
    /// Each address must point to an element.
    pub unsafe fn are_equal(&self, one: *const c_void, other: *const c_void) -> bool {
        // SAFETY: the caller passes the address of an element, which has `size` bytes.
        let bytes =
            |at: *const c_void| unsafe { std::slice::from_raw_parts(at.cast::<u8>(), self.size) };
        bytes(one) == bytes(other)
    }
}

fn check(rc: c_int) -> Result<(), c_int> {
    if rc == SUCCESS { Ok(()) } else { Err(rc) }
}

/// # Safety
/// As for `MPI_Pack`.
unsafe fn pack(
    from: *const c_void,
    count: c_int,
    datatype: RealDatatype,
    to: *mut c_void,
    bytes: usize,
) -> Result<(), c_int> {
    let (room, mut position) = (c_int::try_from(bytes).map_err(|_| ERR_TYPE)?, 0);
    // SAFETY: the caller passes a buffer of `count` items, and `bytes` bytes of room at `to`.
    check(unsafe {
        real::PMPI_Pack(
            from,
            count,
            datatype,
            to,
            room,
            &mut position,
            RealComm::world(),
        )
    })
}

/// # Safety
/// As for `MPI_Unpack`.
unsafe fn unpack(
    from: *const c_void,
    bytes: usize,
    to: *mut c_void,
    count: c_int,
    datatype: RealDatatype,
) -> Result<(), c_int> {
    let (room, mut position) = (c_int::try_from(bytes).map_err(|_| ERR_TYPE)?, 0);
    // SAFETY: the caller passes `bytes` packed bytes, and room for `count` items at `to`.
    check(unsafe {
        real::PMPI_Unpack(
            from,
            room,
            &mut position,
            to,
            count,
            datatype,
            RealComm::world(),
        )
    })
}
