//! Exit statuses of a job that the layer ends (after sysexits.h).

use core::ffi::c_int;

/// The program dies at one place again and again (EX_DATAERR).
pub const PROGRAM: c_int = 65;
/// An error inside the layer (EX_SOFTWARE).
pub const INTERNAL: c_int = 70;
/// The program's state could not be saved or put back (EX_IOERR).
pub const UNSAVED: c_int = 74;
/// A failure could not be recovered from (EX_TEMPFAIL).
pub const LOST: c_int = 75;
/// The job could not be protected, and `UNDERSTUDY_REQUIRE=1` (EX_CONFIG).
pub const REFUSED: c_int = 78;
