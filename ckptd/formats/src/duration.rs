//! Durations in the syntax of settings, options and warnings.

use std::time::Duration;

/// Parses a positive duration: `500ms`, `10s`, `5m` (or `5min`), `6h`, `30d`, `5y`.
///
/// A year has 365.25 days. `None` for other text, and for durations that are less than a nanosecond
/// or at least 10¹⁰ s.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (amount, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let seconds_per_unit = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        "y" => 365.25 * 86400.0,
        _ => return None,
    };
    let seconds = amount.parse::<f64>().ok()? * seconds_per_unit;
    let is_valid = seconds > 0.0 && seconds < 1e10;
    let duration = is_valid.then(|| Duration::from_secs_f64(seconds))?;
    (!duration.is_zero()).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5h"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_duration("2d"), Some(Duration::from_secs(172_800)));
        for wrong in ["", "10", "s", "0s", "-1s", "1w", "1e9y", "0.0000001ms"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
