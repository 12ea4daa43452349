//! In-memory checkpoints of one rank's program side.
//!
//! The main modules, from the kernel upwards:
//!
//! * [`vmas`] reads `/proc/self/maps` and determines the owner of each mapping;
//! * [`layout`] describes the mappings of the program side as a value that another process can
//!   receive, [`window_memory`] the windows among them whose memory workers share;
//! * [`kernel`] wraps the `PAGEMAP_SCAN` and `userfaultfd` ioctls;
//! * [`track`] finds the pages with content and those written since the last capture;
//! * [`store`] is the arena that contains the page copies;
//! * [`image_delta`] maps pages to copies, and [`wire`] splits the copies into messages;
//! * [`sums`] computes the checksum that belongs to every copy of a page, [`absent_pages`] lists
//!   the checksums of pages without a copy;
//! * [`deduplication`] finds pages that are equal on two workers;
//! * [`parity`] combines pages of several ranks, so that one copy protects them all; [`helper`] is
//!   the thread that computes parity and checksums;
//! * [`prefault`] makes memory present before pages are copied into it;
//! * [`opened`] gives temporary access to pages that the program has protected;
//! * [`capture`] creates a [`Delta`](image_delta::Delta), [`restore`] restores an
//!   [`Image`](image_delta::Image).
//!
//! The threads of the program side must be stopped during a capture and a restore. The crate's own
//! code, stack and heap must lie outside of the program side.

pub mod absent_pages;
pub mod blind_writes;
pub mod capture;
pub mod deduplication;
pub mod helper;
pub mod image_delta;
pub mod kernel;
pub mod layout;
pub mod opened;
pub mod parity;
pub mod prefault;
pub mod process_memory;
pub mod procmap;
pub mod remap;
pub mod restore;
pub mod store;
pub mod sums;
pub mod threads;
pub mod track;
pub mod vmas;
pub mod window_memory;
pub mod wire;

mod fault_in;
mod fill;
mod observe;
mod page_comparison;
mod pagemap_entries;
mod prot;
mod scratch;
mod stable_pages;

#[cfg(test)]
mod tests;

pub use understudy_formats::pages;
pub use understudy_formats::pages::{PAGE_SHIFT, PAGE_SIZE};
