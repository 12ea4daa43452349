//! Any number of bytes as one message, although counts of procedures have 31 bits.
#![allow(unsafe_code)]

use crate::comm::byte;
use crate::error::{Result, check};
use crate::procedures::real;
use crate::real_types::RealDatatype;
use std::ffi::c_int;

/// Size of a block in bytes, for more bytes than a count can express.
const BLOCK: usize = 1 << 30;

/// Count and datatype that describe a number of bytes.
pub struct Bytes {
    count: c_int,
    datatype: RealDatatype,
    is_made: bool,
}

impl Bytes {
    /// Returns count and datatype for `length` bytes.
    ///
    /// # Errors
    /// The library's error.
    pub fn new(length: usize) -> Result<Bytes> {
        if let Ok(count) = c_int::try_from(length) {
            return Ok(Bytes {
                count,
                datatype: byte(),
                is_made: false,
            });
        }
        let (blocks, rest) = ((length / BLOCK) as c_int, (length % BLOCK) as c_int);
        let none = RealDatatype(std::ptr::null_mut());
        let (mut block, mut most, mut all) = (none, none, none);
        let ends = [0, (length - length % BLOCK) as isize];
        // SAFETY: variables of this function; lengths, displacements and types of two parts.
        unsafe {
            check(real::PMPI_Type_contiguous(
                BLOCK as c_int,
                byte(),
                &mut block,
            ))?;
            check(real::PMPI_Type_contiguous(blocks, block, &mut most))?;
            let (lengths, types) = ([1, rest], [most, byte()]);
            check(real::PMPI_Type_create_struct(
                2,
                lengths.as_ptr(),
                ends.as_ptr(),
                types.as_ptr(),
                &mut all,
            ))?;
            check(real::PMPI_Type_commit(&mut all))?;
            check(real::PMPI_Type_free(&mut block))?;
            check(real::PMPI_Type_free(&mut most))?;
        }
        Ok(Bytes {
            count: 1,
            datatype: all,
            is_made: true,
        })
    }

    /// Returns the number of elements of [`Bytes::datatype`].
    pub fn count(&self) -> c_int {
        self.count
    }

    /// Returns the datatype, which exists until this value is dropped.
    ///
    /// Messages in flight keep it alive.
    pub fn datatype(&self) -> RealDatatype {
        self.datatype
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if self.is_made {
            // SAFETY: a datatype of the runtime.
            unsafe { real::PMPI_Type_free(&mut self.datatype) };
        }
    }
}
