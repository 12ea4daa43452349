//! Exit statuses of a job that understudy ends (after sysexits.h).

use core::ffi::c_int;

/// The program fails repeatedly at one place (EX_DATAERR).
pub const PROGRAM: c_int = 65;
/// Internal error of understudy (EX_SOFTWARE).
pub const INTERNAL: c_int = 70;
/// The program's state could not be saved or restored (EX_IOERR).
pub const UNSAVED: c_int = 74;
/// Recovery from a failure was impossible (EX_TEMPFAIL).
pub const LOST: c_int = 75;
/// The job could not be protected, and `UNDERSTUDY_REQUIRE=1` (EX_CONFIG).
pub const REFUSED: c_int = 78;
