//! Status of a thread as reported by the kernel.

use super::thread_number::ThreadNumber;

/// Returns a hexadecimal field of a thread's status (proc(5), `/proc/pid/status`).
pub fn field_of(thread: ThreadNumber, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{}/status", thread.get())).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"))?;
    u64::from_str_radix(value, 16).ok()
}
