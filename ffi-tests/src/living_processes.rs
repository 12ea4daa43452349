//! Living processes of a job with guardians, including replacements.

use crate::kill::count_lines;
use crate::processes::{self, Process};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Processes by rank in the launcher's world.
pub type Ranks = BTreeMap<u32, Process>;

/// Returns the parent of the guardians: the launcher's process on this node.
pub fn launcher(first: &Ranks) -> Option<u32> {
    let guardian = first.values().next()?.parent;
    processes::parent(guardian)
}

/// Finds the node manager of a job, a child of a guardian.
///
/// Returns `None` while the manager is being replaced.
pub fn manager(first: &Ranks) -> Option<u32> {
    let guardians: Vec<u32> = first.values().map(|process| process.parent).collect();
    let is_manager = |pid: &u32| {
        processes::words(*pid)[0]
            .iter()
            .any(|word| word == "manage")
    };
    let is_of_job =
        |pid: &u32| processes::parent(*pid).is_some_and(|parent| guardians.contains(&parent));
    processes::all().find(|pid| is_of_job(pid) && is_manager(pid))
}

/// Returns the living processes of the program by rank, and the number of printed lines.
///
/// Processes that were started later than those of `first` are included.
pub fn living_and_lines(first: &Ranks, program: &str) -> (BTreeMap<u32, u32>, usize) {
    let Some(launcher) = launcher(first) else {
        return Default::default();
    };
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let is_of_job = |pid: &u32| name(*pid).trim() == program && processes::descends(*pid, launcher);
    let number = |pid: u32| {
        let [_, environment] = processes::words(pid);
        let number = environment
            .iter()
            .find_map(|entry| entry.strip_prefix("OMPI_COMM_WORLD_RANK=")?.parse().ok());
        Some((number?, pid))
    };
    let living: BTreeMap<u32, u32> = processes::all()
        .filter(is_of_job)
        .filter_map(number)
        .collect();
    let job = living.values().next().and_then(|&pid| beside_work(pid));
    let lines = job.map_or(0, |job| count_lines(&job.join("stdout")));
    (living, lines)
}

/// Returns the directory of the job that a process belongs to.
pub fn beside_work(pid: u32) -> Option<PathBuf> {
    let work = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    work.parent().map(PathBuf::from)
}

/// True if the job has printed these words on standard error.
pub fn has_printed(ranks: &Ranks, words: &str) -> bool {
    let job = beside_work(ranks[&0].pid);
    let text = job.map(|job| std::fs::read_to_string(job.join("stderr")).unwrap_or_default());
    text.is_some_and(|text| text.contains(words))
}

/// Returns the substring of the job's name that the launcher has chosen.
///
/// Under Open MPI 4, the substring is the number of the PMIx namespace, and under Slurm the numbers
/// of job and step; the guardian has these numbers in its environment. Under other launchers, the
/// substring is the PID of the launcher, the guardian's parent.
pub fn job_mark(guardian: u32) -> String {
    let [_, environment] = processes::words(guardian);
    let value = |name: &str| {
        environment
            .iter()
            .find_map(|entry| entry.strip_prefix(name))
    };
    let slurm = value("SLURM_JOB_ID=").zip(value("SLURM_STEP_ID="));
    // Only Open MPI 4 names a namespace by a number without `@`.
    let number = value("PMIX_NAMESPACE=").filter(|name| !name.contains('@'));
    match (slurm, number) {
        (_, Some(number)) => format!(".{number}@"),
        (Some((job, step)), _) => format!("-{job}.{step}@"),
        _ => format!("-{}@", processes::parent(guardian).unwrap_or(guardian)),
    }
}
