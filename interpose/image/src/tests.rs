//! Tests on memory of this process.
//!
//! Each test uses its own address range, so that tests can run in parallel.

mod alike;
mod cycles;
mod kernel_facts;
mod parity;
mod process;
mod random;
mod store;
mod support;
mod timing;
mod wire;
