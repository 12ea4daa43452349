//! Tests on memory of this process, in ranges of their own, so that they can run in parallel.

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
