//! Access rights of mappings.

#![allow(unsafe_code)]

use super::pages::AddrRange;
use super::vmas::Prot;
use std::io;

/// An area's access rights could not be changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot change the access rights of {range:x?} to {prot:?}")]
pub struct ProtError {
    pub range: AddrRange,
    pub prot: Prot,
    pub source: io::Error,
}

/// True if the kernel would grant write access.
///
/// The list of mappings does not show this, so the access rights are changed and restored.
pub(super) fn probe_write_access(range: AddrRange, prot: Prot) -> bool {
    let wanted = Prot {
        write: true,
        ..prot
    };
    let allowed = protect(range, wanted).is_ok();
    // A refused call may have changed a part of the range, so the rights are restored in any case.
    let restored = protect(range, prot);
    allowed && restored.is_ok()
}

/// Sets the access rights of a range of the program side.
pub(super) fn protect(range: AddrRange, prot: Prot) -> Result<(), ProtError> {
    let bytes = range.len() as usize;
    // SAFETY: the range belongs to the program side, whose threads are stopped. The new access
    // rights are the range's former ones, those of its saved layout, or temporarily extended ones.
    let rc = unsafe { libc::mprotect(range.start as *mut libc::c_void, bytes, prot.bits()) };
    if rc != 0 {
        let source = io::Error::last_os_error();
        return Err(ProtError {
            range,
            prot,
            source,
        });
    }
    Ok(())
}
