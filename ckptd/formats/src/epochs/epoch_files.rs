//! Names of checkpoint files, and selection of checkpoints by these names, without file access.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use understudy_numbers::{Epoch, Worker};

/// Identification of an epoch on disk, ordered by time.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, bincode::Encode, bincode::Decode,
)]
pub struct EpochKey {
    /// Time of the job's first start in nanoseconds since 1970; all restarts share it.
    pub lineage: u64,
    /// Term of the job as the owner of the directory (`owner`).
    ///
    /// Each restart has a greater term.
    pub term: u64,
    /// Number of recoveries in this term so far.
    ///
    /// A job that is rolled back takes checkpoints with the same epoch numbers again; the
    /// generation distinguishes them.
    pub generation: u64,
    pub epoch: Epoch,
}

/// Name of a worker's file of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochFileName {
    pub key: EpochKey,
    pub worker: Worker,
}

/// Suffix of the name of a file that is being written.
pub const PARTIAL_SUFFIX: &str = ".part";
/// Prefix of the names of checkpoint files and of files with static data.
pub const PREFIX: &str = "understudy-";
const SUFFIX: &str = ".epoch";
/// Suffix of the names of files with static data.
pub const STATIC_SUFFIX: &str = ".static";

impl fmt::Display for EpochFileName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (
            EpochKey {
                lineage,
                term,
                generation,
                epoch,
            },
            worker,
        ) = (self.key, self.worker);
        write!(
            out,
            "{PREFIX}{lineage:016x}-{term:04}-{generation:04}-{:08}-w{:05}{SUFFIX}",
            epoch.0, worker.0
        )
    }
}

impl EpochFileName {
    /// Parses a file's name; `None` for other files.
    pub fn parse(text: &str) -> Option<EpochFileName> {
        let mut fields = text.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split('-');
        let name = EpochFileName {
            key: EpochKey {
                lineage: u64::from_str_radix(fields.next()?, 16).ok()?,
                term: fields.next()?.parse().ok()?,
                generation: fields.next()?.parse().ok()?,
                epoch: Epoch(fields.next()?.parse().ok()?),
            },
            worker: Worker(fields.next()?.strip_prefix('w')?.parse().ok()?),
        };
        (name.to_string() == text).then_some(name)
    }
}

/// Returns the epochs of which `worker` has a file, the oldest first.
pub fn epochs_of_worker<'a>(
    listing: impl IntoIterator<Item = &'a str>,
    worker: Worker,
) -> Vec<EpochKey> {
    let names = listing.into_iter().filter_map(EpochFileName::parse);
    let keys: BTreeSet<EpochKey> = names
        .filter(|name| name.worker == worker)
        .map(|name| name.key)
        .collect();
    keys.into_iter().collect()
}

/// True if some checkpoint has a file of each of these workers.
pub fn has_complete_epoch<'a>(listing: impl IntoIterator<Item = &'a str>, workers: u32) -> bool {
    let mut counts: BTreeMap<EpochKey, u32> = BTreeMap::new();
    let names = listing.into_iter().filter_map(EpochFileName::parse);
    for name in names.filter(|name| name.worker.0 < workers) {
        *counts.entry(name.key).or_default() += 1;
    }
    counts.values().any(|&count| count == workers)
}

/// Returns the incomplete checkpoint files of `worker`.
pub fn incomplete_files<'a>(
    listing: impl IntoIterator<Item = &'a str>,
    worker: Worker,
) -> Vec<&'a str> {
    let is_incomplete = |file: &&str| {
        let name = file
            .strip_suffix(PARTIAL_SUFFIX)
            .and_then(EpochFileName::parse);
        name.is_some_and(|name| name.worker == worker)
    };
    listing.into_iter().filter(is_incomplete).collect()
}

/// Returns the prefix of the names of all files of a job, including undo logs.
pub fn prefix_of_job(lineage: u64) -> String {
    format!("{PREFIX}{lineage:016x}-")
}

/// Returns the files of all epochs and static data of a job, including incomplete files.
///
/// Undo logs are not included: `understudy_program` removes them (`log_location.rs`).
pub fn files_of_job<'a>(listing: impl IntoIterator<Item = &'a str>, lineage: u64) -> Vec<&'a str> {
    let prefix = prefix_of_job(lineage);
    let is_of_job = |name: &&str| {
        name.starts_with(&prefix)
            && [SUFFIX, STATIC_SUFFIX]
                .iter()
                .any(|kind| name.contains(kind))
    };
    listing.into_iter().filter(is_of_job).collect()
}

/// Returns the epochs to try in a restart, the newest first.
///
/// `by_worker` contains a list for each worker: the epochs of which the worker has a file.
///
/// Epochs that only some workers have are included, so that the missing file can be reported.
pub fn restorable_epochs(by_worker: &[Vec<EpochKey>]) -> Vec<EpochKey> {
    let all: BTreeSet<EpochKey> = by_worker.iter().flatten().copied().collect();
    all.into_iter().rev().collect()
}

