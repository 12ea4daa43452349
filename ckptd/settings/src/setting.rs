//! A setting, and its name.

/// How `understudy run` takes a setting. Its option is the variable's name without the prefix, in
/// lower case: `UNDERSTUDY_DISK_EVERY` is `--disk-every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As an option with a value of this name.
    Value(&'static str),
    /// As an option that stands for `1`.
    Switch,
    /// Only as a variable.
    Variable,
}

#[derive(Debug)]
pub struct Setting {
    pub variable: &'static str,
    /// Its default, as text.
    pub default: &'static str,
    pub meaning: &'static str,
    /// How `understudy run` takes it.
    pub form: Form,
}

/// The one whose value nobody else may see.
pub const SECRET: &str = "UNDERSTUDY_SECRET";

/// What all names begin with.
pub const PREFIX: &str = "UNDERSTUDY_";

impl Setting {
    /// Its option, without the hyphens in front.
    pub fn option(&self) -> String {
        self.variable
            .trim_start_matches(PREFIX)
            .to_lowercase()
            .replace('_', "-")
    }
}
