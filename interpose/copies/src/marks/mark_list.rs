//! List of the program's annotations, for reports of the savings.

use understudy_formats::events::MarkWay as Way;
use understudy_image::runs::AddrRange;

/// Annotation of some memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Mark {
    pub way: Way,
    pub memory: AddrRange,
    /// Place of the annotation: the call's return address.
    pub place: u64,
}

/// Maximum number of entries, since a program may annotate other memory each time.
const LIMIT: usize = 64;

/// Distinct annotations, in the order of their first call.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct MarkList(Vec<Mark>);

impl MarkList {
    pub const NONE: MarkList = MarkList(Vec::new());

    /// Adds an annotation if it is new.
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

    /// Removes and returns all annotations.
    pub fn take(&mut self) -> Vec<Mark> {
        std::mem::take(&mut self.0)
    }
}
