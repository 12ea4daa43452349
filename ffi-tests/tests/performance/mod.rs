//! Costs stay within their bounds, and do not grow with the number of failures.

mod auto_interval;
mod checkpoint_watchdog;
mod observers;
mod soak;
