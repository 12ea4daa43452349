//! Access to areas the application itself may not read or write at the moment.
//!
//! `mprotect` on a whole area and back leaves the mappings as they were, keeps the write
//! protection of the tracking, and works at the speed of memory, unlike `/proc/self/mem`.

use super::layout::Layout;
use super::prot::{ProtError, protect};
use super::runs::{self, AddrRange, PageRun};
use super::vmas::Prot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Read,
    Write,
}

/// Areas opened for the time being; dropping closes them, [`Opened::close`] also tells how it went.
#[derive(Debug, Default)]
pub struct Opened {
    before: Vec<(AddrRange, Prot)>,
}

impl Opened {
    /// Opens every tracked area that holds one of `pages` and lacks the access needed.
    pub fn open(layout: &Layout, pages: &[PageRun], need: Need) -> Result<Self, ProtError> {
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

impl Drop for Opened {
    fn drop(&mut self) {
        // Only on the way out with another error, which is the one to report.
        let _ = self.close_all();
    }
}
