//! Settings of a job as values, read and checked.
//!
//! The runtime reads them in every rank, and `understudy run` and `understudy doctor` before a job
//! starts. All three use this code, so that errors are found before a job has waited in a queue.
//! Settings that are needed earlier are only checked here; their readers are elsewhere.

use super::checkpoint_cause::{CheckpointSignals, TimeLimit};
use super::domains;
use super::fault::{self, Fault};
use super::values::{
    DEFAULT_NODE_TIMEOUT, Fabric, InitEndRule, Interval, JournalLimit, Require, Restart, Scheme,
    SharedPages, StaticData, Threads, TrialReplay, fabric, hang_after, init_end, interval,
    journal_limit, new_phase, node_timeout, number, ports, require, restart, scheme, shared_pages,
    switch, threads, tracking, trial_replay,
};
use crate::setting::{SECRET, Setting, value_of};
use crate::settings_table::SETTINGS;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_formats::pages::Tracking;
use understudy_wire::client::DaemonAddress;

/// Values of the settings that the runtime reads here.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of spares, which are the last ranks.
    pub spares: u32,
    /// Distance from a worker to its buddy, in worker ranks.
    ///
    /// `None` stands for the largest number of workers on a node.
    pub buddy_offset: Option<u32>,
    /// Kind of protection; `None` stands for [`Config::effective_scheme`].
    pub scheme: Option<Scheme>,
    /// Deduplication of pages that the buddy has itself.
    pub shared_pages: SharedPages,
    /// File with the failure domains of hosts.
    ///
    /// `None` if each node is a domain of its own.
    pub domains: Option<PathBuf>,
    /// Interval of checkpoints.
    pub interval: Interval,
    /// True if cuts may also be taken at any communication call.
    ///
    /// Cuts are taken at such calls if no collective call over all workers is reached for long.
    pub anywhere: bool,
    /// Mean time between failures of the job that the user expects at its start.
    pub mtbf: Duration,
    /// File with warnings of expected failures; `None` for a file in the job's directory.
    pub warnings: Option<PathBuf>,
    /// Method of finding modified pages.
    pub tracking: Tracking,
    /// Network between nodes.
    pub fabric: Fabric,
    /// Workers whose set-up phase is replayed on trial even if `static_data` needs no replay.
    pub trial_replay: TrialReplay,
    /// Method of restoring static data.
    pub static_data: StaticData,
    /// Limit of a journal's length.
    pub journal_limit: JournalLimit,
    /// Level of `MPI_Pcontrol` that begins another set-up phase.
    pub new_phase: Option<i32>,
    /// Rule for the end of the set-up phase.
    pub init_end: InitEndRule,
    /// Jobs that stop if they cannot be protected.
    pub require: Require,
    /// True if claims that the program makes through understudy.h are tested.
    ///
    /// Discarded memory is overwritten; recomputed memory and undone steps are compared.
    pub poison: bool,
    /// Directory for checkpoints on disk.
    pub disk: Option<PathBuf>,
    /// Number of checkpoints of which one is written to disk.
    pub disk_every: u64,
    /// Start from a checkpoint on disk, or from the beginning.
    pub restart: Restart,
    /// Signals that request a checkpoint on disk.
    pub checkpoint_on: Option<CheckpointSignals>,
    /// End of the time that the job has.
    pub time_limit: Option<TimeLimit>,
    /// Time without movement after which a hang is reported; `None` for no watch.
    pub hang_after: Option<Duration>,
    /// True if ranks that cause a hang are replaced.
    pub replaces_hanging: bool,
    /// True if new spares are started when spares have died or taken over.
    pub replenish: bool,
    /// Time for which a silent node is waited for.
    pub node_timeout: Duration,
    /// Permissions of threads that the program creates.
    pub threads: Threads,
    /// Daemon that may choose spares.
    pub daemon: Option<DaemonAddress>,
    /// File with the token for the daemon over TCP.
    pub daemon_token: Option<PathBuf>,
    /// Directory for event files.
    pub event_directory: Option<PathBuf>,
    /// Faults that are injected for tests.
    pub faults: Vec<Fault>,
}

const PORTS: &str = "UNDERSTUDY_PORTS";
const SPARES: &str = "UNDERSTUDY_SPARES";

