//! Quantities as text.

use std::fmt::Display;

/// Formats a duration with a suitable unit.
pub fn time(ns: u64) -> String {
    // Durations that would be rounded to 1000.0 us or 1000.00 ms have the next unit.
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_950 => format!("{:.1} us", ns as f64 / 1e3),
        999_950..999_995_000 => format!("{:.2} ms", ns as f64 / 1e6),
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
    let mut number = count as f64 / 1024.0;
    let mut unit = 0;
    // A size that would be rounded to 1024.0 has the next unit.
    while number >= 1023.95 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    format!("{number:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_rounded_before_their_unit_is_chosen() {
        let times = [
            (999, "999 ns"),
            (999_949, "999.9 us"),
            (999_950, "1.00 ms"),
            (999_994_999, "999.99 ms"),
            (999_995_000, "1.000 s"),
        ];
        for (ns, text) in times {
            assert_eq!(time(ns), text);
        }
        let sizes = [
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            ((1 << 30) - 1, "1.0 GiB"),
            (u64::MAX, "16777216.0 TiB"),
        ];
        for (count, text) in sizes {
            assert_eq!(bytes(count), text);
        }
    }
}
