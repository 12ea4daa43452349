//! Pages that a capture omits because of annotations of the program.

use crate::Runtime;
use crate::annotations::{self, Annotation, AnnotationKind};
use crate::events;
use crate::journal::address_names;
use understudy_formats::events::{AnnotationSaving, Kind};
use understudy_image::capture::OmittedPages;
use understudy_image::pages::{self, PageRun};
use understudy_numbers::Epoch;

/// Largest number of listed annotations of a capture.
const MAX_LISTED_ANNOTATIONS: usize = 64;

/// Records the omitted pages in the event file, if the program has annotated memory.
pub fn record(
    rt: &Runtime,
    epoch: Epoch,
    at_point: bool,
    omitted: OmittedPages,
    elided: &[PageRun],
) {
    let (counting, forgotten) = annotations::at_cut(rt, at_point);
    if counting.is_empty() && forgotten.is_empty() || !events::is_recording() {
        return;
    }
    let pages = pages::total(&omitted.written);
    let mut annotation_shares = shares(&counting, omitted, elided);
    annotation_shares.extend(forgotten.into_iter().map(|annotation| AnnotationShare {
        annotation,
        counts: false,
        held: 0,
        saved: 0,
    }));
    annotation_shares.sort_by_key(|it| std::cmp::Reverse((it.saved, it.held)));
    annotation_shares.truncate(MAX_LISTED_ANNOTATIONS);
    let name =
        |place| annotations::place_name(rt, place, || address_names::names(&[place]).concat());
    let savings = annotation_shares
        .into_iter()
        .map(|share| share.saving(name));
    events::emit(Kind::Elided {
        epoch,
        pages,
        marks: savings.collect(),
    });
}

/// Numbers of pages that an annotation has left out of a capture.
struct AnnotationShare {
    annotation: Annotation,
    /// True if the annotation applied to the capture.
    counts: bool,
    /// Number of omitted pages that have content.
    held: u64,
    /// Number of omitted pages that would have been captured and sent.
    saved: u64,
}

impl AnnotationShare {
    fn saving(&self, name: impl Fn(u64) -> String) -> AnnotationSaving {
        let Annotation { way, memory, place } = self.annotation;
        AnnotationSaving {
            way,
            place: name(place),
            start: memory.start,
            bytes: memory.len(),
            whole_pages: pages::total(&annotations::whole_pages(memory)),
            counts: self.counts,
            held_pages: self.held,
            saved_pages: self.saved,
        }
    }
}

/// Returns the numbers of pages that each annotation saves.
///
/// Pages with several annotations count for the first annotation. If a function of the program
/// undoes the changes of pages, these pages are captured, but the worker's own replica omits those
/// in `elided`.
fn shares(
    annotations: &[Annotation],
    mut omitted: OmittedPages,
    elided: &[PageRun],
) -> Vec<AnnotationShare> {
    let take = |from: &mut Vec<PageRun>, pages: &[PageRun]| {
        let taken = pages::total(&pages::intersect(from, pages));
        *from = pages::subtract(from, pages);
        taken
    };
    let share = |&annotation: &Annotation| {
        let pages = annotations::whole_pages(annotation.memory);
        if annotation.way == AnnotationKind::Reverse {
            return AnnotationShare {
                annotation,
                counts: true,
                held: pages::total(&pages::intersect(elided, &pages)),
                saved: 0,
            };
        }
        AnnotationShare {
            annotation,
            counts: true,
            held: take(&mut omitted.content, &pages),
            saved: take(&mut omitted.written, &pages),
        }
    };
    annotations.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_image::pages::AddrRange;

    #[test]
    fn a_page_that_is_marked_twice_is_saved_once() {
        let mark = |start, end| Annotation {
            way: AnnotationKind::Exclude,
            memory: AddrRange::new(start, end),
            place: 0,
        };
        let omitted = OmittedPages {
            content: vec![PageRun::between(1, 6)],
            written: vec![PageRun::between(3, 5)],
        };
        let shares = shares(
            &[
                mark(0x1000, 0x4000),
                mark(0x2000, 0x9000),
                mark(0x1001, 0x1002),
            ],
            omitted,
            &[],
        );
        let reported: Vec<_> = shares.iter().map(|it| (it.held, it.saved)).collect();
        assert_eq!(reported, [(3, 1), (2, 1), (0, 0)]);
        assert_eq!(shares[2].saving(|_| String::new()).whole_pages, 0);
    }
}
