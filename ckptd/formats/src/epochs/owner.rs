//! Owner of a directory of checkpoints: a job, which an owner file describes.
//!
//! An owner has a *term*, a number that grows from owner to owner. The name of an owner file
//! contains the term; `claim` makes the files, and `heartbeat` rewrites their counter.

use super::epoch_files::EpochKey;
use crate::host::host_name;
use std::fmt;
use understudy_numbers::Epoch;

/// Prefix of the names of owner files.
pub(super) const OWNER_PREFIX: &str = "understudy-owner-";

/// Last lines of an owner file: the counter, and the mark of a complete file.
const COUNTER: &str = "\nbeats ";
const END: &str = "\nend\n";
/// Number of digits of the counter.
///
/// A new value has the place of the former one.
const COUNTER_DIGITS: usize = 20;

/// Description of a job, the content of an owner file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryOwner {
    /// Name of the job, for messages.
    pub job: String,
    /// Random number, which differs in jobs of equal names.
    pub nonce: u64,
    /// Host of the process that has written the file.
    pub host: String,
    /// `/proc/sys/kernel/random/boot_id` of that host.
    pub boot: String,
    /// Process that has written the file.
    pub pid: u32,
    /// Number of jobs that have owned the directory, this one included.
    pub term: u64,
    /// Job id of the batch system; empty without a batch system.
    pub batch: String,
    /// Number of times that the batch system has restarted the job.
    pub restarts: u64,
    /// Limits of this term and of earlier ones.
    pub limits: Vec<TermLimit>,
}

/// Newest checkpoint in the directory when a term began.
///
/// An earlier owner that is slow, not dead, may complete a newer checkpoint later. A restart must
/// not use that checkpoint: the files of the program have been changed by the owner of this term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermLimit {
    pub term: u64,
    /// Zero if there was no checkpoint.
    pub newest: EpochKey,
}

/// Key that is less than the key of every checkpoint.
pub const NO_CHECKPOINT: EpochKey = EpochKey {
    lineage: 0,
    term: 0,
    generation: 0,
    epoch: Epoch(0),
};

/// Evidence of the life of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeSign {
    Ended,
    /// Processes under this kernel have locked the file.
    Locked,
    Unknown,
}

impl fmt::Display for DirectoryOwner {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.job.is_empty() {
            return write!(to, "another job");
        }
        write!(
            to,
            "job {} (process {} on {}",
            self.job, self.pid, self.host
        )?;
        match self.batch.as_str() {
            "" => write!(to, ")"),
            batch => write!(to, "; `scancel {batch}` ends it)"),
        }
    }
}

impl DirectoryOwner {
    /// Describes the job of this process, as a first owner.
    ///
    /// `job` and `nonce` identify the job; `variable` returns the value of an environment variable.
    pub fn current(
        job: &str,
        nonce: u64,
        variable: impl Fn(&str) -> Option<String>,
    ) -> DirectoryOwner {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let parsed = |name| variable(name).and_then(|value| value.parse().ok());
        DirectoryOwner {
            job: job.into(),
            nonce,
            host: host_name(),
            boot: read("/proc/sys/kernel/random/boot_id").trim().into(),
            pid: std::process::id(),
            term: 1,
            batch: variable("SLURM_JOB_ID").unwrap_or_default(),
            restarts: parsed("SLURM_RESTART_COUNT").unwrap_or(0),
            limits: Vec::new(),
        }
    }

    /// Parses the content of a file.
    ///
    /// `None` if the content is incomplete.
    pub(super) fn parse(text: &str) -> Option<DirectoryOwner> {
        let text = text.strip_suffix(END)?;
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let mut owner = DirectoryOwner::default();
        for (name, value) in lines {
            match name {
                "job" => owner.job = value.into(),
                "nonce" => owner.nonce = value.parse().ok()?,
                "host" => owner.host = value.into(),
                "boot" => owner.boot = value.into(),
                "pid" => owner.pid = value.parse().ok()?,
                "term" => owner.term = value.parse().ok()?,
                "batch" => owner.batch = value.into(),
                "restarts" => owner.restarts = value.parse().ok()?,
                "limit" => owner.limits.push(TermLimit::parse(value)?),
                _ => {}
            }
        }
        Some(owner)
    }

    pub(super) fn text(&self) -> String {
        let DirectoryOwner {
            job,
            nonce,
            host,
            boot,
            pid,
            term,
            batch,
            restarts,
            limits,
        } = self;
        let limits: String = limits.iter().map(TermLimit::line).collect();
        format!(
            "job {job}\nnonce {nonce}\nhost {host}\nboot {boot}\npid {pid}\nterm {term}\n\
             batch {batch}\nrestarts {restarts}{limits}{COUNTER}{}{END}",
            digits(0)
        )
    }

    /// Returns what the file and its locks say about this owner.
    ///
    /// `is_locked` is `None` if the file system has no locks. Locks of other kernels may be
    /// invisible (`nolock`, `localflock`), or remain after the end of their host (NFS version 3),
    /// so only locks of this kernel count. Names of hosts prove nothing: containers on different
    /// hosts may have equal names.
    pub(super) fn life_sign(&self, own: &DirectoryOwner, is_locked: Option<bool>) -> LifeSign {
        let is_earlier_start =
            !self.batch.is_empty() && self.batch == own.batch && self.restarts < own.restarts;
        match is_locked.filter(|_| self.boot == own.boot) {
            Some(true) => LifeSign::Locked,
            Some(false) => LifeSign::Ended,
            None if is_earlier_start => LifeSign::Ended,
            None => LifeSign::Unknown,
        }
    }

