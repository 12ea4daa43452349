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
    /// A variable without an option.
    Variable,
}

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

/// Prefix of all names.
pub const PREFIX: &str = "UNDERSTUDY_";

impl Setting {
    /// Returns the option without the leading hyphens.
    pub fn option(&self) -> String {
        self.variable
            .trim_start_matches(PREFIX)
            .to_lowercase()
            .replace('_', "-")
    }
}
