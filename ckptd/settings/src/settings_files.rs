//! Files with settings, one of the site and one of each user.
//!
//! ```text
//! # comment
//! interval = 30s
//! disk-every = 10
//! ```
//!
//! Names are those of options of `understudy run`, values those of variables. The user's file takes
//! precedence over the site's, and the environment over both. The first process of a job reads the
//! files, and passes the values on in the environment.

use crate::config::Config;
use crate::setting::{FILES_READ, PREFIX, SECRET, former_name, option_of};
use crate::settings_table::SETTINGS;
use crate::unknown::nearest;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use understudy_catalogue::message;

/// File of the site.
pub const SITE_FILE: &str = "/etc/understudy.conf";

/// Settings that the preload library needs before a file can be read, and the secret.
const VARIABLES_ONLY: [&str; 3] = ["UNDERSTUDY_DISABLE", "UNDERSTUDY_LATE", SECRET];

/// Value of a setting, from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileValue {
    pub value: String,
    /// File, `:`, and number of the line.
    pub place: String,
}

/// Values from files, by variable.
pub type FileValues = BTreeMap<&'static str, FileValue>;

/// Returns the path of the user's file.
///
/// `None` if neither `XDG_CONFIG_HOME` nor `HOME` is an absolute path (XDG Base Directory
/// Specification).
pub fn user_file(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |name| {
        lookup(name)
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    };
    let home = || Some(absolute("HOME")?.join(".config"));
    Some(
        absolute("XDG_CONFIG_HOME")
            .or_else(home)?
            .join("understudy.conf"),
    )
}

/// Returns the values of the site's and the user's file that an environment lacks.
///
/// `lookup` returns the value of a variable. No file is read if an earlier process of the job has
/// read them ([`FILES_READ`]).
///
/// # Errors
/// Fails with a message about the first file that cannot be read, or about a line that is no
/// setting or has an invalid value.
pub fn additions(lookup: impl Fn(&str) -> Option<String>) -> Result<FileValues, String> {
    if lookup(FILES_READ).is_some_and(|it| !it.is_empty()) {
        return Ok(FileValues::new());
    }
    let files = [Some(PathBuf::from(SITE_FILE)), user_file(&lookup)];
    additions_from(files.into_iter().flatten(), lookup)
}

fn additions_from(
    files: impl Iterator<Item = PathBuf>,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<FileValues, String> {
    let mut values = read(files)?;
    let is_set = |variable: &str| {
        let names = [Some(variable), former_name(variable)];
        names
            .into_iter()
            .flatten()
            .any(|name| lookup(name).is_some())
    };
    values.retain(|variable, _| !is_set(variable));
    Ok(values)
}

/// Reads files, of which the last takes precedence. A missing file has no values.
fn read(files: impl Iterator<Item = PathBuf>) -> Result<FileValues, String> {
    let mut values = FileValues::new();
    for file in files {
        match std::fs::read_to_string(&file) {
            Ok(text) => values.extend(parse(&file, &text)?),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(message::bad_settings_file(file.display(), error).to_string()),
        }
    }
    Ok(values)
}

/// Returns the text of [`FILES_READ`] for these values: `1`, and an entry for each variable.
pub fn places_of(values: &FileValues) -> String {
    let entries = values.iter();
    let entries = entries.map(|(variable, it)| format!("|{variable}={}", it.place));
    std::iter::once("1".to_owned()).chain(entries).collect()
}

/// Returns the text of [`FILES_READ`] without entries of these variables, which options have set.
pub fn places_without(places: &str, options: &BTreeSet<String>) -> String {
    let is_kept = |entry: &&str| {
        let variable = entry.split_once('=').map(|(variable, _)| variable);
        variable.is_none_or(|it| !options.contains(it))
    };
    let kept: Vec<&str> = places.split('|').filter(is_kept).collect();
    kept.join("|")
}

/// Adds file and line of each setting that a message names.
///
/// Only settings that a file has set have a place.
pub fn with_places(message: impl Display) -> String {
    add_places(
        message.to_string(),
        &std::env::var(FILES_READ).unwrap_or_default(),
    )
}

fn add_places(message: String, places: &str) -> String {
    let is_in_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let is_named = |variable: &str| {
        message
            .split(|c| !is_in_name(c))
            .any(|word| word == variable)
    };
    let entries = places.split('|').filter_map(|entry| entry.split_once('='));
    let named = entries.filter(|(variable, _)| is_named(variable));
    let added: String = named
        .map(|(variable, place)| format!("; {place} sets {variable}"))
        .collect();
    message + &added
}

fn parse(file: &Path, text: &str) -> Result<FileValues, String> {
    let mut values = FileValues::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", file.display(), index + 1);
        let (variable, value) =
            parse_line(line).map_err(|why| message::bad_settings_file(&place, why).to_string())?;
        if let Some(first) = values.insert(
            variable,
            FileValue {
                value,
                place: place.clone(),
            },
        ) {
            let why = format!("{} has the setting already", first.place);
            return Err(message::bad_settings_file(place, why).to_string());
        }
    }
    Ok(values)
}

/// Returns the variable and the value of a line.
fn parse_line(line: &str) -> Result<(&'static str, String), String> {
    let (name, value) = line.split_once('=').ok_or("it is not `setting = value`")?;
    let (name, value) = (name.trim(), value.trim());
    let setting = SETTINGS.iter().find(|setting| setting.option() == name);
    let variable = setting.ok_or_else(|| unknown(name))?.variable;
    if VARIABLES_ONLY.contains(&variable) {
        return Err(format!(
            "`{name}` is read from the environment only ({variable})"
        ));
    }
    if value.is_empty() {
        return Err(format!("`{name}` has no value"));
    }
    Config::check_value(variable, value).map_err(|why| format!("{name}: {why}"))?;
    Ok((variable, value.to_owned()))
}

fn unknown(name: &str) -> String {
    let end = name.to_uppercase().replace('-', "_");
    match nearest(end.trim_start_matches(PREFIX)) {
        Some(meant) => format!(
            "`{name}` is not a setting; did you mean `{}`?",
            option_of(meant)
        ),
        None => format!("`{name}` is not a setting"),
    }
}

#[cfg(test)]
#[path = "settings_files_tests.rs"]
mod tests;
