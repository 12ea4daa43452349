//! The settings as options, out of the one table that the runtime reads them by.

use super::cannot;
use crate::outcome::Failure;
use ckptd::settings::{Form, PREFIX, SECRET, SETTINGS};
use clap::{Arg, ArgAction, ArgMatches, Command};
use rustix::rand::GetRandomFlags;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// Values by variable: what was given as an option, later also what the environment has.
pub struct Settings(BTreeMap<String, OsString>);

impl clap::Args for Settings {
    fn augment_args(mut command: Command) -> Command {
        for setting in SETTINGS {
            let name = setting.option();
            let help = format!("{} [default: {}]", setting.meaning, setting.default);
            let arg = Arg::new(setting.variable)
                .long(name)
                .help(help)
                .help_heading("Settings")
                .overrides_with(setting.variable);
            command = match setting.form {
                Form::Value(value) => command.arg(
                    arg.value_name(value)
                        .value_parser(clap::builder::OsStringValueParser::new()),
                ),
                Form::Switch => command.arg(arg.action(ArgAction::SetTrue)),
                Form::Variable => command,
            };
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |variable, form| match form {
            Form::Value(_) => matches.get_one::<OsString>(variable).cloned(),
            Form::Switch => matches.get_flag(variable).then(|| "1".into()),
            Form::Variable => None,
        };
        let given = SETTINGS
            .iter()
            .filter_map(|setting| Some((setting.variable.to_owned(), value(setting.variable, setting.form)?)));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

impl Settings {
    /// Adds the variables of the environment that no option stands for.
    pub fn with_environment(&self) -> Self {
        let mut all = self.0.clone();
        for (name, value) in std::env::vars_os() {
            if let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) {
                all.entry(name.to_owned()).or_insert(value);
            }
        }
        Self(all)
    }

    pub fn get(&self, variable: &str) -> Option<&OsString> {
        self.0.get(variable).filter(|value| !value.is_empty())
    }

    /// How many spares there are.
    pub fn spares(&self) -> Result<u32, Failure> {
        let Some(text) = self.get("UNDERSTUDY_SPARES") else {
            return Ok(1);
        };
        match text.to_str().and_then(|text| text.parse().ok()) {
            Some(0) => Err(cannot(
                "--spares: with 0 spares nobody can take a dead rank's part. Ask for one or more, or start the program by mpirun.",
            )),
            Some(spares) => Ok(spares),
            None => Err(cannot(format!(
                "--spares: `{}` is not a number of ranks",
                text.display()
            ))),
        }
    }

    /// What all ranks know and other users do not: what the user has given, or 128 random bits. `None` with a disk level, where every
    /// start of the job must have the same.
    pub fn secret(&self) -> Option<OsString> {
        if self.get("UNDERSTUDY_DISK").is_some() {
            return None;
        }
        let mut bits = [0; 16];
        let random = || {
            rustix::rand::getrandom(&mut bits, GetRandomFlags::empty()).ok()?;
            Some(format!("{:032x}", u128::from_ne_bytes(bits)).into())
        };
        self.get(SECRET).cloned().or_else(random)
    }

    /// All variables of the ranks but the [`secret`](Self::secret).
    pub fn variables(&self, library: &Path, events: &Path, require: bool) -> BTreeMap<String, OsString> {
        let mut all = self.0.clone();
        all.entry("UNDERSTUDY_SPARES".into()).or_insert_with(|| "1".into());
        if require {
            all.entry("UNDERSTUDY_REQUIRE".into()).or_insert_with(|| "1".into());
        }
        // Everybody may read the launcher's command line.
        all.remove(SECRET);
        all.insert("UNDERSTUDY_LOG_DIR".into(), events.into());
        let mut preload = OsString::from(library);
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        all.insert("LD_PRELOAD".into(), preload);
        all
    }
}
