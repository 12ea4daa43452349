//! Temporary access to areas that the program cannot read or write at the moment.
//!
//! A change of the access rights by `mprotect`, and back, leaves the mappings as they were and
//! keeps the write protection of the tracking. The access then has the speed of memory, in contrast
//! to `/proc/self/mem`.

use super::layout::Layout;
use super::pages::{self, AddrRange, PageRun};
use super::prot::{ProtError, protect};
use super::vmas::Prot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededAccess {
    Read,
    Write,
}

/// Areas with temporarily extended access rights.
///
/// Dropping restores the rights; [`OpenedAreas::close`] also reports errors.
#[derive(Debug, Default)]
pub struct OpenedAreas {
    before: Vec<(AddrRange, Prot)>,
}

impl OpenedAreas {
    /// Opens every tracked area that contains one of `pages` and lacks the needed access.
    pub fn open(layout: &Layout, pages: &[PageRun], need: NeededAccess) -> Result<Self, ProtError> {
        let mut opened = Self::default();
        for area in layout.tracked() {
            let has = match need {
                NeededAccess::Read => area.prot.read || area.prot.write,
                NeededAccess::Write => area.prot.write,
            };
            if has || pages::within(pages, area.pages()).is_empty() {
                continue;
            }
            let wanted = Prot {
                read: true,
                write: area.prot.write || need == NeededAccess::Write,
                exec: area.prot.exec,
            };
            protect(area.range, wanted)?;
            opened.before.push((area.range, area.prot));
        }
        Ok(opened)
    }

    pub fn close(mut self) -> Result<(), ProtError> {
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

impl Drop for OpenedAreas {
    fn drop(&mut self) {
        // Reached only after another error, which is the one that is reported.
        let _ = self.close_all();
    }
}
