//! End of the time that a batch system grants, and requeued jobs.

use super::failures::{cannot, usage};
use crate::outcome::Failure;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use understudy_catalogue::message;
use understudy_formats::proc_stat;
use understudy_launch::print_message;
use understudy_launch::starter::{batch_command, output_of};
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
        let end = output_of("squeue", &["-h", "-j", &job, "-o", "%e"]).ok();
        if let Some(end) = end.as_deref().and_then(end_by_slurm) {
            return Some(end);
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

/// Parses the end of a job of Slurm: seconds since 1970, or `NONE` (squeue(1), `%e`).
///
/// The inner option is `None` without a limit; the outer one for other text.
fn end_by_slurm(text: &str) -> Option<Option<SystemTime>> {
    if text == "NONE" {
        return Some(None);
    }
    let seconds = text.parse().ok()?;
    Some(Some(UNIX_EPOCH + Duration::from_secs(seconds)))
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
        let refused = |why: String| {
            cannot(format!(
                "`scontrol requeue {}` has failed: {why}. Submit the job again.",
                self.0
            ))
        };
        let output = batch_command("scontrol", &["requeue", &self.0]).output();
        let output = output.map_err(|error| refused(error.to_string()))?;
        // Slurm ends all processes of a requeued job, scontrol perhaps before its answer arrives.
        match output.status.success() || output.status.signal().is_some() {
            true => Ok(()),
            false => {
                let why = String::from_utf8_lossy(&output.stderr);
                Err(refused(why.trim().to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_slurm_are_read() {
        let end = UNIX_EPOCH + Duration::from_secs(1_796_000_000);
        assert_eq!(end_by_slurm("1796000000"), Some(Some(end)));
        assert_eq!(end_by_slurm("NONE"), Some(None));
        for wrong in ["2026-11-29T08:22:42", "N/A", ""] {
            assert_eq!(end_by_slurm(wrong), None, "{wrong}");
        }
    }
}
