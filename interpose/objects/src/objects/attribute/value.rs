//! Values of attributes, which are addresses in C and integers in Fortran (MPI 4.1, 19.3.7).
#![allow(unsafe_code)]

use crate::errors::ERR_NO_MEM;
use crate::user::heap;
use std::ffi::c_int;

/// Language of a procedure that sets, or a function that reads, a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Language {
    /// Language of procedures and functions whose values are addresses.
    C,
    /// Language of procedures and functions whose values are integers of the size of an address.
    Fortran,
}

/// Value of an attribute, together with the language that set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum AttributeValue {
    Address(u64),
    /// Address of a heap block of the program with an integer that Fortran has set.
    ///
    /// C sees the address of the block.
    Integer(u64),
}

/// Keys and values, in the order in which they were set.
pub type Attributes = Vec<(i32, AttributeValue)>;

/// Size of an integer that Fortran sets (`MPI_ADDRESS_KIND`), in bytes.
const INTEGER_SIZE: u64 = size_of::<u64>() as u64;

impl AttributeValue {
    /// Returns a value that is set in `language`. Must be called in a handler.
    pub fn new(value: u64, language: Language) -> Result<AttributeValue, c_int> {
        if language == Language::C {
            return Ok(AttributeValue::Address(value));
        }
        match heap::allocate(INTEGER_SIZE) {
            0 => Err(ERR_NO_MEM),
            block => {
                // SAFETY: a new block of this size.
                unsafe { (block as *mut u64).write(value) };
                Ok(AttributeValue::Integer(block))
            }
        }
    }

    /// Returns the value as `language` sees it.
    ///
    /// Fortran sees an address that C has set as an integer; C sees an integer that Fortran has set
    /// as the address of the integer.
    pub fn as_seen_by(self, language: Language) -> u64 {
        match (self, language) {
            (AttributeValue::Address(value), _) | (AttributeValue::Integer(value), Language::C) => {
                value
            }
            // SAFETY: a block of `new`, which exists as long as the attribute.
            (AttributeValue::Integer(block), Language::Fortran) => unsafe {
                (block as *const u64).read()
            },
        }
    }

    /// Returns an equal value for another attribute. Must be called in a handler.
    pub fn duplicate(self) -> Result<AttributeValue, c_int> {
        match self {
            AttributeValue::Address(_) => Ok(self),
            AttributeValue::Integer(_) => {
                AttributeValue::new(self.as_seen_by(Language::Fortran), Language::Fortran)
            }
        }
    }

    /// Releases the value of an attribute that is removed. Must be called in a handler.
    pub fn free(self) {
        if let AttributeValue::Integer(block) = self {
            heap::free(block);
        }
    }
}
