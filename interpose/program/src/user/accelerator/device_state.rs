//! Driver and devices that this process has found in the program.

use super::driver::Driver;
use crate::user::loader::Mark;
use std::cell::Cell;

/// Driver and devices of the program that this process has found.
pub struct DeviceState {
    pub(super) driver: Cell<Option<Driver>>,
    /// State of ld.so at which the program had no driver.
    pub(super) without: Cell<Option<Mark>>,
    /// True while device memory is in the program's memory.
    pub(super) is_checkpointed: Cell<bool>,
    /// True once the use of a device has been reported.
    pub(super) is_reported: Cell<bool>,
}

impl DeviceState {
    /// State at the start of the process.
    pub const fn new() -> DeviceState {
        DeviceState {
            driver: Cell::new(None),
            without: Cell::new(None),
            is_checkpointed: Cell::new(false),
            is_reported: Cell::new(false),
        }
    }
}
