//! Tracking of changed pages in MPI windows, which other processes write.

use super::own_replica::replicas;
use crate::Runtime;
use crate::objects::window;
use understudy_image::pages::{self, AddrRange, PageRun};

/// Returns the pages of this process's windows, sorted.
fn exposed(rt: &Runtime) -> Vec<PageRun> {
    let pages = |(start, bytes): (u64, u64)| AddrRange::new(start, start + bytes).pages();
    pages::normalise(window::exposed(rt).into_iter().map(pages).collect())
}

/// Makes the tracker detect writes of other processes into windows from now on.
pub fn expose_windows(rt: &Runtime) {
    if let Some(keep) = rt.copies.keep.borrow_mut().as_mut() {
        keep.tracker.expose(&exposed(rt));
    }
}

/// Limits the detection of other processes' writes to the present windows, after a capture.
pub fn expose_only_windows(rt: &Runtime) {
    replicas(rt).tracker.expose_only(exposed(rt));
}
