//! Threads of the program: an understudy cannot bring them back, so a checkpoint with any of them is refused.
#![allow(unsafe_code)]

use super::UserError;

/// Refuses if the program has created a thread.
pub fn check() -> Result<(), UserError> {
    // SAFETY: the face's counter lives as long as the process.
    let created = unsafe { crate::told::info().user_threads.read_volatile() };
    if created == 0 {
        Ok(())
    } else {
        Err(UserError::Threads(created))
    }
}
