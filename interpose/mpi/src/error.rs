//! Errors of the library: return codes other than success.
#![allow(unsafe_code)]

use crate::call::ABANDONED;
use crate::procedures::real;
use std::ffi::{c_char, c_int};
use std::fmt;

/// Error of the library or of the runtime, as a code or class of MPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error(c_int);

/// Result of a procedure of the library.
pub type Result<T> = std::result::Result<T, Error>;

const SUCCESS: c_int = 0;

impl Error {
    /// The call was abandoned or not started, since the MPI instance is over.
    pub const ABANDONED: Error = Error(ABANDONED);
    pub const OTHER: Error = Error(16);
    pub const INTERN: Error = Error(17);

    /// Returns the code that the library has returned.
    pub fn code(self) -> c_int {
        self.0
    }

    /// Returns the class of the code.
    pub fn class(self) -> c_int {
        let mut class = self.0;
        // SAFETY: a local query, which writes one number.
        unsafe { real::PMPI_Error_class(self.0, &mut class) };
        class
    }

    /// Returns the more important of two errors.
    ///
    /// [`Error::ABANDONED`] is more important than any other error, because the failure of a
    /// process may have caused the other error. Of two other errors, the first one is returned.
    #[must_use]
    pub fn worse(self, other: Error) -> Error {
        if other == Error::ABANDONED {
            other
        } else {
            self
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.0))
    }
}

impl std::error::Error for Error {}

impl From<Error> for c_int {
    fn from(error: Error) -> c_int {
        error.0
    }
}

/// Converts a return code to a result.
#[inline]
pub fn check(rc: c_int) -> Result<()> {
    if rc == SUCCESS {
        Ok(())
    } else {
        Err(Error(rc))
    }
}

/// Returns success if both results are successes, else the more important error.
pub fn combine_results(one: Result<()>, other: Result<()>) -> Result<()> {
    match (one, other) {
        (Err(one), Err(other)) => Err(one.worse(other)),
        (one, other) => one.and(other),
    }
}

/// Returns the library's text for an error class or code.
pub fn text(rc: c_int) -> String {
    /// Greatest `MPI_MAX_ERROR_STRING` of any ABI.
    const TEXT_CAPACITY: usize = 512;
    let mut buffer = [0u8; TEXT_CAPACITY];
    let mut length = 0;
    // SAFETY: there is room for any text of MPI_Error_string.
    unsafe { real::PMPI_Error_string(rc, buffer.as_mut_ptr().cast::<c_char>(), &mut length) };
    String::from_utf8_lossy(&buffer[..length.clamp(0, TEXT_CAPACITY as c_int) as usize])
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_of_a_process_is_worse_than_any_other_error() {
        let (failed, wrong) = (Err(Error::ABANDONED), Err(Error::OTHER));
        for (one, other) in [
            (failed, wrong),
            (wrong, failed),
            (failed, Ok(())),
            (Ok(()), failed),
        ] {
            assert_eq!(combine_results(one, other), failed);
        }
        assert_eq!(combine_results(wrong, Err(Error::INTERN)), wrong);
        assert_eq!(
            (
                combine_results(Ok(()), wrong),
                combine_results(Ok(()), Ok(()))
            ),
            (wrong, Ok(()))
        );
        assert_eq!(check(Error::OTHER.code()), wrong);
    }
}
