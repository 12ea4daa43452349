//! Messages of any number of bytes, although the counts of MPI procedures are `int`s.
#![allow(unsafe_code)]

use crate::abi::object;
use crate::error::{Result, check};
use crate::procedures::real;
use crate::real_types::RealDatatype;
use std::ffi::c_int;
use std::sync::OnceLock;

/// Size of a block in bytes, for more bytes than a count can express.
const BLOCK: usize = 1 << 30;

pub fn byte() -> RealDatatype {
    static BYTE: OnceLock<RealDatatype> = OnceLock::new();
    *BYTE.get_or_init(|| RealDatatype(object(c"ompi_mpi_byte")))
}

/// Count and datatype that describe a number of bytes.
pub struct Bytes {
    count: c_int,
    datatype: RealDatatype,
    is_created: bool,
}

impl Bytes {
    /// Returns count and datatype for `length` bytes.
    ///
    /// More than 2³¹ - 1 bytes are one element of a datatype, which consists of blocks of
    /// [`BLOCK`] bytes and the remaining bytes.
    ///
    /// # Errors
    /// Fails if the library reports an error.
    pub fn new(length: usize) -> Result<Bytes> {
        if let Ok(count) = c_int::try_from(length) {
            return Ok(Bytes {
                count,
                datatype: byte(),
                is_created: false,
            });
        }
        let (blocks, rest) = ((length / BLOCK) as c_int, (length % BLOCK) as c_int);
        let none = RealDatatype(std::ptr::null_mut());
        let (mut block, mut all_blocks, mut whole) = (none, none, none);
        let displacements = [0, (length - length % BLOCK) as isize];
        // SAFETY: results are variables of this function; the arrays have two elements, as the
        // count states.
        unsafe {
            check(real::PMPI_Type_contiguous(
                BLOCK as c_int,
                byte(),
                &mut block,
            ))?;
            check(real::PMPI_Type_contiguous(blocks, block, &mut all_blocks))?;
            let (lengths, types) = ([1, rest], [all_blocks, byte()]);
            check(real::PMPI_Type_create_struct(
                2,
                lengths.as_ptr(),
                displacements.as_ptr(),
                types.as_ptr(),
                &mut whole,
            ))?;
            check(real::PMPI_Type_commit(&mut whole))?;
            check(real::PMPI_Type_free(&mut block))?;
            check(real::PMPI_Type_free(&mut all_blocks))?;
        }
        Ok(Bytes {
            count: 1,
            datatype: whole,
            is_created: true,
        })
    }

    /// Returns the number of elements of [`Bytes::datatype`].
    pub fn count(&self) -> c_int {
        self.count
    }

    /// Returns the datatype, which exists until this value is dropped.
    ///
    /// Pending messages that use the datatype complete normally after the datatype is freed (MPI
    /// 4.1, 5.1.9).
    pub fn datatype(&self) -> RealDatatype {
        self.datatype
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if self.is_created {
            // SAFETY: `new` has created the datatype, and only this value frees the datatype.
            unsafe { real::PMPI_Type_free(&mut self.datatype) };
        }
    }
}
