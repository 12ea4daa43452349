//! What a job calls its files in memory.

use understudy_numbers::Worker;

const PREFIX: &str = "understudy-";

/// A job's name as part of a file's: a launcher's name for it may have slashes.
pub fn in_file_names(job: &str) -> String {
    job.replace('/', "_")
}

/// What the job calls a file in memory, such as a rank's: [`job_of_name`] takes it apart.
pub fn name_in_memory(job: &str, rest: &str) -> String {
    format!("{PREFIX}{}-{rest}", in_file_names(job))
}

/// What rest of such a name a worker's board has, by which it shows others of its job what they are
/// to know while it is busy.
pub fn board(worker: Worker) -> String {
    format!("{worker}.board")
}

/// The job and what follows it, for a name that a job has given to a file of one of its ranks.
pub fn job_of_name(name: &str) -> Option<(&str, &str)> {
    let (job, rest) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    job.contains('@').then_some((job, rest))
}

/// The job's directory, which lasts until what the job has left is removed.
pub fn name_of_directory(job: &str) -> String {
    name_in_memory(job, "launch")
}

/// The job whose directory has this name, as it is in the names of its files.
pub fn job_of_directory(name: &str) -> &str {
    name.trim_start_matches(PREFIX).trim_end_matches("-launch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_job() {
        let name = name_in_memory("prterun-node-a-4711@1", "12");
        assert_eq!(job_of_name(&name), Some(("prterun-node-a-4711@1", "12")));
        assert_eq!(
            job_of_name("understudy-prterun-vm-1@1-0.undo"),
            Some(("prterun-vm-1@1", "0.undo"))
        );
        // A log of a job with a disk level, which a restart needs.
        assert_eq!(
            job_of_name("understudy-0000000000000007-0000000000000001-3.undo"),
            None
        );
    }
}
