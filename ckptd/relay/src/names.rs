//! Names of a job's files in memory: `understudy-JOB-REST`.

use understudy_numbers::Worker;

const PREFIX: &str = "understudy-";

/// Returns a job's name without slashes, for use in file names.
pub fn in_file_names(job: &str) -> String {
    job.replace('/', "_")
}

/// Returns the name of a job's file in memory; [`job_of_name`] splits it again.
pub fn name_in_memory(job: &str, rest: &str) -> String {
    format!("{PREFIX}{}-{rest}", in_file_names(job))
}

/// Returns the last part of the name of a worker's board.
///
/// A board is shared memory with the state that a worker publishes for other workers.
pub fn board(worker: Worker) -> String {
    format!("{worker}.board")
}

/// Splits the name of a job's file into the job and the last part.
///
/// `None` for other files. Every job's name contains `@`.
pub fn job_of_name(name: &str) -> Option<(&str, &str)> {
    let (job, rest) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    job.contains('@').then_some((job, rest))
}

/// Returns the name of the job's directory, which is removed before the job's other leftovers.
pub fn name_of_directory(job: &str) -> String {
    name_in_memory(job, "launch")
}

/// Returns the job whose directory has this name, in the form used in file names.
pub fn job_of_directory(name: &str) -> &str {
    name.trim_start_matches(PREFIX).trim_end_matches("-launch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_contain_the_job() {
        let name = name_in_memory("prterun-node-a-4711@1", "12");
        assert_eq!(job_of_name(&name), Some(("prterun-node-a-4711@1", "12")));
        assert_eq!(
            job_of_name("understudy-prterun-vm-1@1-0.undo"),
            Some(("prterun-vm-1@1", "0.undo"))
        );
        // A log of a job with checkpoints on disk, which a restart needs.
        assert_eq!(
            job_of_name("understudy-0000000000000007-0000000000000001-3.undo"),
            None
        );
    }
}