    /// True if a restart may use a checkpoint.
    ///
    /// False for a checkpoint of an earlier term that was completed after that term had ended.
    pub fn permits(&self, key: EpochKey) -> bool {
        let mut limits = self.limits.iter();
        limits.all(|limit| key.term >= limit.term || key <= limit.newest)
    }
}

impl TermLimit {
    fn line(&self) -> String {
        let EpochKey {
            lineage,
            term,
            generation,
            epoch,
        } = self.newest;
        format!(
            "\nlimit {} {lineage} {term} {generation} {}",
            self.term, epoch.0
        )
    }

    fn parse(text: &str) -> Option<TermLimit> {
        let numbers: Option<Vec<u64>> = text.split(' ').map(|word| word.parse().ok()).collect();
        let [limit, lineage, term, generation, epoch] = numbers?.try_into().ok()?;
        let newest = EpochKey {
            lineage,
            term,
            generation,
            epoch: Epoch(epoch),
        };
        Some(TermLimit {
            term: limit,
            newest,
        })
    }
}

fn digits(count: u64) -> String {
    format!("{count:0width$}", width = COUNTER_DIGITS)
}

/// Returns the position of the counter in a file, and its next digits.
///
/// `None` if the content is incomplete.
pub(super) fn next_count(text: &str) -> Option<(usize, String)> {
    let counter = text.strip_suffix(END)?.len().checked_sub(COUNTER_DIGITS)?;
    let (before, count) = text.get(..counter).zip(text.get(counter..))?;
    let count: u64 = count.strip_suffix(END)?.parse().ok()?;
    before.ends_with(COUNTER).then_some(())?;
    Some((counter, digits(count.wrapping_add(1))))
}

/// Returns the name of the owner file of a term.
pub(super) fn name_of(term: u64) -> String {
    format!("{OWNER_PREFIX}{term:04}")
}

/// Returns the term in the name of an owner file; `None` for other names.
pub(super) fn term_of(name: &str) -> Option<u64> {
    let term = name.strip_prefix(OWNER_PREFIX)?.parse().ok()?;
    (name_of(term) == name).then_some(term)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> DirectoryOwner {
        DirectoryOwner::current(name, 5, |_| None)
    }

    fn key(term: u64, epoch: u64) -> EpochKey {
        EpochKey {
            lineage: 7,
            term,
            generation: 0,
            epoch: Epoch(epoch),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_only_if_it_is_complete() {
        let limits = vec![TermLimit {
            term: 3,
            newest: key(2, 9),
        }];
        let owner = DirectoryOwner {
            limits,
            ..job("own")
        };
        let text = owner.text();
        assert_eq!(DirectoryOwner::parse(&text), Some(owner));
        assert_eq!(DirectoryOwner::parse(&text[..text.len() - 2]), None);
        assert_eq!(DirectoryOwner::parse(""), None);
        assert_eq!(term_of(&name_of(12)), Some(12));
        for name in ["understudy-owner-1", "understudy-owner-x.part", "owner"] {
            assert_eq!(term_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_counter_keeps_its_place() {
        let mut text = job("own").text();
        for expected in ["00000000000000000001", "00000000000000000002"] {
            let (at, count) = next_count(&text).expect("complete");
            assert_eq!(count, expected);
            text.replace_range(at..at + count.len(), &count);
        }
        assert_eq!(DirectoryOwner::parse(&text), Some(job("own")));
        for damaged in ["", "\nend\n", &text[1..text.len() - 30], &text[..9]] {
            assert_eq!(next_count(damaged), None);
        }
    }

    #[test]
    fn an_owner_has_ended_only_with_proof() {
        let own = DirectoryOwner {
            batch: "7".into(),
            restarts: 1,
            ..job("own")
        };
        let other = |batch: &str| DirectoryOwner {
            boot: "another".into(),
            batch: batch.into(),
            ..job("other")
        };
        let here = job("other");
        for (owner, is_locked, sign) in [
            (&here, Some(true), LifeSign::Locked),
            (&here, Some(false), LifeSign::Ended),
            (&here, None, LifeSign::Unknown),
            (&other(""), Some(false), LifeSign::Unknown),
            (&other(""), Some(true), LifeSign::Unknown),
            (&other("8"), Some(false), LifeSign::Unknown),
            (&other("7"), Some(false), LifeSign::Ended),
        ] {
            assert_eq!(owner.life_sign(&own, is_locked), sign, "{owner:?}");
        }
    }

    /// The second owner has begun after checkpoint 5 of the first one.
    #[test]
    fn late_checkpoints_of_earlier_owners_are_refused() {
        let limit = |term, newest| TermLimit { term, newest };
        let owner = DirectoryOwner {
            limits: vec![
                limit(1, NO_CHECKPOINT),
                limit(2, key(1, 5)),
                limit(3, key(2, 4)),
            ],
            ..job("third")
        };
        for (key, is_usable) in [
            (key(1, 4), true),
            (key(1, 5), true),
            (key(1, 6), false),
            (key(2, 4), true),
            (key(2, 5), false),
            (key(3, 1), true),
        ] {
            assert_eq!(owner.permits(key), is_usable, "{key:?}");
        }
    }
}