/// Returns a worker's epochs that are not needed any more.
///
/// `complete` are the epochs of which all workers have complete files. The last two of them, and
/// all epochs newer than the older one, are needed. Epochs of other jobs are never returned.
pub fn obsolete_epochs<'a>(
    files: impl IntoIterator<Item = &'a EpochKey>,
    complete: &BTreeSet<EpochKey>,
) -> Vec<EpochKey> {
    let Some(second) = complete.iter().rev().nth(1) else {
        return Vec::new();
    };
    let is_old = |key: &&EpochKey| key.lineage == second.lineage && *key < second;
    files.into_iter().filter(is_old).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(generation: u64, epoch: u64) -> EpochKey {
        EpochKey {
            lineage: 7,
            term: 1,
            generation,
            epoch: Epoch(epoch),
        }
    }

    fn file(generation: u64, epoch: u64, worker: u32) -> String {
        let key = key(generation, epoch);
        let worker = Worker(worker);
        EpochFileName { key, worker }.to_string()
    }

    #[test]
    fn only_names_of_epoch_files_are_parsed() {
        let text = file(2, 31, 4);
        assert_eq!(
            text,
            "understudy-0000000000000007-0001-0002-00000031-w00004.epoch"
        );
        assert_eq!(
            EpochFileName::parse(&text),
            Some(EpochFileName {
                key: key(2, 31),
                worker: Worker(4)
            })
        );
        let huge = EpochFileName {
            key: EpochKey {
                lineage: u64::MAX,
                term: 98_765,
                generation: 123_456,
                epoch: Epoch(u64::MAX),
            },
            worker: Worker(u32::MAX),
        };
        assert_eq!(EpochFileName::parse(&huge.to_string()), Some(huge));
        for wrong in [
            "",
            "understudy-.epoch",
            "understudy-7-1-2-31-w4.epoch",
            &format!("{text}.part"),
            &format!("x{text}"),
            &text.replace(".epoch", "-1.epoch"),
            &text.replace("0007", "000g"),
        ] {
            assert_eq!(EpochFileName::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_epoch_is_complete_with_a_file_of_each_worker() {
        let files = [file(0, 3, 0), file(0, 3, 1), file(0, 4, 0), file(1, 3, 2)];
        let is_complete = |workers| has_complete_epoch(files.iter().map(String::as_str), workers);
        assert!(is_complete(1) && is_complete(2) && !is_complete(3));
    }

    #[test]
    fn epochs_are_sorted_by_time() {
        let later_term = EpochKey {
            term: 2,
            ..key(0, 1)
        };
        assert!(later_term > key(9, 9));
        // Generation 1 begins with a recovery, so epoch 3 of generation 0 is older than epoch 2 of
        // generation 1.
        let files = [
            file(0, 3, 1),
            file(1, 2, 1),
            file(0, 2, 1),
            file(0, 9, 0),
            "core".into(),
        ];
        let found = epochs_of_worker(files.iter().map(String::as_str), Worker(1));
        assert_eq!(found, [key(0, 2), key(0, 3), key(1, 2)]);
        let all = restorable_epochs(&[
            vec![key(0, 2), key(0, 3)],
            vec![key(0, 2), key(1, 1)],
            vec![],
        ]);
        assert_eq!(all, [key(1, 1), key(0, 3), key(0, 2)]);
    }

    #[test]
    fn torn_files_are_those_of_the_worker() {
        let files = [
            file(0, 3, 1),
            file(0, 4, 1) + PARTIAL_SUFFIX,
            file(0, 4, 2) + PARTIAL_SUFFIX,
            "x.part".into(),
        ];
        assert_eq!(
            incomplete_files(files.iter().map(String::as_str), Worker(1)),
            [&files[1]]
        );
    }

    #[test]
    fn all_files_of_a_job_are_found_but_its_logs() {
        let files = [
            file(0, 3, 1),
            file(0, 4, 2) + PARTIAL_SUFFIX,
            "understudy-0000000000000007-0001-w00002.static".into(),
            "understudy-0000000000000007-0000000000000007-0.undo".into(),
            "understudy-0000000000000008-0001-w00002.static".into(),
            "results".into(),
        ];
        assert_eq!(
            files_of_job(files.iter().map(String::as_str), 7),
            files[..3]
        );
    }

    #[test]
    fn two_complete_epochs_stay_and_all_that_is_newer() {
        let files = [key(0, 1), key(0, 2), key(0, 3), key(0, 4), key(1, 3)];
        let complete = |list: &[EpochKey]| list.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(obsolete_epochs(&files, &complete(&[])), []);
        assert_eq!(obsolete_epochs(&files, &complete(&[key(0, 4)])), []);
        assert_eq!(
            obsolete_epochs(&files, &complete(&[key(0, 1), key(0, 2), key(0, 4)])),
            [key(0, 1)]
        );
        assert_eq!(
            obsolete_epochs(&files, &complete(&[key(0, 4), key(1, 3)])),
            [key(0, 1), key(0, 2), key(0, 3)]
        );
        let other = EpochKey {
            lineage: 6,
            ..key(0, 1)
        };
        assert_eq!(
            obsolete_epochs(&[other], &complete(&[key(0, 4), key(1, 3)])),
            []
        );
    }
}