type Parse = fn(&mut Config, &str) -> Result<(), String>;

/// Parser of each variable of [`SETTINGS`], in the same order.
const VALUES: &[(&str, Parse)] = &[
    (SPARES, |config, text| {
        config.spares = number(text, "a number of ranks")?;
        Ok(())
    }),
    ("UNDERSTUDY_COPIES", |config, text| {
        config.scheme = scheme(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_SHARED_PAGES", |config, text| {
        config.shared_pages = shared_pages(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_BUDDY_OFFSET", |config, text| {
        config.buddy_offset = Some(number(text, "a rank offset").and_then(
            |offset| match offset {
                0 => Err("an offset of 0 would store the replica in the rank itself".into()),
                offset => Ok(offset),
            },
        )?);
        Ok(())
    }),
    ("UNDERSTUDY_DOMAIN", |config, text| {
        config.domains = Some(PathBuf::from(text));
        Ok(())
    }),
    ("UNDERSTUDY_INTERVAL", |config, text| {
        config.interval = interval(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_MTBF", |config, text| {
        config.mtbf = understudy_formats::duration::parse_duration(text)
            .ok_or_else(|| format!("`{text}` is not a time (`6h`, `30d`)"))?;
        Ok(())
    }),
    ("UNDERSTUDY_WARNINGS", |config, text| {
        config.warnings = Some(PathBuf::from(text));
        Ok(())
    }),
    ("UNDERSTUDY_TRACKING", |config, text| {
        config.tracking = tracking(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_FABRIC", |config, text| {
        config.fabric = fabric(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_STATIC", |config, text| {
        config.static_data = match text {
            "image" => StaticData::Image,
            "replay" => StaticData::Replay,
            "disk" => StaticData::Disk,
            "auto" => StaticData::Auto,
            _ => {
                return Err(format!(
                    "`{text}` is none of `image`, `replay`, `disk`, `auto`"
                ));
            }
        };
        Ok(())
    }),
    ("UNDERSTUDY_INIT_END", |config, text| {
        config.init_end = init_end(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_NEW_PHASE", |config, text| {
        config.new_phase = new_phase(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_JOURNAL_LIMIT", |config, text| {
        config.journal_limit = journal_limit(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_REHEARSE", |config, text| {
        config.trial_replay = trial_replay(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_DISK", |config, text| {
        let path = std::path::absolute(text)
            .map_err(|error| format!("`{text}` cannot be made an absolute path: {error}"))?;
        config.disk = Some(path);
        Ok(())
    }),
    ("UNDERSTUDY_DISK_EVERY", |config, text| {
        config.disk_every =
            number(text, "a number of checkpoints").and_then(|every| match every {
                0 => Err("it must be at least 1".into()),
                every => Ok(every),
            })?;
        Ok(())
    }),
    // The module `private_directories` reads this variable before a configuration exists.
    ("UNDERSTUDY_RUNTIME_DIR", |_, text| {
        match text.is_empty() || text.starts_with('/') {
            true => Ok(()),
            false => Err(format!("`{text}` is not an absolute path")),
        }
    }),
    ("UNDERSTUDY_RESTART", |config, text| {
        config.restart = restart(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_CHECKPOINT_ON", |config, text| {
        config.checkpoint_on = Some(CheckpointSignals::parse(text)?);
        Ok(())
    }),
    ("UNDERSTUDY_TIME_LIMIT", |config, text| {
        config.time_limit = Some(TimeLimit::parse(text)?);
        Ok(())
    }),
    ("UNDERSTUDY_HANG_AFTER", |config, text| {
        config.hang_after = hang_after(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_ON_HANG", |config, text| {
        config.replaces_hanging = match text {
            "report" => false,
            "replace" => true,
            _ => return Err(format!("`{text}` is none of `report`, `replace`")),
        };
        Ok(())
    }),
    ("UNDERSTUDY_ANYWHERE", |config, text| {
        config.anywhere = switch(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_THREADS", |config, text| {
        config.threads = threads(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_REPLENISH", |config, text| {
        config.replenish = switch(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_NODE_TIMEOUT", |config, text| {
        config.node_timeout = node_timeout(text)?;
        Ok(())
    }),
    // The leader and the daemon read the ports by themselves.
    (PORTS, |_, text| ports(text).map(drop)),
    ("UNDERSTUDY_DAEMON", |config, text| {
        config.daemon = Some(DaemonAddress::parse(text)?);
        Ok(())
    }),
    ("UNDERSTUDY_DAEMON_TOKEN", |config, text| {
        config.daemon_token = Some(PathBuf::from(text));
        Ok(())
    }),
    ("UNDERSTUDY_REQUIRE", |config, text| {
        config.require = require(text)?;
        Ok(())
    }),
    ("UNDERSTUDY_POISON", |config, text| {
        config.poison = switch(text)?;
        Ok(())
    }),
    // The preload library reads these three variables.
    ("UNDERSTUDY_DISABLE", |_, text| switch(text).map(drop)),
    ("UNDERSTUDY_LATE", |_, text| switch(text).map(drop)),
    (SECRET, |_, _| Ok(())),
    ("UNDERSTUDY_LOG", |_, _| Ok(())),
    ("UNDERSTUDY_EVENTS", |config, text| {
        config.event_directory = Some(PathBuf::from(text));
        Ok(())
    }),
    ("UNDERSTUDY_FAULT", |config, text| {
        config.faults = fault::parse(text)?;
        Ok(())
    }),
];

/// Returns the ports at which a job listens for other hosts; `0..=0` for any port.
///
/// # Errors
/// Fails with a message about a malformed range.
pub fn ports_of(lookup: impl Fn(&str) -> Option<String>) -> Result<RangeInclusive<u16>, String> {
    value_of(PORTS, lookup).map_or(Ok(0..=0), |text| {
        ports(&text).map_err(|why| message::bad_setting(PORTS, why).to_string())
    })
}

/// Returns the number of spares, whatever other settings are.
///
/// # Errors
/// Fails with a message about a text that is no number.
pub fn spares_of(lookup: impl Fn(&str) -> Option<String>) -> Result<u32, String> {
    let only_spares = |name: &str| lookup(name).filter(|_| name == SPARES);
    Config::read(only_spares).map(|config| config.spares)
}

impl Default for Config {
    fn default() -> Config {
        Config {
            spares: 1,
            buddy_offset: None,
            scheme: None,
            shared_pages: SharedPages::Auto,
            domains: None,
            interval: Interval::Time(Duration::from_secs(10)),
            anywhere: true,
            mtbf: Duration::from_secs(24 * 3600),
            warnings: None,
            tracking: Tracking::Auto,
            fabric: Fabric::Auto,
            trial_replay: TrialReplay::Off,
            static_data: StaticData::Image,
            journal_limit: JournalLimit::Part(0.25),
            new_phase: Some(2),
            init_end: InitEndRule::Auto,
            require: Require::Never,
            poison: false,
            disk: None,
            disk_every: 1,
            restart: Restart::Never,
            checkpoint_on: None,
            time_limit: None,
            hang_after: Some(Duration::from_secs(300)),
            replaces_hanging: false,
            replenish: false,
            node_timeout: DEFAULT_NODE_TIMEOUT,
            threads: Threads::AsRequested,
            daemon: None,
            daemon_token: None,
            event_directory: None,
            faults: Vec::new(),
        }
    }
}

impl Config {
    /// Reads the variables through `lookup`.
    ///
    /// # Errors
    /// Fails with a message about the first invalid value, its variable and the possible values, or
    /// about settings that exclude or need each other.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Config, String> {
        let mut config = Config::default();
        for (name, parse) in VALUES {
            if let Some(text) = value_of(name, &lookup) {
                parse(&mut config, &text)
                    .map_err(|why| message::bad_setting(name, why).to_string())?;
            }
        }
        if config.restart != Restart::Never && config.disk.is_none() {
            return Err(message::RESTART_WITHOUT_DISK.into());
        }
        let needs_disk = [
            (config.checkpoint_on.is_some(), "UNDERSTUDY_CHECKPOINT_ON"),
            (config.time_limit.is_some(), "UNDERSTUDY_TIME_LIMIT"),
        ];
        if let (None, Some((_, setting))) =
            (&config.disk, needs_disk.iter().find(|(is_set, _)| *is_set))
        {
            return Err(message::checkpoints_without_disk(setting).to_string());
        }
        if config.static_data == StaticData::Disk && config.disk.is_none() {
            return Err(message::STATIC_WITHOUT_DISK.into());
        }
        if let Some(parity @ Scheme::Parity(_)) = config.scheme {
            if let Some(way) = config.static_data.exclusive() {
                return Err(message::static_with_parity(way, parity).to_string());
            }
            if config.shared_pages == SharedPages::Always {
                return Err(message::shared_pages_with_parity(parity).to_string());
            }
        }
        Ok(config)
    }

    /// Checks a value of a variable by itself.
    pub(crate) fn check_value(variable: &str, text: &str) -> Result<(), String> {
        let parser = VALUES.iter().find(|(name, _)| *name == variable);
        parser.map_or(Ok(()), |(_, parse)| parse(&mut Config::default(), text))
    }

    /// Checks that this number of workers can store replicas of each other.
    ///
    /// A single worker has no buddy, and depends on its persistent replica store.
    ///
    /// # Errors
    /// Fails with the reason and a remedy if there are too few workers.
    pub fn check_workers(&self, workers: u32) -> Result<(), String> {
        match self.scheme {
            Some(scheme) if (2..scheme.fewest_workers()).contains(&workers) => {
                let fewest = scheme.fewest_workers();
                Err(message::too_few_workers(scheme, fewest, workers).to_string())
            }
            _ => Ok(()),
        }
    }

    /// Returns the scheme that protects the workers.
    ///
    /// `is_own_sufficient` is true if every own replica outlives its process, and no replica at a
    /// buddy would outlive the own replica, because all workers are on one node. With `auto`,
    /// buddies then store nothing, unless a set-up phase is replayed on trial or static data are
    /// restored by another method than replicas.
    pub fn effective_scheme(&self, is_own_sufficient: bool) -> Scheme {
        let needs_buddy =
            self.static_data != StaticData::Image || self.trial_replay != TrialReplay::Off;
        self.scheme
            .unwrap_or(match is_own_sufficient && !needs_buddy {
                true => Scheme::Copies(0),
                false => Scheme::Copies(1),
            })
    }

    /// Checks that MPI procedures in settings exist according to `is_procedure`.
    ///
    /// # Errors
    /// Fails with a message that names the setting and the unknown procedure.
    pub fn check_procedures(&self, is_procedure: impl Fn(&str) -> bool) -> Result<(), String> {
        match &self.init_end {
            InitEndRule::Calls(name, _) if !is_procedure(name) => Err(format!(
                "UNDERSTUDY_INIT_END: `{name}` is not an MPI procedure"
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the files of failure domains and tokens can be used on this host.
    ///
    /// # Errors
    /// Fails with a message that names the setting, the file and the reason.
    pub fn check_files(&self) -> Result<(), String> {
        if let Some(file) = &self.domains {
            domains::domain_of_host(file, "")
                .map_err(|why| format!("UNDERSTUDY_DOMAIN: {}: {why}", file.display()))?;
        }
        match &self.daemon_token {
            Some(file) => understudy_wire::auth::read_tokens(file)
                .map(drop)
                .map_err(|why| format!("UNDERSTUDY_DAEMON_TOKEN: {why}")),
            None => Ok(()),
        }
    }

    /// Returns the setting because of which an unprotected job stops at its start.
    pub fn strict(&self) -> Option<&'static str> {
        match self {
            Config {
                require: Require::Start | Require::Always,
                ..
            } => Some("UNDERSTUDY_REQUIRE=1"),
            Config {
                restart: Restart::Always | Restart::Auto,
                ..
            } => Some("UNDERSTUDY_RESTART=1"),
            _ => None,
        }
    }

    /// Returns the settings by name, except the secret, for the event file.
    pub fn listing(lookup: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        let value = |setting: &Setting| {
            value_of(setting.variable, &lookup).unwrap_or_else(|| setting.default.to_owned())
        };
        SETTINGS
            .iter()
            .filter(|setting| setting.variable != SECRET)
            .map(|setting| (setting.variable.to_owned(), value(setting)))
            .collect()
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
