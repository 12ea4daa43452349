//! Access rights of mappings.

#![allow(unsafe_code)]

use super::runs::AddrRange;
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

/// Whether the kernel would give write access; the list of mappings does not tell.
pub(super) fn can_be_written(range: AddrRange, prot: Prot) -> bool {
    let wanted = Prot {
        write: true,
        ..prot
    };
    let allowed = protect(range, wanted).is_ok();
    // Also after a refusal: it may have come in the middle of the range.
    let back = protect(range, prot);
    allowed && back.is_ok()
}

pub(super) fn protect(range: AddrRange, prot: Prot) -> Result<(), ProtError> {
    let bytes = range.len() as usize;
    // SAFETY: the range belongs to the user side, whose threads stand still, and gets back the
    // access it had or the one of its saved layout.
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
