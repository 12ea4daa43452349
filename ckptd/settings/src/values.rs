//! Values of settings, and their text forms.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use understudy_formats::duration::parse_duration;
use understudy_formats::pages::Tracking;

/// Limit of the interval; checkpoints at longer intervals do not protect a job.
const MAX_INTERVAL: Duration = Duration::from_secs(30 * 86400);
/// Default time for which a silent node is waited for.
pub const DEFAULT_NODE_TIMEOUT: Duration = Duration::from_secs(60);
/// Shortest time for which a silent node is waited for.
pub const MIN_NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// Kind of protection of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// This number of whole replicas of each worker.
    Copies(u32),
    /// Parity over groups of at most this number of workers.
    ///
    /// Groups have nearly equal sizes. If an odd number of workers is divided into pairs, one group
    /// has three workers.
    Parity(u32),
}

impl fmt::Display for Scheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::Copies(copies) => write!(out, "{copies}"),
            Scheme::Parity(size) => write!(out, "xor:{size}"),
        }
    }
}

impl Scheme {
    /// Returns the smallest number of workers that can be protected.
    pub fn fewest_workers(self) -> u32 {
        match self {
            Scheme::Copies(copies) => copies + 1,
            Scheme::Parity(size) => size,
        }
    }
}

/// Deduplication of pages of a replica that the buddy has itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedPages {
    /// Enabled if a sample finds enough such pages.
    #[default]
    Auto,
    Always,
    Never,
}

/// Interval of cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// This time after the last cut.
    Time(Duration),
    /// This number of possible cuts (collective calls over all workers).
    Calls(u64),
    /// The best time for the measured cost of checkpoints and the estimated rate of failures.
    Auto,
    /// No cuts after that at the end of `MPI_Init`.
    ///
    /// After a failure the job resumes from there.
    Off,
}

/// Network between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// TCP, with a message about other networks of the node.
    Auto,
    /// Network that the MPI library chooses without understudy.
    Native,
    /// TCP between nodes, and shared memory on a node.
    Tcp,
}

/// Method of restoring static data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticData {
    /// Restored from replicas.
    Image,
    /// Restored by a replay of the set-up phase.
    Replay,
    /// Restored from a file.
    Disk,
    /// Restored by a replay if that rebuilds at least half, otherwise from replicas.
    Auto,
}

/// Permissions of threads that the program creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// A program that creates threads loses its protection.
    Refused,
    /// Threads are restored, and may call MPI as the level requested in `MPI_Init_thread` allows.
    AsRequested,
    /// Threads are restored, and any may call MPI.
    ///
    /// MPI behaves as if the program had requested `MPI_THREAD_SERIALIZED`.
    Serialized,
}

impl StaticData {
    /// Returns the name of the method if it excludes parity.
    ///
    /// Such a method needs whole replicas ([`Scheme::Copies`]).
    pub fn exclusive(self) -> Option<&'static str> {
        match self {
            StaticData::Replay => Some("replay"),
            StaticData::Disk => Some("disk"),
            StaticData::Image | StaticData::Auto => None,
        }
    }
}

/// Rule for the end of the set-up phase.
///
/// The phase ends at the first cut at which every worker satisfies the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitEndRule {
    /// Calls come from known call sites only, for long enough: probably the main loop.
    ///
    /// The phase ends at the latest when the first checkpoint interval is over.
    Auto,
    /// This procedure was called this number of times.
    Calls(String, u64),
    /// `MPI_Pcontrol` was called with this level.
    Pcontrol(i32),
    /// This function of the program was entered.
    Function(String),
    /// This time has passed since `MPI_Init`.
    Time(Duration),
}

/// Workers whose set-up phase is replayed on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialReplay {
    /// No worker, or all workers if static data are restored by a replay.
    Off,
    /// Every fourth worker.
    Sample,
    All,
}

pub(super) fn trial_replay(text: &str) -> Result<TrialReplay, String> {
    match text {
        "off" => Ok(TrialReplay::Off),
        "sample" => Ok(TrialReplay::Sample),
        "all" => Ok(TrialReplay::All),
        _ => Err(format!("`{text}` is none of `off`, `sample`, `all`")),
    }
}

