//! `understudy warn`: announces failures to running jobs of this user on this node.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, verdict};
use crate::status::find::Finder;
use std::time::Duration;
use understudy_formats::private_directories;
use understudy_formats::warning::{self, FailureWarning};
use understudy_launch::print_message;
use understudy_relay::name_of_directory;

/// Announce failures to running jobs of this user on this node, or request a checkpoint.
///
/// For a job of several nodes, one node is sufficient. The job polls once per second, when its
/// program calls MPI; a warning is valid until the next one. The time between failures is used with
/// UNDERSTUDY_INTERVAL=auto.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  the jobs were warned\n  \
    1  a job could not be warned; a message says why\n  \
    2  wrong usage\n  \
    3  no such job runs on this node, or several run and none is named\n\n\
    Examples: understudy warn --checkpoint\n          \
    understudy warn --mtbf 10m prterun-node7-4711@1")]
pub struct Arguments {
    /// Jobs, named as by `understudy status`; optional if only one job runs here.
    jobs: Vec<String>,
    /// Warn all jobs of this user on this node.
    #[arg(long, conflicts_with = "jobs")]
    all: bool,
    /// Mean time between failures from now on.
    #[arg(long, value_name = "TIME", value_parser = super::advise::time, required_unless_present = "checkpoint")]
    mtbf: Option<Duration>,
    /// Request a checkpoint now.
    #[arg(long)]
    checkpoint: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let (jobs, _) = Finder::default().jobs();
        let running: Vec<String> = jobs.into_iter().map(|job| job.job).collect();
        let addressed = addressed(self.jobs, self.all, running)
            .map_err(|why| Failure::with_status(IMPOSSIBLE, why))?;
        let warning = FailureWarning {
            mtbf: self.mtbf,
            checkpoint: self.checkpoint,
        };
        let mut is_well = true;
        for job in addressed {
            let file =
                warning::file_in(&private_directories::in_memory().join(name_of_directory(&job)));
            match warning::write(&file, &warning) {
                Ok(()) => print(format!("{job} is notified\n"))?,
                Err(error) => {
                    let file = file.display();
                    print_message(format_args!("{job} is not notified: {file}: {error}"));
                    is_well = false;
                }
            }
        }
        Ok(verdict(is_well))
    }
}

/// Returns the jobs to warn, or a message that says why none is warned.
///
/// A user may have several jobs on a node. Without a name, the warning is for the only job; with
/// several jobs, a name is required.
fn addressed(named: Vec<String>, all: bool, running: Vec<String>) -> Result<Vec<String>, String> {
    if let Some(job) = named.iter().find(|&job| !running.contains(job)) {
        return Err(format!(
            "no job `{job}` of this user runs on this node; `understudy status` lists them"
        ));
    }
    match running.len() {
        _ if !named.is_empty() => Ok(named),
        0 => Err("no protected job of this user runs on this node".to_owned()),
        1 => Ok(running),
        _ if all => Ok(running),
        number => Err(format!(
            "{number} jobs of this user run on this node ({}), and none was warned: name the jobs \
             that are meant, or give --all",
            running.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_jobs_must_be_named() {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let to =
            |named: &[&str], all, running: &[&str]| addressed(names(named), all, names(running));
        assert_eq!(to(&[], false, &["a"]), Ok(names(&["a"])));
        assert_eq!(to(&["b"], false, &["a", "b"]), Ok(names(&["b"])));
        assert_eq!(to(&[], true, &["a", "b"]), Ok(names(&["a", "b"])));
        let why = to(&[], false, &["a", "b"]).expect_err("two jobs");
        assert!(why.contains("a, b") && why.contains("--all"), "{why}");
        assert!(to(&["c"], false, &["a"]).is_err() && to(&[], true, &[]).is_err());
    }
}
