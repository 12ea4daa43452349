//! `understudy replace`: kills a rank, which is then replaced.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, verdict};
use crate::status::find::Finder;
use understudy_formats::events::ProcessNumber;
use understudy_launch::replace_rank;

/// Kill a rank of a running job, so that another process replaces it.
///
/// The guardian of the rank kills it by SIGKILL, and the job recovers as from any other failure: it
/// repeats the work since the last checkpoint. For ranks that hang, for example.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  the rank is being replaced\n  \
    2  wrong usage\n  \
    3  it is not; a message says why\n\n\
    Example: understudy replace 17")]
pub struct Arguments {
    /// Rank, as in `understudy status`; it may be on any node of the job.
    rank: u32,
    /// Job, named as by `understudy status`; optional if only one job runs here.
    #[arg(long)]
    job: Option<String>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let (jobs, _) = Finder::default().jobs();
        let running: Vec<String> = jobs.into_iter().map(|job| job.job).collect();
        let job =
            addressed(self.job, &running).map_err(|why| Failure::with_status(IMPOSSIBLE, why))?;
        let rank = self.rank;
        let host = replace_rank(&job, ProcessNumber(rank)).map_err(|error| {
            let text = format!("rank {rank} of {job} is not replaced: {error}");
            Failure::with_status(IMPOSSIBLE, text)
        })?;
        print(format!("rank {rank} on {host} is being replaced\n"))?;
        Ok(verdict(true))
    }
}

/// Returns the job that is meant, or a message that says why none is.
fn addressed(named: Option<String>, running: &[String]) -> Result<String, String> {
    match (named, running) {
        (Some(job), _) if running.contains(&job) => Ok(job),
        (Some(job), _) => Err(format!(
            "no job `{job}` of this user runs on this node; `understudy status` lists them"
        )),
        (None, [job]) => Ok(job.clone()),
        (None, []) => Err("no protected job of this user runs on this node".to_owned()),
        (None, several) => Err(format!(
            "several jobs of this user run on this node ({}): name one by --job",
            several.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_jobs_must_be_named() {
        let jobs = ["a".to_owned(), "b".to_owned()];
        assert_eq!(addressed(None, &jobs[..1]), Ok("a".to_owned()));
        assert_eq!(addressed(Some("b".to_owned()), &jobs), Ok("b".to_owned()));
        let why = addressed(None, &jobs).expect_err("two jobs");
        assert!(why.contains("a, b") && why.contains("--job"), "{why}");
        assert!(addressed(Some("c".to_owned()), &jobs).is_err() && addressed(None, &[]).is_err());
    }
}
