//! Marks as the program has made them, for whoever asks what they have saved.

use understudy_formats::events::MarkWay as Way;
use understudy_image::runs::AddrRange;

/// Statement of the program about some memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Mark {
    pub way: Way,
    pub memory: AddrRange,
    /// Place of the statement: the call's return address.
    pub place: u64,
}

/// Most marks that are kept: a program may mark other memory each time.
const LIMIT: usize = 64;

/// Different marks, in the order of their first call.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct MarkList(Vec<Mark>);

impl MarkList {
    pub const NONE: MarkList = MarkList(Vec::new());

    /// Adds one, if it is new.
    pub fn add(&mut self, mark: Mark) {
        if self.0.len() < LIMIT && !self.0.contains(&mark) {
            self.0.push(mark);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Mark> + '_ {
        self.0.iter().copied()
    }

    pub fn retain(&mut self, keep: impl Fn(&Mark) -> bool) {
        self.0.retain(keep);
    }

    /// All of them, which are kept no more.
    pub fn take(&mut self) -> Vec<Mark> {
        std::mem::take(&mut self.0)
    }
}
