//! Pages that other processes or devices may write, which the kernel's tracking does not report.
//!
//! The list contains the pages of MPI windows, and, while landings are noted
//! ([`understudy_mpi::landings`]), those of receive buffers.

use super::own_replica::replicas;
use crate::Runtime;
use crate::handles::real_datatype;
use crate::objects::window;
use crate::requests;
use crate::requests::{RequestKind, RequestState};
use understudy_image::pages::{self, AddrRange, PageRun};
use understudy_image::track::Tracker;
use understudy_mpi::landings;

/// Returns the pages of this process's windows, sorted.
fn window_pages(rt: &Runtime) -> Vec<PageRun> {
    let pages = |(start, bytes): (u64, u64)| AddrRange::new(start, start + bytes).pages();
    pages::normalise(window::exposed(rt).into_iter().map(pages).collect())
}

/// Returns the pages that requests of the program may still write, sorted.
///
/// At a cut only receives and persistent requests are open. Their messages may arrive at any later
/// time.
fn open_landings(rt: &Runtime) -> Vec<PageRun> {
    let pages_of = |index: u32| match *requests::get(rt, index)? {
        requests::Request {
            kind: RequestKind::Receive(message),
            state: RequestState::Active,
            ..
        } => {
            let datatype = real_datatype(rt, message.datatype());
            landings::pages_of_receive(message.buffer, message.count, datatype)
        }
        _ => None,
    };
    let receives = requests::indices(rt).filter_map(pages_of);
    pages::union(
        &pages::normalise(receives.collect()),
        &landings::persistent_pages(),
    )
}

/// Makes the tracker detect writes of other processes into windows from now on.
pub fn expose_windows(rt: &Runtime) {
    if let Some(keep) = rt.copies.keep.borrow_mut().as_mut() {
        keep.tracker.expose(&window_pages(rt));
    }
}

/// Makes the tracker detect what devices have written since the last capture.
pub fn expose_landings(tracker: &mut Tracker) {
    if landings::are_noted() {
        tracker.expose(&landings::take_noted_pages());
    }
}

/// Exposes only windows, open receives and persistent requests, after a capture.
///
/// Later calls expose the pages that they may write.
pub fn expose_only_open(rt: &Runtime) {
    let mut open = window_pages(rt);
    if landings::are_noted() {
        open = pages::union(&open, &open_landings(rt));
    }
    replicas(rt).tracker.expose_only(open);
}
