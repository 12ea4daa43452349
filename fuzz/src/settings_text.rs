//! Settings and other texts that users write, replaced by arbitrary text.

use std::time::Duration;
use understudy_formats::duration::parse_duration;
use understudy_formats::warning::FailureWarning;
use understudy_settings::{Config, Interval, JournalLimit, SETTINGS, fault, unknown};
use understudy_wire::client::DaemonAddress;

/// Largest permitted allocation for texts of this length, which messages may repeat.
pub fn max_allocation(length: usize) -> usize {
    (64 << 10) + 16 * length
}

/// Reads each line as the value of a setting, which its first byte selects.
///
/// The last line counts if several lines select a setting.
pub fn drive(bytes: &[u8]) {
    let mut values = vec![None; SETTINGS.len()];
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some((&which, text)) = line.split_first() else {
            continue;
        };
        let text = String::from_utf8_lossy(text).into_owned();
        texts(&text);
        values[usize::from(which) % SETTINGS.len()] = Some(text);
    }
    let lookup = |name: &str| {
        let at = SETTINGS.iter().position(|it| it.variable == name)?;
        values[at].clone()
    };
    assert_eq!(Config::listing(lookup).len() + 1, SETTINGS.len());
    let Ok(config) = Config::read(lookup) else {
        return;
    };
    if let Interval::Time(time) = config.interval {
        assert!(time > Duration::ZERO);
    }
    if let JournalLimit::Bytes(bytes) = config.journal_limit {
        assert!(bytes > 0);
    }
    config.journal_limit.of(usize::MAX);
    for workers in [0, 1, 2, u32::MAX] {
        let _ = config.check_workers(workers);
    }
    let _ = config.check_procedures(|name| name.starts_with("MPI_"));
    config.strict();
}

/// Reads a text as each of the other texts that users write.
fn texts(text: &str) {
    let _ = fault::parse(text);
    for found in unknown(std::iter::once(text.to_owned())) {
        assert!(found.to_string().contains(text));
    }
    if let Ok(address) = DaemonAddress::parse(text) {
        let shown = address.to_string();
        let again = DaemonAddress::parse(&shown).map(|it| it.to_string());
        assert_eq!(again, Ok(shown));
    }
    if let Ok(warning) = FailureWarning::parse(text) {
        let mut again = FailureWarning::parse(&warning.text()).expect("its own text");
        let difference = |one: Duration, other: Duration| one.abs_diff(other);
        if let (Some(one), Some(other)) = (warning.mtbf, again.mtbf) {
            assert!(difference(one, other) <= Duration::from_millis(1));
            again.mtbf = warning.mtbf;
        }
        assert_eq!(again, warning);
    }
    assert!(parse_duration(text).is_none_or(|time| time <= Duration::from_secs(10_000_000_000)));
}
