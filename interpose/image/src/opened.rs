//! Temporary access to areas that the program cannot read or write at the moment.
//!
//! The access rights are changed by mprotect(2) and restored afterwards. Neither call changes the
//! write protection by which the kernel tracks changes. Copies of opened areas are faster than
//! access through `/proc/self/mem`, because they are plain loads and stores.

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
    /// Opened areas with their original access rights.
    original_rights: Vec<(AddrRange, Prot)>,
}

impl OpenedAreas {
    /// Opens every tracked area that contains one of `pages` and lacks the needed access.
    pub fn open(layout: &Layout, pages: &[PageRun], need: NeededAccess) -> Result<Self, ProtError> {
        let mut opened = Self::default();
        for area in layout.tracked() {
            let has_access = match need {
                NeededAccess::Read => area.prot.read || area.prot.write,
                NeededAccess::Write => area.prot.write,
            };
            if has_access || pages::within(pages, area.pages()).is_empty() {
                continue;
            }
            let wanted = Prot {
                read: true,
                write: area.prot.write || need == NeededAccess::Write,
                exec: area.prot.exec,
            };
            protect(area.range, wanted)?;
            opened.original_rights.push((area.range, area.prot));
        }
        Ok(opened)
    }

    /// Restores the access rights.
    ///
    /// # Errors
    /// The first error; the other areas are restored nevertheless.
    pub fn close(mut self) -> Result<(), ProtError> {
        self.close_all()
    }

    fn close_all(&mut self) -> Result<(), ProtError> {
        let mut result = Ok(());
        for (range, prot) in self.original_rights.drain(..) {
            result = result.and(protect(range, prot));
        }
        result
    }
}

impl Drop for OpenedAreas {
    fn drop(&mut self) {
        // Without `close` the areas are dropped only after another error, which the caller reports.
        let _ = self.close_all();
    }
}
