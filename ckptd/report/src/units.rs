//! Quantities as text.

use std::fmt::Display;

/// Formats a duration with a suitable unit.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// Formats a number of objects: `1 spare`, `2 spares`.
pub fn count(number: impl TryInto<u64> + Display + Copy, one: &str, several: &str) -> String {
    let is_one = number.try_into().is_ok_and(|number| number == 1);
    format!("{number} {}", if is_one { one } else { several })
}

/// Formats a size with a suitable unit.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let power = (count.ilog2() / 10).min(UNITS.len() as u32);
    format!(
        "{:.1} {}",
        count as f64 / 1024f64.powi(power as i32),
        UNITS[power as usize - 1]
    )
}
