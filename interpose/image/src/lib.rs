//! The in-memory checkpoint of one rank's user side.
//!
//! The pieces, from the kernel upwards:
//!
//! * [`vmas`] reads `/proc/self/maps` and decides who owns each mapping;
//! * [`layout`] is the user side's mappings as a value that can be sent to another process,
//!   [`shared`] what of that workers share as a window;
//! * [`kernel`] wraps the `PAGEMAP_SCAN` and `userfaultfd` ioctls;
//! * [`track`] finds which pages hold content and which were written since the last capture;
//! * [`store`] is the arena the page copies live in;
//! * [`epoch`] maps pages to copies, and [`wire`] cuts those copies into messages;
//! * [`sums`] are the checksums that every copy of a page carries, [`absent`] those of pages
//!   without a copy;
//! * [`alike`] finds pages that another worker has, too;
//! * [`parity`] is what is kept in place of whole copies, [`helper`] the thread that makes it;
//! * [`prefault`] makes memory present ahead of a copy into it;
//! * [`opened`] gives access to pages that the program has protected;
//! * [`capture`] makes a [`epoch::Delta`], [`restore`] puts an [`epoch::Image`] back.
//!
//! Everything here expects the user side's threads to stand still, and its own code, stack and
//! heap to lie outside the user side.

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
