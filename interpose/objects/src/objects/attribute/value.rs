//! Values of attributes, which are addresses in C and integers in Fortran (MPI 4.1, 19.3.7).
#![allow(unsafe_code)]

use crate::errors::ERR_NO_MEM;
use crate::user::heap;
use std::ffi::c_int;

/// Who sets or sees a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Language {
    /// Procedures and functions with values of the size of an address.
    C,
    /// Those with integers of that size.
    Fortran,
}

/// A value, as it has been set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Value {
    Address(u64),
    /// In Fortran: the address of a block of the program's heap with the integer. C sees that
    /// address.
    Integer(u64),
}

/// Keys and values, in the order in which they were set.
pub type Attributes = Vec<(i32, Value)>;

/// Bytes of an integer.
const BYTES: u64 = size_of::<u64>() as u64;

impl Value {
    /// A value that is set in this language. To be called in a handler.
    pub fn new(value: u64, language: Language) -> Result<Value, c_int> {
        if language == Language::C {
            return Ok(Value::Address(value));
        }
        match heap::allocate(BYTES) {
            0 => Err(ERR_NO_MEM),
            block => {
                // SAFETY: a new block of this size.
                unsafe { (block as *mut u64).write(value) };
                Ok(Value::Integer(block))
            }
        }
    }

    /// What is seen of it in this language: an integer that C has not set is an address there.
    pub fn seen(self, language: Language) -> u64 {
        match (self, language) {
            (Value::Address(value), _) | (Value::Integer(value), Language::C) => value,
            // SAFETY: a block of `new`, which stays as long as the attribute does.
            (Value::Integer(block), Language::Fortran) => unsafe { (block as *const u64).read() },
        }
    }

    /// The same value of another attribute. To be called in a handler.
    pub fn duplicate(self) -> Result<Value, c_int> {
        match self {
            Value::Address(_) => Ok(self),
            Value::Integer(_) => Value::new(self.seen(Language::Fortran), Language::Fortran),
        }
    }

    /// The attribute goes. To be called in a handler.
    pub fn free(self) {
        if let Value::Integer(block) = self {
            heap::free(block);
        }
    }
}
