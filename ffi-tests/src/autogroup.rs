//! Automatic task groups of the kernel (sched(7)), switched off while jobs run.
//!
//! With autogroups, Linux 6.18 ran only one group for up to a minute while all other processes of
//! the machine waited. This was observed where more ranks yield than there are processors.

use crate::paths;
use std::fs;
use std::sync::Once;

const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// Turns autogroups off until this process exits, if they are on and it has permission.
pub(crate) fn turn_off() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let is_on = fs::read_to_string(SETTING).is_ok_and(|value| value.trim() == "1");
        if is_on && fs::write(SETTING, "0").is_ok() {
            paths::at_exit(turn_on);
        }
    });
}

extern "C" fn turn_on() {
    let _ = fs::write(SETTING, "1");
}
