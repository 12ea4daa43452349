//! The kernel's automatic groups of tasks (sched(7)), which are off while jobs run.
//!
//! With them, Linux 6.18 runs only one group for up to a minute while all other processes of the
//! machine wait. That was seen where ranks that yield outnumber the processors.

use crate::place;
use std::fs;
use std::sync::Once;

const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// Turns the groups off until this process ends, where they are on and it may.
pub(crate) fn turn_off() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let is_on = fs::read_to_string(SETTING).is_ok_and(|value| value.trim() == "1");
        if is_on && fs::write(SETTING, "0").is_ok() {
            place::at_exit(turn_on);
        }
    });
}

extern "C" fn turn_on() {
    let _ = fs::write(SETTING, "1");
}
