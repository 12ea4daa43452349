//! Memory for the copies of pages.
//!
//! [`PageStore`] allocates the slots, `arena` provides their memory.

mod arena;
mod page_store;
mod pins;
mod shares;
mod slot;
mod store_config;
mod store_error;

pub use arena::{Files, Front, SUMS_AT};
pub use page_store::PageStore;
pub use slot::{Extent, Slot};
pub use store_config::StoreConfig;
pub use store_error::StoreError;
