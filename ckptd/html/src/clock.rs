//! Dates and times of day, in UTC because the page may be read anywhere.

use time::OffsetDateTime;

/// Formats a time in nanoseconds since 1970, as `2026-03-01 14:05:09 UTC`.
pub fn date_and_time(ns: u64) -> String {
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(ns.into()) else {
        return "an unknown time".to_owned();
    };
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    format!("{year}-{month:02}-{day:02} {} UTC", clock_time(at))
}

/// Formats the time of day without date and time zone.
pub fn time_of_day(ns: u64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(ns.into())
        .map_or_else(|_| "unknown".to_owned(), clock_time)
}

fn clock_time(at: OffsetDateTime) -> String {
    format!("{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_a_date() {
        assert_eq!(date_and_time(0), "1970-01-01 00:00:00 UTC");
        // date -u -d @1709251509
        assert_eq!(
            date_and_time(1_709_251_509_700_000_000),
            "2024-03-01 00:05:09 UTC"
        );
        assert_eq!(time_of_day(1_709_251_509_700_000_000), "00:05:09");
    }
}