/// Limit of a journal's length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JournalLimit {
    /// This fraction of the image that the journal can rebuild.
    Part(f64),
    /// This number of bytes.
    Bytes(usize),
}

impl JournalLimit {
    /// Returns the limit in bytes for an image of this size.
    ///
    /// A fraction yields at least 4 MiB, so that a small image does not make a journal impossible.
    pub fn of(self, image: usize) -> usize {
        const MIN_BYTES: usize = 4 << 20;
        match self {
            JournalLimit::Part(part) => ((image as f64 * part) as usize).max(MIN_BYTES),
            JournalLimit::Bytes(bytes) => bytes,
        }
    }
}

pub(super) fn journal_limit(text: &str) -> Result<JournalLimit, String> {
    let wrong =
        || format!("`{text}` is neither a part of the program's memory (`25%`) nor a size (`64M`)");
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        return if percent > 0.0 && percent <= 1000.0 {
            Ok(JournalLimit::Part(percent / 100.0))
        } else {
            Err(wrong())
        };
    }
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (amount, unit) = text.split_at(split);
    let unit: usize = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(wrong()),
    };
    let amount: usize = amount.parse().map_err(|_| wrong())?;
    amount
        .checked_mul(unit)
        .filter(|&bytes| bytes > 0)
        .map(JournalLimit::Bytes)
        .ok_or_else(wrong)
}

/// Parses the level of `MPI_Pcontrol` that starts another set-up phase; `None` for `off`.
pub(super) fn new_phase(text: &str) -> Result<Option<i32>, String> {
    match (text, text.strip_prefix("pcontrol:").map(str::parse)) {
        ("off", _) => Ok(None),
        (_, Some(Ok(level))) => Ok(Some(level)),
        _ => Err(format!("`{text}` is neither `off` nor like `pcontrol:2`")),
    }
}

/// Parses the rule for the end of the set-up phase.
pub(super) fn init_end(text: &str) -> Result<InitEndRule, String> {
    let wrong = || {
        format!(
            "`{text}` is none of `auto`, `MPI_Allreduce#120`, `pcontrol:1`, `function:main_loop`, \
             `time:30s`"
        )
    };
    if text == "auto" {
        return Ok(InitEndRule::Auto);
    }
    if let Some((name, times)) = text.split_once('#') {
        let times = times
            .parse()
            .ok()
            .filter(|&times| times > 0)
            .ok_or_else(wrong)?;
        return Ok(InitEndRule::Calls(name.to_owned(), times));
    }
    match text.split_once(':') {
        Some(("pcontrol", level)) => level
            .parse()
            .map(InitEndRule::Pcontrol)
            .map_err(|_| wrong()),
        Some(("function", name)) if !name.is_empty() => Ok(InitEndRule::Function(name.to_owned())),
        Some(("time", time)) => match interval(time) {
            Ok(Interval::Time(time)) => Ok(InitEndRule::Time(time)),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

pub(super) fn number<T: std::str::FromStr>(text: &str, expected: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not {expected}"))
}

/// Jobs that stop if they cannot be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Require {
    /// No job; the program runs unprotected.
    Never,
    /// All jobs, but a running job for which memory becomes scarce continues unprotected.
    Start,
    Always,
}

pub(super) fn require(text: &str) -> Result<Require, String> {
    Ok(match text {
        "start" => Require::Start,
        text if switch(text)? => Require::Always,
        _ => Require::Never,
    })
}

/// Start of a job whose directory may contain checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// From the beginning; refused if there are checkpoints.
    Never,
    /// From the last checkpoint; refused if there is none.
    Always,
    /// From the last complete checkpoint, or else from the beginning.
    Auto,
}

pub(super) fn restart(text: &str) -> Result<Restart, String> {
    Ok(match text {
        "auto" => Restart::Auto,
        text if switch(text)? => Restart::Always,
        _ => Restart::Never,
    })
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" | "off" | "no" => Ok(false),
        "1" | "on" | "yes" => Ok(true),
        _ => Err(format!("`{text}` is neither 0 nor 1")),
    }
}

