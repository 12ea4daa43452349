//! Options of `understudy run` for the settings, from the table that the runtime reads.

use super::failures::usage;
use crate::node;
use crate::outcome::Failure;
use crate::product_files;
use clap::{Arg, ArgAction, ArgMatches, Command};
use rustix::rand::GetRandomFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::time::SystemTime;
use understudy_report::count;
use understudy_settings::settings_files::{places_without, with_places};
use understudy_settings::{
    Config, FILES_READ, Form, PREFIX, SECRET, SETTINGS, TimeLimit, present_name, unknown,
};

/// Values of settings by variable: from options, and from the environment.
pub struct Settings {
    all: BTreeMap<String, OsString>,
    /// Variables whose values were given as options.
    options: BTreeSet<String>,
}

impl clap::Args for Settings {
    fn augment_args(mut command: Command) -> Command {
        for setting in SETTINGS {
            let name = setting.option();
            let help = format!("{} [default: {}]", setting.meaning, setting.default);
            let arg = Arg::new(setting.variable)
                .long(name)
                .help(help)
                .help_heading("Settings")
                .aliases(setting.former_option())
                .overrides_with(setting.variable);
            command = match setting.form {
                Form::Value(value) => command.arg(
                    arg.value_name(value)
                        .value_parser(clap::builder::OsStringValueParser::new()),
                ),
                Form::Switch => command.arg(arg.action(ArgAction::SetTrue)),
                Form::SwitchOr(value) => command.arg(
                    arg.value_name(value)
                        .num_args(0..=1)
                        .require_equals(true)
                        .default_missing_value("1")
                        .value_parser(clap::builder::OsStringValueParser::new()),
                ),
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
            Form::Value(_) | Form::SwitchOr(_) => matches.get_one::<OsString>(variable).cloned(),
            Form::Switch => matches.get_flag(variable).then(|| "1".into()),
            Form::Variable => None,
        };
        let given = SETTINGS.iter().filter_map(|setting| {
            Some((
                setting.variable.to_owned(),
                value(setting.variable, setting.form)?,
            ))
        });
        let all: BTreeMap<_, _> = given.collect();
        let options = all.keys().cloned().collect();
        Ok(Self { all, options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let Self { all, options } = Self::from_arg_matches(matches)?;
        self.all.extend(all);
        self.options.extend(options);
        Ok(())
    }
}

impl Settings {
    /// Adds variables of the environment; options take precedence.
    pub fn with_environment(&self) -> Self {
        let mut all = self.all.clone();
        let ours = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            name.starts_with(PREFIX).then_some((name, value))
        });
        let (former, present): (Vec<_>, Vec<_>) =
            ours.partition(|(name, _)| present_name(name).is_some());
        for (name, value) in present.into_iter().chain(former) {
            let name = present_name(&name).unwrap_or(&name);
            all.entry(name.to_owned()).or_insert(value);
        }
        if let Some(places) = all.get_mut(FILES_READ) {
            *places = places_without(&places.to_string_lossy(), &self.options).into();
        }
        Self {
            all,
            options: self.options.clone(),
        }
    }

    /// Returns the value of a variable unless it is empty.
    pub fn get(&self, variable: &str) -> Option<&OsString> {
        self.all.get(variable).filter(|value| !value.is_empty())
    }

    /// Sets the end of the job, on which all processes agree then.
    pub fn set_time_limit(&mut self, end: Option<SystemTime>) {
        let variable = "UNDERSTUDY_TIME_LIMIT".to_owned();
        match end {
            Some(end) => drop(self.all.insert(variable, TimeLimit::text_of(end).into())),
            // The launcher's environment may contain the variable as well.
            None if self.all.contains_key(&variable) => {
                self.all.insert(variable, OsString::new());
            }
            None => {}
        }
    }

    /// Returns all values as the ranks will read them.
    ///
    /// # Errors
    /// Fails for a misspelt variable, and for values that the ranks would refuse, such as those
    /// with which `workers` cannot be protected: the job would otherwise wait for its start in
    /// vain.
    pub fn check(
        &self,
        workers: u32,
        library: &Path,
        may_be_unprotected: bool,
    ) -> Result<Config, Failure> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let misspelt = unknown(names).into_iter().find(|it| it.nearest.is_some());
        if let Some(it) = misspelt {
            return Err(usage(format_args!("{it} Correct it, or unset it.")));
        }
        let checked = || {
            let mut config =
                Config::read(|name| Some(self.get(name)?.to_string_lossy().into_owned()))?;
            if self.get("UNDERSTUDY_SPARES").is_none() {
                config.spares = 1;
            }
            if workers.checked_add(config.spares).is_none() {
                return Err(format!(
                    "{} and {} are too many",
                    count(workers, "worker", "workers"),
                    count(config.spares, "spare", "spares")
                ));
            }
            if !may_be_unprotected {
                config.check_workers(workers)?;
            }
            config.check_files()?;
            config.check_procedures(|name| product_files::exports(library, name))?;
            Ok(config)
        };
        checked().map_err(|why: String| usage(with_places(self.as_given(why))))
    }

    /// Checks that checkpoints can be written to the directory of the disk level.
    pub fn check_disk(&self, config: &Config) -> Result<(), Failure> {
        node::check_disk(config).map_err(|why| {
            usage(self.as_given(why + ". Choose a directory that can be written to."))
        })
    }

    /// Replaces variables in a message by the options that the user has given.
    fn as_given(&self, mut message: String) -> String {
        // The longest names come first, because some names are prefixes of others.
        let mut options: Vec<_> = SETTINGS
            .iter()
            .filter(|it| self.options.contains(it.variable))
            .collect();
        options.sort_by_key(|it| std::cmp::Reverse(it.variable.len()));
        for setting in options {
            let option = format!("--{}", setting.option());
            message = message.replace(&format!("{}=", setting.variable), &format!("{option} "));
            message = message.replace(setting.variable, &option);
        }
        message
    }

    /// Returns the secret that the ranks share: the user's value, or 128 random bits.
    ///
    /// `None` with a disk level, because a restart needs equal values: the ranks then derive them
    /// from the program. Also `None` if the kernel provides no random bits.
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

    /// Returns the variables of the ranks, without the [`secret`](Self::secret).
    pub fn variables(
        &self,
        library: &Path,
        events: &Path,
        require: bool,
    ) -> BTreeMap<String, OsString> {
        let mut all = self.all.clone();
        all.entry("UNDERSTUDY_SPARES".into())
            .or_insert_with(|| "1".into());
        if require {
            all.entry("UNDERSTUDY_REQUIRE".into())
                .or_insert_with(|| "start".into());
        }
        // Every user can read the command line of the launcher.
        all.remove(SECRET);
        all.insert("UNDERSTUDY_EVENTS".into(), events.into());
        let mut preload = OsString::from(library);
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        all.insert("LD_PRELOAD".into(), preload);
        all
    }
}
