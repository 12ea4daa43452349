//! What a job calls its files in memory.

const PREFIX: &str = "understudy-";

/// The job and what follows it, for a name that a job has given to a file of one of its ranks.
pub fn job_of_name(name: &str) -> Option<(&str, &str)> {
    let (job, rest) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    job.contains('@').then_some((job, rest))
}

/// The job's directory, which lasts until what the job has left is removed.
pub fn name_of_directory(job: &str) -> String {
    format!("{PREFIX}{job}-launch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_job() {
        let name = "understudy-prterun-node-a-4711@1-12";
        assert_eq!(job_of_name(name), Some(("prterun-node-a-4711@1", "12")));
        assert_eq!(
            job_of_name("understudy-prterun-vm-1@1-0.undo"),
            Some(("prterun-vm-1@1", "0.undo"))
        );
        // A log of a job with a disk level, which a restart needs.
        assert_eq!(job_of_name("understudy-0000000000000007-0000000000000001-3.undo"), None);
    }
}