pub(super) fn threads(text: &str) -> Result<Threads, String> {
    match text {
        "serialized" => Ok(Threads::Serialized),
        _ => switch(text)
            .map(|is_allowed| {
                if is_allowed {
                    Threads::AsRequested
                } else {
                    Threads::Refused
                }
            })
            .map_err(|_| format!("`{text}` is none of `0`, `1`, `serialized`")),
    }
}

pub(super) fn interval(text: &str) -> Result<Interval, String> {
    let wrong = || format!("`{text}` is none of `10s`, `500ms`, `2m`, `100calls`, `off`, `auto`");
    match text {
        "off" => return Ok(Interval::Off),
        "auto" => return Ok(Interval::Auto),
        _ => {}
    }
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(wrong)?;
    let (amount, unit) = text.split_at(split);
    if unit == "calls" {
        return amount
            .parse()
            .ok()
            .filter(|&calls: &u64| calls > 0)
            .map(Interval::Calls)
            .ok_or_else(wrong);
    }
    match understudy_formats::duration::parse_duration(text) {
        Some(time) if time > MAX_INTERVAL => Err(format!(
            "`{text}` is longer than any job: at most 30d; `off` takes no checkpoints after the \
             first"
        )),
        time => time.map(Interval::Time).ok_or_else(wrong),
    }
}

/// Parses the time for which a silent node is waited for.
///
/// Heartbeats and margins need the minimum.
pub(super) fn node_timeout(text: &str) -> Result<Duration, String> {
    match understudy_formats::duration::parse_duration(text) {
        Some(time) if time >= MIN_NODE_TIMEOUT => Ok(time),
        Some(_) => Err(format!(
            "`{text}` is shorter than {} s",
            MIN_NODE_TIMEOUT.as_secs()
        )),
        None => Err(format!("`{text}` is not a time (`60s`, `2m`)")),
    }
}

/// Parses a range of ports.
pub(super) fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let range = text.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (1 <= first && first <= last).then_some(first..=last)
    });
    range.ok_or_else(|| format!("`{text}` is not a range of ports, such as `50000-50099`"))
}

pub(super) fn tracking(text: &str) -> Result<Tracking, String> {
    match text {
        "auto" => Ok(Tracking::Auto),
        "pagemap" => Ok(Tracking::PagemapScan),
        "landings" => Ok(Tracking::Landings),
        "compare" => Ok(Tracking::Compare),
        _ => Err(format!(
            "`{text}` is none of `auto`, `pagemap`, `compare`, `landings`"
        )),
    }
}

pub(super) fn fabric(text: &str) -> Result<Fabric, String> {
    match text {
        "auto" => Ok(Fabric::Auto),
        "native" => Ok(Fabric::Native),
        "tcp" => Ok(Fabric::Tcp),
        _ => Err(format!("`{text}` is none of `auto`, `native`, `tcp`")),
    }
}

pub(super) fn shared_pages(text: &str) -> Result<SharedPages, String> {
    match text {
        "auto" => Ok(SharedPages::Auto),
        "1" => Ok(SharedPages::Always),
        "0" => Ok(SharedPages::Never),
        _ => Err(format!("`{text}` is none of `auto`, `0`, `1`")),
    }
}

/// Parses a scheme; `None` for `auto`.
pub(super) fn scheme(text: &str) -> Result<Option<Scheme>, String> {
    match (text, text.strip_prefix("xor:")) {
        ("auto", _) => Ok(None),
        ("1", _) => Ok(Some(Scheme::Copies(1))),
        ("2", _) => Ok(Some(Scheme::Copies(2))),
        (_, Some(size)) => match number(size, "a number of workers")? {
            size @ 2.. => Ok(Some(Scheme::Parity(size))),
            _ => Err("a group needs at least 2 workers, as in `xor:2`".into()),
        },
        _ => Err(format!(
            "`{text}` is none of `auto`, `1`, `2`, `xor:G` with a number of workers for G"
        )),
    }
}

/// Parses the time after which a hang is reported; `None` for `off`.
pub(super) fn hang_after(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "off" => Ok(None),
        _ => parse_duration(text)
            .map(Some)
            .ok_or_else(|| format!("`{text}` is neither a time (`5min`, `1h`) nor `off`")),
    }
}
