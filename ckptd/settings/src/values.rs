//! The values of settings, and how they are written.

use std::fmt;
use std::time::Duration;
use understudy_formats::pages::Tracking;

/// A checkpoint that is due less often than this protects no job.
const LONGEST_INTERVAL: Duration = Duration::from_secs(30 * 86400);

/// How workers are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// So many whole copies of each.
    Copies(u32),
    /// Parity over groups of about so many.
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
    /// Whether there are whole copies.
    pub fn is_whole_copies(self) -> bool {
        matches!(self, Scheme::Copies(_))
    }

    /// The fewest workers that it can protect.
    pub fn fewest_workers(self) -> u32 {
        match self {
            Scheme::Copies(copies) => copies + 1,
            Scheme::Parity(size) => size,
        }
    }
}

/// Whether pages of a copy that its holder has itself are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedPages {
    /// Where a sample finds enough of them.
    #[default]
    Auto,
    Always,
    Never,
}

/// When a cut is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// After this much time since the last one.
    Time(Duration),
    /// After this many cut candidates (collectives over all workers).
    Calls(u64),
    /// After the time that is best for what checkpoints cost.
    Auto,
    /// Never; a failure leads back to MPI_Init.
    Off,
}

/// How static data are brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Static {
    /// They are in the copies.
    Image,
    /// They are rebuilt by a replay of the initialisation phase.
    Replay,
    /// They are read from a file.
    Disk,
    /// A replay if it proves to be right, else images.
    Auto,
}

/// What threads that the program creates may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The program loses its protection.
    Refused,
    /// They are brought back, and call MPI as far as the program has asked for that.
    AsAsked,
    /// The same, and any may call, as if the program had asked for `MPI_THREAD_SERIALIZED`.
    Serialized,
}

impl Static {
    /// Its name, if it goes with whole copies only.
    pub fn exclusive(self) -> Option<&'static str> {
        match self {
            Static::Replay => Some("replay"),
            Static::Disk => Some("disk"),
            Static::Image | Static::Auto => None,
        }
    }
}

/// Where the initialisation phase ends: at the first cut at which it is satisfied in every worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// When calls are made at places that have made calls before, for long enough; at the latest
    /// when the first interval is over.
    Auto,
    /// This procedure has been called so often.
    Calls(String, u64),
    /// `MPI_Pcontrol` has been called with this level.
    Pcontrol(i32),
    /// This function of the program has been entered.
    Function(String),
    /// So much time has passed since `MPI_Init`.
    Time(Duration),
}

/// Whose initialisation phase is rehearsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearse {
    /// That of nobody, unless static data are rebuilt.
    Off,
    /// That of every fourth worker.
    Sample,
    All,
}

pub(super) fn rehearse(text: &str) -> Result<Rehearse, String> {
    match text {
        "off" => Ok(Rehearse::Off),
        "sample" => Ok(Rehearse::Sample),
        "all" => Ok(Rehearse::All),
        _ => Err(format!("`{text}` is none of `off`, `sample`, `all`")),
    }
}

/// How long a journal may get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogLimit {
    /// This part of the image that it stands for.
    Part(f64),
    /// So many bytes.
    Bytes(usize),
}

impl LogLimit {
    /// Bytes for an image of so many bytes. So little memory is no reason to give a journal up that
    /// the part of a small image may be longer.
    pub fn of(self, image: usize) -> usize {
        const LEAST: usize = 4 << 20;
        match self {
            LogLimit::Part(part) => ((image as f64 * part) as usize).max(LEAST),
            LogLimit::Bytes(bytes) => bytes,
        }
    }
}

pub(super) fn log_limit(text: &str) -> Result<LogLimit, String> {
    let wrong = || format!("`{text}` is neither a part of the image (`25%`) nor a size (`64M`)");
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        return if percent > 0.0 && percent <= 1000.0 {
            Ok(LogLimit::Part(percent / 100.0))
        } else {
            Err(wrong())
        };
    }
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (amount, unit) = text.split_at(split);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(wrong()),
    };
    let amount: usize = amount.parse().map_err(|_| wrong())?;
    amount
        .checked_shl(shift)
        .filter(|&bytes| bytes > 0)
        .map(LogLimit::Bytes)
        .ok_or_else(wrong)
}

/// What begins another phase.
pub(super) fn new_phase(text: &str) -> Result<Option<i32>, String> {
    match (text, text.strip_prefix("pcontrol:").map(str::parse)) {
        ("off", _) => Ok(None),
        (_, Some(Ok(level))) => Ok(Some(level)),
        _ => Err(format!("`{text}` is neither `off` nor like `pcontrol:2`")),
    }
}

/// The rule for the end of the initialisation phase.
pub(super) fn init_end(text: &str) -> Result<Rule, String> {
    let wrong = || {
        format!(
            "`{text}` is none of `auto`, `MPI_Allreduce#120`, `pcontrol:1`, `function:main_loop`, \
             `time:30s`"
        )
    };
    if text == "auto" {
        return Ok(Rule::Auto);
    }
    if let Some((name, times)) = text.split_once('#') {
        let times = times
            .parse()
            .ok()
            .filter(|&times| times > 0)
            .ok_or_else(wrong)?;
        return Ok(Rule::Calls(name.to_owned(), times));
    }
    match text.split_once(':') {
        Some(("pcontrol", level)) => level.parse().map(Rule::Pcontrol).map_err(|_| wrong()),
        Some(("function", name)) if !name.is_empty() => Ok(Rule::Function(name.to_owned())),
        Some(("time", time)) => match interval(time) {
            Ok(Interval::Time(time)) => Ok(Rule::Time(time)),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

pub(super) fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not {what}"))
}

/// Jobs that stop where they cannot be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Require {
    /// None: they run unprotected.
    Never,
    /// All, but for those that have begun and get short of memory.
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
            .map(|may_be| {
                if may_be {
                    Threads::AsAsked
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
    match understudy_formats::advice::duration(text) {
        Some(time) if time > LONGEST_INTERVAL => Err(format!(
            "`{text}` is longer than any job: at most 30d; `off` takes no checkpoints after the \
             first"
        )),
        time => time.map(Interval::Time).ok_or_else(wrong),
    }
}

pub(super) fn tracking(text: &str) -> Result<Tracking, String> {
    match text {
        "auto" => Ok(Tracking::Auto),
        "pagemap" => Ok(Tracking::PagemapScan),
        "compare" => Ok(Tracking::Compare),
        _ => Err(format!("`{text}` is none of `auto`, `pagemap`, `compare`")),
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

pub(super) fn scheme(text: &str) -> Result<Scheme, String> {
    match (text, text.strip_prefix("xor:")) {
        ("1", _) => Ok(Scheme::Copies(1)),
        ("2", _) => Ok(Scheme::Copies(2)),
        (_, Some(size)) => match number(size, "a number of workers")? {
            size @ 2.. => Ok(Scheme::Parity(size)),
            _ => Err("a group needs at least 2 workers, as in `xor:2`".into()),
        },
        _ => Err(format!(
            "`{text}` is none of `1`, `2`, `xor:G` with a number of workers for G"
        )),
    }
}
