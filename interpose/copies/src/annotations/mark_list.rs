//! List of the program's annotations, for reports of the savings.

use understudy_formats::events::AnnotationKind;
use understudy_image::pages::AddrRange;

/// Annotation of some memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Annotation {
    pub way: AnnotationKind,
    pub memory: AddrRange,
    /// Place of the annotation: the call's return address.
    pub place: u64,
}

/// Maximum number of entries, because each call may annotate different memory.
const MAX_ANNOTATIONS: usize = 64;

/// Distinct annotations, in the order of their first call.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct AnnotationList(Vec<Annotation>);

impl AnnotationList {
    pub const NONE: AnnotationList = AnnotationList(Vec::new());

    /// Adds an annotation if it is new.
    pub fn add(&mut self, mark: Annotation) {
        if self.0.len() < MAX_ANNOTATIONS && !self.0.contains(&mark) {
            self.0.push(mark);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Annotation> + '_ {
        self.0.iter().copied()
    }

    pub fn retain(&mut self, keep: impl Fn(&Annotation) -> bool) {
        self.0.retain(keep);
    }

    /// Removes and returns all annotations.
    pub fn take(&mut self) -> Vec<Annotation> {
        std::mem::take(&mut self.0)
    }
}
