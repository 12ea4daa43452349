//! `understudy replace`: kills a rank, or all ranks of a host, which are then replaced.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, verdict};
use crate::status::find::Finder;
use understudy_formats::events::ProcessNumber;
use understudy_launch::{ReplaceTarget, replace};

/// Kill a rank of a running job, or all of a host, to replace them.
///
/// The guardian of the rank kills it by SIGKILL, and the job recovers as from any other failure: it
/// repeats the work since the last checkpoint. For ranks that hang, for example. The ranks of a
/// host are replaced on the other hosts, as after its loss.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  the rank or host is being replaced\n  \
    2  wrong usage\n  \
    3  it is not; a message says why\n\n\
    Examples: understudy replace 17; understudy replace node5")]
pub struct Arguments {
    /// Rank, as in `understudy status`, on any node of the job; or name of a host.
    #[arg(value_name = "RANK|HOST")]
    target: String,
    /// Job, named as by `understudy status`; optional if only one job runs here.
    #[arg(long)]
    job: Option<String>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let job = running_job(self.job)?;
        let (target, name) = match self.target.parse() {
            Ok(rank) => (
                ReplaceTarget::Process(ProcessNumber(rank)),
                format!("rank {rank}"),
            ),
            Err(_) => (ReplaceTarget::Host(self.target.clone()), self.target),
        };
        let is_host = matches!(target, ReplaceTarget::Host(_));
        let host = replace(&job, target).map_err(|error| {
            let text = format!("{name} of {job} is not replaced: {error}");
            Failure::with_status(IMPOSSIBLE, text)
        })?;
        print(match is_host {
            true => format!("{host} is being replaced\n"),
            false => format!("{name} on {host} is being replaced\n"),
        })?;
        Ok(verdict(true))
    }
}

/// Returns the job with this name, or the only job of this node.
pub fn running_job(named: Option<String>) -> Result<String, Failure> {
    let (jobs, _) = Finder::default().jobs();
    let running: Vec<String> = jobs.into_iter().map(|job| job.job).collect();
    addressed(named, &running).map_err(|why| Failure::with_status(IMPOSSIBLE, why))
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
