//! End of the time that a batch system grants, and requeued jobs.

use super::failures::{cannot, usage};
use crate::outcome::Failure;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use understudy_catalogue::message;
use understudy_formats::proc_stat;
use understudy_launch::print_message;
use understudy_launch::starter::output_of;
use understudy_settings::TimeLimit;

/// Clock ticks per second in `/proc/PID/stat` (proc_pid_stat(5)).
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the end of the job for this setting; `None` without a limit.
///
/// # Errors
/// Fails if the end is not after the present.
pub fn end_of(limit: TimeLimit) -> Result<Option<SystemTime>, Failure> {
    let now = SystemTime::now();
    let end = match limit {
        TimeLimit::At(end) => Some(end),
        TimeLimit::After(time) => Some(now + time),
        TimeLimit::Auto => {
            let asked = end_by_batch_system(now);
            if asked.is_none() {
                print_message(message::TIME_LIMIT_UNKNOWN);
            }
            asked.flatten()
        }
    };
    match end {
        Some(end) if end <= now => Err(usage("--time-limit: this time is over")),
        end => Ok(end),
    }
}

/// Asks the batch system for the end of its job.
///
/// The inner option is `None` if the job has no limit; the outer one if no system answers.
fn end_by_batch_system(now: SystemTime) -> Option<Option<SystemTime>> {
    let variable = |name| std::env::var(name).ok();
    let number = |name| variable(name)?.parse().ok();
    if let Some(job) = variable("SLURM_JOB_ID") {
        let left = output_of("squeue", &["-h", "-j", &job, "-o", "%L"]).ok();
        if let Some(left) = left.as_deref().and_then(slurm_time) {
            return Some(left.map(|left| now + left));
        }
        let end = Duration::from_secs(number("SLURM_JOB_END_TIME")?);
        return Some(Some(UNIX_EPOCH + end));
    }
    if variable("PBS_JOBID").is_some() {
        // The job's shell is the leader of the session, and began with the job.
        let granted = Duration::from_secs(number("PBS_WALLTIME")?);
        return Some(Some(now + granted.saturating_sub(age_of_session()?)));
    }
    None
}

/// Parses a time of Slurm: `[days-][hours:]minutes:seconds`, or `UNLIMITED` (squeue(1)).
///
/// The inner option is `None` without a limit; the outer one for other text.
fn slurm_time(text: &str) -> Option<Option<Duration>> {
    if text == "UNLIMITED" {
        return Some(None);
    }
    let (days, time) = match text.split_once('-') {
        Some((days, time)) => (days.parse().ok()?, time),
        None => (0u64, text),
    };
    let mut seconds = 0;
    let fields: Vec<&str> = time.split(':').collect();
    if !(2..=3).contains(&fields.len()) {
        return None;
    }
    for field in fields {
        seconds = seconds * 60 + field.parse::<u64>().ok()?;
    }
    Some(Some(Duration::from_secs(days * 86_400 + seconds)))
}

/// Returns the time since the start of the session's leader.
fn age_of_session() -> Option<Duration> {
    let session = rustix::process::getsid(None).ok()?;
    let start: u64 = proc_stat::number(session.as_raw_nonzero().get() as u32, proc_stat::START)?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let since_start = uptime - start as f64 / TICKS_PER_SECOND;
    Duration::try_from_secs_f64(since_start).ok()
}

/// Slurm's job of this process, which `--requeue` requeues.
pub struct RequeuedJob(String);

impl RequeuedJob {
    /// # Errors
    /// Fails outside of a job of Slurm.
    pub fn of_environment() -> Result<RequeuedJob, Failure> {
        std::env::var("SLURM_JOB_ID").map(RequeuedJob).map_err(|_| {
            usage(
                "--requeue needs a job of Slurm (SLURM_JOB_ID is not set). In other batch \
                 systems, let the script submit itself again when the status is 85.",
            )
        })
    }

    /// Requeues the job, which ends its script.
    ///
    /// # Errors
    /// Fails with a message if Slurm refuses.
    pub fn requeue(&self) -> Result<(), Failure> {
        let requeued = output_of("scontrol", &["requeue", &self.0]);
        requeued.map(drop).map_err(|why| {
            cannot(format!(
                "`scontrol requeue {}` has failed: {why}. Submit the job again.",
                self.0
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_slurm_are_read() {
        let seconds = |text| slurm_time(text).flatten().map(|time| time.as_secs());
        assert_eq!(seconds("0:59"), Some(59));
        assert_eq!(seconds("1:00:05"), Some(3605));
        assert_eq!(seconds("2-01:00:00"), Some(2 * 86_400 + 3600));
        assert_eq!(slurm_time("UNLIMITED"), Some(None));
        for wrong in ["INVALID", "NOT_SET", "", "5"] {
            assert_eq!(slurm_time(wrong), None, "{wrong}");
        }
    }
}
