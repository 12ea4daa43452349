//! Variables whose names resemble those of settings, but which understudy does not read.
//!
//! Most of them are misspelt names of settings.

use crate::setting::{FILES_READ, PREFIX, present_name};
use crate::settings_table::SETTINGS;
use std::fmt;
use understudy_catalogue::message;
use understudy_formats::worker_output::WORKER_OUTPUT;
use understudy_wire::line::{LAUNCHER_PREFIX, PID_NAMESPACE};

/// Variables of understudy that are not settings.
///
/// The variables are used internally, by the module file, or by tests.
const INTERNAL_VARIABLES: [&str; 12] = [
    "UNDERSTUDY_ASIDE",
    "UNDERSTUDY_BOOT",
    FILES_READ,
    "UNDERSTUDY_LIBRARY",
    "UNDERSTUDY_LIB_DIR",
    "UNDERSTUDY_LINE",
    "UNDERSTUDY_PAD",
    PID_NAMESPACE,
    "UNDERSTUDY_PRELOAD",
    "UNDERSTUDY_TEST_SEED",
    "UNDERSTUDY_WAS",
    WORKER_OUTPUT,
];

/// Similarity (Jaro's measure, 1 for equal names) above which a name counts as misspelt.
const MIN_SIMILARITY: f64 = 0.74;
/// Maximum number of wrong, missing, surplus or exchanged letters in a misspelt prefix.
const MAX_PREFIX_ERRORS: usize = 2;

/// A variable that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    pub name: String,
    /// The setting that was probably meant.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nearest {
            Some(nearest) => write!(out, "{}", message::unknown_setting(&self.name, nearest)),
            None => write!(out, "{}", message::setting_unread(&self.name)),
        }
    }
}

/// Returns those `names` that understudy does not read, but the user probably means as settings.
///
/// Such names begin with [`PREFIX`], or are misspelt names of settings. Not returned are variables
/// that understudy uses internally, former names of settings, and names with [`LAUNCHER_PREFIX`],
/// by which guardians pass a launcher's variables on.
pub fn unknown(names: impl Iterator<Item = String>) -> Vec<Unknown> {
    let is_passed_on = |name: &str| name.starts_with(LAUNCHER_PREFIX);
    let is_known = |name: &str| {
        is_passed_on(name)
            || INTERNAL_VARIABLES.contains(&name)
            || present_name(name).is_some()
            || SETTINGS.iter().any(|setting| setting.variable == name)
    };
    let unknown_names = names.filter(|name| !is_known(name)).filter_map(|name| {
        let nearest = nearest(&name_after_prefix(&name)?);
        (nearest.is_some() || name.starts_with(PREFIX)).then_some(Unknown { name, nearest })
    });
    let mut found: Vec<Unknown> = unknown_names.collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Returns the part after the prefix, which may be misspelt or in lower case.
///
/// `None` for names without such a prefix, and for the prefix alone.
fn name_after_prefix(name: &str) -> Option<String> {
    let name = name.to_uppercase();
    let product = PREFIX.trim_end_matches('_');
    let name_after_prefix = name
        .strip_prefix(PREFIX)
        .or_else(|| name.strip_prefix(product));
    if let Some(name_after_prefix) = name_after_prefix {
        return (!name_after_prefix.is_empty()).then(|| name_after_prefix.to_owned());
    }
    let (begin, name_after_prefix) = name.split_once('_')?;
    (strsim::osa_distance(begin, product) <= MAX_PREFIX_ERRORS)
        .then(|| name_after_prefix.to_owned())
}

/// Returns the setting with the most similar name, if that may be meant.
pub(crate) fn nearest(name_after_prefix: &str) -> Option<&'static str> {
    let similarity = |known: &str| strsim::jaro(name_after_prefix, &known[PREFIX.len()..]);
    let known = SETTINGS
        .iter()
        .map(|setting| (similarity(setting.variable), setting.variable));
    let best = known.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 > MIN_SIMILARITY).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_in(name: &str) -> Vec<Unknown> {
        unknown([name.to_owned()].into_iter())
    }

    #[test]
    fn a_misspelt_name_is_reported_with_the_intended_one() {
        for (name, meant) in [
            ("UNDERSTUDY_SPARE", "UNDERSTUDY_SPARES"),
            ("UNDERSTUDY_INTERVALL", "UNDERSTUDY_INTERVAL"),
            ("UNDERSTUDY_DISC", "UNDERSTUDY_DISK"),
            ("UNDERSTUDY_EVENT", "UNDERSTUDY_EVENTS"),
            ("UNDERSTUDY_COPY", "UNDERSTUDY_COPIES"),
            ("understudy_spares", "UNDERSTUDY_SPARES"),
            ("UNDERSTUDYSPARES", "UNDERSTUDY_SPARES"),
            ("UNDERSTDUY_DISK", "UNDERSTUDY_DISK"),
            ("UNDERTSUDY_INTERVALL", "UNDERSTUDY_INTERVAL"),
        ] {
            assert_eq!(
                unknown_in(name).first().and_then(|found| found.nearest),
                Some(meant),
                "{name}"
            );
        }
        assert!(
            unknown_in("UNDERSTUDY_SPARE")[0]
                .to_string()
                .contains("did you mean UNDERSTUDY_SPARES?")
        );
    }

    #[test]
    fn valid_and_foreign_names_are_not_reported() {
        for name in [
            "UNDERSTUDY_SPARES",
            "UNDERSTUDY_LIBRARY",
            "UNDERSTUDY_LOG_DIR",
            "UNDERSTUDY",
            "OMPI_UNDERSTUDY_X",
            "UNDERSTUDYING",
            "UNDERSCORE_DISK",
        ] {
            assert_eq!(unknown_in(name), [], "{name}");
        }
        assert_eq!(unknown_in("UNDERSTUDY_ZZZ")[0].nearest, None);
    }
}
