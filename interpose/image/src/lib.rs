//! In-memory checkpoints of one rank's program side.
//!
//! The modules, from the kernel upwards:
//!
//! * [`vmas`] reads `/proc/self/maps` and determines the owner of each mapping;
//! * [`layout`] describes the mappings of the program side as a value that another process can
//!   receive, [`shared`] the windows among them whose memory workers share;
//! * [`kernel`] wraps the `PAGEMAP_SCAN` and `userfaultfd` ioctls;
//! * [`track`] finds the pages with content and those written since the last capture;
//! * [`store`] is the arena that contains the page copies;
//! * [`epoch`] maps pages to copies, and [`wire`] splits the copies into messages;
//! * [`sums`] computes the checksum that belongs to every copy of a page, [`absent`] lists the
//!   checksums of pages without a copy;
//! * [`alike`] finds pages that are equal on two workers (deduplication);
//! * [`parity`] computes what is stored instead of whole copies, [`helper`] is the thread for that;
//! * [`prefault`] makes memory present before pages are copied into it;
//! * [`opened`] gives access to pages that the program has protected;
//! * [`capture`] creates an [`epoch::Delta`], [`restore`] restores an [`epoch::Image`].
//!
//! All of this requires that the threads of the program side are stopped, and that the crate's own
//! code, stack and heap lie outside of the program side.

pub mod absent;
pub mod alike;
pub mod capture;
pub mod epoch;
pub mod helper;
pub mod kernel;
pub mod layout;
pub mod opened;
pub mod own_memory;
pub mod parity;
pub mod prefault;
pub mod procmap;
pub mod remap;
pub mod restore;
pub mod shared;
pub mod store;
pub mod sums;
pub mod threads;
pub mod track;
pub mod vmas;
pub mod wire;

mod fill;
mod observe;
mod prot;
mod settled;

#[cfg(test)]
mod tests;

pub use understudy_formats::pages as runs;
pub use understudy_formats::pages::{PAGE_SHIFT, PAGE_SIZE};
