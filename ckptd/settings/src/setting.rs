//! A setting and its name.

/// Form of a setting in `understudy run`.
///
/// The option is the variable's name without the prefix, in lower case: `UNDERSTUDY_DISK_EVERY` is
/// `--disk-every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An option with a value of this name.
    Value(&'static str),
    /// An option that means `1`.
    Switch,
    /// An option that means `1`, or has this value after `=`.
    SwitchOr(&'static str),
    /// A variable without an option.
    Variable,
}

/// A setting, as in the reference page.
#[derive(Debug)]
pub struct Setting {
    pub variable: &'static str,
    /// Default value, as text.
    pub default: &'static str,
    pub meaning: &'static str,
    /// Form in `understudy run`.
    pub form: Form,
}

/// The setting whose value other users must not see.
pub const SECRET: &str = "UNDERSTUDY_SECRET";

/// Variable that is set in processes whose environment has the values of settings files already.
///
/// The value may have the places of the settings ([`crate::settings_files::places_of`]).
pub const FILES_READ: &str = "UNDERSTUDY_FILES_READ";

/// Former names of variables, which are accepted until the next release, and the present names.
const FORMER_NAMES: [(&str, &str); 4] = [
    ("UNDERSTUDY_CKPTD", "UNDERSTUDY_DAEMON"),
    ("UNDERSTUDY_CKPTD_TOKEN", "UNDERSTUDY_DAEMON_TOKEN"),
    ("UNDERSTUDY_LOG_DIR", "UNDERSTUDY_EVENTS"),
    ("UNDERSTUDY_LOG_LIMIT", "UNDERSTUDY_JOURNAL_LIMIT"),
];

/// Returns the present name of a variable with a former name.
pub fn present_name(former: &str) -> Option<&'static str> {
    let names = FORMER_NAMES.iter().find(|(name, _)| *name == former);
    names.map(|(_, present)| *present)
}

/// Returns the former name of a variable.
pub(crate) fn former_name(present: &str) -> Option<&'static str> {
    let names = FORMER_NAMES.iter().find(|(_, name)| *name == present);
    names.map(|(former, _)| *former)
}

/// Returns the value of a variable, by its present or else by its former name.
///
/// An empty value counts as unset.
pub(crate) fn value_of(variable: &str, lookup: impl Fn(&str) -> Option<String>) -> Option<String> {
    let value = |name: &str| lookup(name).filter(|text| !text.is_empty());
    value(variable).or_else(|| value(former_name(variable)?))
}

/// Prefix of the names of all settings.
pub const PREFIX: &str = "UNDERSTUDY_";

impl Setting {
    /// Returns the option without the leading hyphens.
    pub fn option(&self) -> String {
        option_of(self.variable)
    }

    /// Returns the former name of the option without the leading hyphens.
    pub fn former_option(&self) -> Option<String> {
        former_name(self.variable).map(option_of)
    }
}

/// Returns the option of a variable, without the leading hyphens.
pub(crate) fn option_of(variable: &str) -> String {
    variable
        .trim_start_matches(PREFIX)
        .to_lowercase()
        .replace('_', "-")
}
