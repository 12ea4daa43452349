//! Properties of a batch job that would end the job after a failure.

mod switches;

use std::time::Duration;
pub use switches::{DOMAIN, Switches};
use understudy_catalogue::message;
use understudy_launch::starter::{BatchSystem, SlurmJob};
use understudy_settings::{Config, MIN_NODE_TIMEOUT, Restart};

/// Time within which a lost node is taken out of an allocation.
const RELEASE_TIME: Duration = Duration::from_secs(15);

/// Returns the properties of this batch job that would end it, each with its remedy.
///
/// Nothing is returned for a job that does not span several nodes.
pub fn hazards(is_several: bool, switches: Option<&Switches>, config: &Config) -> Vec<String> {
    if BatchSystem::detect() != Some(BatchSystem::Slurm) || !is_several {
        return Vec::new();
    }
    let continues = config.disk.is_some() && config.restart == Restart::Auto;
    let mut hazards = match SlurmJob::own() {
        Ok(job) => hazards_of(&job, continues, config.node_timeout + RELEASE_TIME),
        Err(why) => vec![message::slurm_not_answering(why).to_string()],
    };
    hazards.extend(switches.and_then(Switches::hazard));
    hazards
}

/// Returns the hazards of a job.
///
/// `continues` is true if the next start of the job continues from disk. A node leaves the
/// allocation `release` after its last sign of life.
fn hazards_of(job: &SlurmJob, continues: bool, release: Duration) -> Vec<String> {
    let is_short = |time: &u32| Duration::from_secs((*time).into()) < release;
    let timeout = job.node_timeout_s.filter(is_short);
    let first_host = job.batch_host.as_ref();
    let first_host = first_host.filter(|_| !(job.is_requeued && continues));
    let limit = |time: u32| Duration::from_secs(time.into()).saturating_sub(RELEASE_TIME);
    let limit = |time| limit(time).max(MIN_NODE_TIMEOUT).as_secs();
    let timeout = timeout.map(|time| message::short_slurm_timeout(time, limit(time)).to_string());
    let first_host = first_host.map(|host| message::first_host_not_requeued(host).to_string());
    timeout.into_iter().chain(first_host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hazards(job: &SlurmJob, continues: bool) -> Vec<String> {
        hazards_of(job, continues, Duration::from_secs(75))
    }

    #[test]
    fn only_jobs_that_would_end_have_hazards() {
        let good = SlurmJob {
            batch_host: Some("n1".into()),
            is_requeued: true,
            node_timeout_s: Some(300),
        };
        assert!(hazards(&good, true).is_empty());
        assert!(hazards(&SlurmJob::default(), false).is_empty());
        let first_host = hazards(&good, false);
        assert!(first_host.len() == 1 && first_host[0].contains("n1"));
        let not_requeued = SlurmJob {
            is_requeued: false,
            ..good.clone()
        };
        assert_eq!(hazards(&not_requeued, true), first_host);
        for (seconds, remedy) in [(10, "--node-timeout 5s"), (60, "--node-timeout 45s")] {
            let node_timeout_s = Some(seconds);
            let soon = SlurmJob {
                node_timeout_s,
                ..good.clone()
            };
            let hazards = hazards(&soon, true);
            assert!(hazards.len() == 1 && hazards[0].contains("SlurmdTimeout"));
            assert!(hazards[0].contains(remedy), "{hazards:?}");
        }
    }
}
