//! Tests on memory of this process.
//!
//! Each test uses its own address range, so that tests can run in parallel.

mod cycles;
mod deduplication_tests;
mod device_writes;
mod kernel_facts;
mod parity_tests;
mod process;
mod random;
mod store_tests;
pub(crate) mod support;
mod timing;
mod wire_tests;
