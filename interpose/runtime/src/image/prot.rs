//! Access to areas the application itself may not read or write at the moment.
//!
//! `mprotect` on a whole area and back leaves the mappings as they were, keeps the write
//! protection of the tracking, and works at the speed of memory, unlike `/proc/self/mem`.

#![allow(unsafe_code)]

use super::layout::Layout;
use super::runs::{self, AddrRange, PageRun};
use super::vmas::Prot;
use std::io;

/// An area's access rights could not be changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot change the access rights of {range:x?} to {prot:?}")]
pub struct ProtError {
    /// The area.
    pub range: AddrRange,
    /// The rights wanted.
    pub prot: Prot,
    /// The kernel's answer.
    pub source: io::Error,
}

/// The access needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Read,
    Write,
}

/// Areas opened for the time being; dropping closes them, [`Opened::close`] also tells how it went.
#[derive(Debug, Default)]
pub(super) struct Opened {
    before: Vec<(AddrRange, Prot)>,
}

impl Opened {
    /// Opens every tracked area that holds one of `pages` and lacks the access needed.
    pub(super) fn open(layout: &Layout, pages: &[PageRun], need: Need) -> Result<Self, ProtError> {
        let mut opened = Self::default();
        for area in layout.tracked() {
            let has = match need {
                Need::Read => area.prot.read || area.prot.write,
                Need::Write => area.prot.write,
            };
            if has || runs::within(pages, area.pages()).is_empty() {
                continue;
            }
            let wanted = Prot {
                read: true,
                write: area.prot.write || need == Need::Write,
                exec: area.prot.exec,
            };
            protect(area.range, wanted)?;
            opened.before.push((area.range, area.prot));
        }
        Ok(opened)
    }

    pub(super) fn close(mut self) -> Result<(), ProtError> {
        self.close_all()
    }

    fn close_all(&mut self) -> Result<(), ProtError> {
        let mut result = Ok(());
        for (range, prot) in self.before.drain(..) {
            result = result.and(protect(range, prot));
        }
        result
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Only on the way out with another error, which is the one to report.
        let _ = self.close_all();
    }
}

/// Whether the kernel would give write access; the list of mappings does not tell.
pub(super) fn can_be_written(range: AddrRange, prot: Prot) -> bool {
    let wanted = Prot { write: true, ..prot };
    let allowed = protect(range, wanted).is_ok();
    // Also after a refusal: it may have come in the middle of the range.
    let back = protect(range, prot);
    allowed && back.is_ok()
}

/// `mprotect`.
pub(super) fn protect(range: AddrRange, prot: Prot) -> Result<(), ProtError> {
    let bytes = range.len() as usize;
    // SAFETY: the range belongs to the user side, whose threads stand still, and gets back the
    // access it had or the one of its saved layout.
    let rc = unsafe { libc::mprotect(range.start as *mut libc::c_void, bytes, prot.bits()) };
    if rc != 0 {
        let source = io::Error::last_os_error();
        return Err(ProtError { range, prot, source });
    }
    Ok(())
}
