//! A job that loses processes, and the judgement of its result.

use super::acceptance_program::{AcceptanceProgram, ITERATIONS, Reference, difference, results};
use super::node_kill;
use super::placement::Placement;
use super::running_job::{JOB_TIMEOUT, RunningJob};
use super::trial_table::{Disturbance, Trial, TriedFabric};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use understudy_formats::events::{Epoch, Kind, NETWORK};
use understudy_formats::network_devices::is_of_device;
use understudy_html::{AcceptanceRow, RowVerdict};
use understudy_report::{Job, Live, Timeline, count};

/// Interval of checkpoints: two iterations of the program.
const INTERVAL: &str = "6calls";
/// Variables that take precedence over `--fabric native`.
///
/// Sources: Open MPI's documentation of MCA parameters, UCX's of UCX_TLS, and fabric(7).
const SELECTIONS: [&str; 5] = [
    "OMPI_MCA_pml",
    "OMPI_MCA_btl",
    "OMPI_MCA_mtl",
    "UCX_TLS",
    "FI_PROVIDER",
];
/// Variable of the faults that act in jobs over the native network in addition.
pub const FAULT: &str = "UNDERSTUDY_FAULT";
/// Checkpoint after which the processes of a node are killed.
const LAST_EPOCH_OF_NODE: Epoch = Epoch(3);

/// All that the jobs have in common.
pub struct TrialJobs<'a> {
    /// Faults that act in all jobs over the native network; empty without any.
    pub faults: &'a str,
    pub placement: &'a Placement,
    pub program: &'a AcceptanceProgram,
    pub reference: &'a Reference,
    pub library: Option<&'a Path>,
}

/// Result of a job.
struct TrialRecord {
    /// Exit status; `None` if the job did not end.
    status: Option<ExitStatus>,
    /// Number of processes that were killed on purpose.
    killed: usize,
    recoveries: u32,
    time: Duration,
    /// Network between the nodes; `None` if all workers were on one.
    network: Option<String>,
    /// Last message of understudy.
    message: String,
    /// Difference from the run without understudy, or the reason why the result is not known.
    difference: Option<String>,
}

impl TrialJobs<'_> {
    /// Runs a job of the table and judges it.
    pub fn try_one(&self, trial: &Trial, number: usize) -> AcceptanceRow {
        let (verdict, finding) = match self.lost_host(trial) {
            Err(why) => (RowVerdict::NotTried, why),
            Ok(lost) => match self.run(trial, number, lost) {
                Ok(record) => judge(&record, trial),
                Err(why) => (RowVerdict::NotTried, why),
            },
        };
        AcceptanceRow {
            name: trial.name(),
            verdict,
            finding,
            remedy: None,
        }
    }

    /// Returns the host whose processes are killed, if the trial loses a host.
    ///
    /// The error is the reason why the trial is impossible.
    fn lost_host(&self, trial: &Trial) -> Result<Option<&str>, String> {
        let selects_network = |name: &&&str| std::env::var_os(name).is_some();
        if trial.fabric == TriedFabric::Native
            && let Some(name) = SELECTIONS.iter().find(selects_network)
        {
            return Err(format!("{name} has selected another network; unset it"));
        }
        match trial.disturbance.fault() {
            Some(_) => Ok(None),
            None => self.placement.lost_host().map(Some),
        }
    }

    /// Runs a job; the error is the reason why there is no result.
    fn run(&self, trial: &Trial, number: usize, lost: Option<&str>) -> Result<TrialRecord, String> {
        let failed = |error: io::Error| error.to_string();
        let directory = self.program.directory.join(format!("job-{number}"));
        let events = directory.join("events");
        std::fs::create_dir_all(&events).map_err(failed)?;
        let end_file = directory.join("end");
        let delayed_end = || format!("delay-end until={}", end_file.display());
        let mut fault = trial.disturbance.fault().unwrap_or_else(delayed_end);
        if trial.fabric == TriedFabric::Native && !self.faults.is_empty() {
            fault = format!("{fault}; {}", self.faults);
        }
        let mut command = self.command(trial, &fault).map_err(failed)?;
        command.arg("--events").arg(&events);
        command.arg("--").arg(&self.program.file).arg(ITERATIONS);
        let mut job = RunningJob::start(command, &directory).map_err(failed)?;
        let mut live = Live::new(&events);
        let killed = match lost {
            Some(host) => self.lose_host(host, (&mut job, &mut live), (&events, &end_file))?,
            None => 0,
        };
        let status = job.wait().map_err(failed)?;
        let timeline = Job::load(&events).map(|job| job.timeline);
        let timeline = timeline.unwrap_or_default();
        let found = results(&directory, self.placement.workers);
        Ok(TrialRecord {
            status,
            killed: killed + recorded_kills(&timeline, trial.disturbance),
            recoveries: recoveries(&mut live),
            time: job.began.elapsed(),
            network: network(&timeline),
            message: job.last_message(),
            difference: found.map_or_else(Some, |found| difference(self.reference, &found)),
        })
    }

    /// Returns the command of a job, without its program.
    fn command(&self, trial: &Trial, fault: &str) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--progress", "none", "--interval", INTERVAL]);
        command.args(["--fabric", trial.fabric.option()]);
        command.args(["--tracking", trial.detection.option()]);
        // As on several hosts: replicas at buddies, which one host does not need.
        command.args(["--copies", "1", "--fault", fault]);
        self.placement.add_to(&mut command);
        if let Some(library) = self.library {
            let library: PathBuf = std::path::absolute(library)?;
            command.arg("--library").arg(library);
        }
        Ok(command)
    }

    /// Kills all processes of a host between two checkpoints; returns their number.
    ///
    /// The workers wait in MPI_Finalize until the file exists, which is after the recovery.
    fn lose_host(
        &self,
        host: &str,
        (job, live): (&mut RunningJob, &mut Live),
        (events, end_file): (&Path, &Path),
    ) -> Result<usize, String> {
        let failed = |error: io::Error| error.to_string();
        job.wait_until(|| has_checkpoints(live)).map_err(failed)?;
        let killed = node_kill::kill_on(host, events, &self.placement.agent);
        if killed.is_ok() {
            job.wait_until(|| recoveries(live) > 0).map_err(failed)?;
        }
        File::create(end_file).map_err(failed)?;
        match killed {
            Ok(killed) => Ok(killed as usize),
            Err(why) => {
                job.wait().map_err(failed)?;
                Err(format!("processes on {host} could not be killed: {why}"))
            }
        }
    }
}

/// True if processes may be killed without a loss of all work.
fn has_checkpoints(live: &mut Live) -> bool {
    let state = live.poll().ok().flatten();
    let last = state.and_then(|state| state.checkpoint);
    last.is_some_and(|last| last.epoch >= LAST_EPOCH_OF_NODE)
}

fn recoveries(live: &mut Live) -> u32 {
    let state = live.poll().ok().flatten();
    state.map_or(0, |state| state.recoveries)
}

/// Returns the number of processes that faults have killed.
///
/// The event file of a process that is killed before the first checkpoint is replaced by that of
/// the next process, whose guardian has removed the fault that kills.
fn recorded_kills(timeline: &Timeline, disturbance: Disturbance) -> usize {
    if disturbance.fault().is_none() {
        return 0;
    }
    let number = |is_one: fn(&Kind) -> bool| timeline.iter().filter(|it| is_one(&it.kind)).count();
    let kills = number(|kind| matches!(kind, Kind::Kill { .. }));
    let replaced = number(|kind| match kind {
        Kind::Config { settings } => {
            let has = |(name, value): &(String, String)| name == FAULT && !value.contains("kill");
            settings.iter().any(has)
        }
        _ => false,
    });
    kills.max(replaced)
}

/// Returns the recorded network, with a device if any process has used one.
fn network(timeline: &Timeline) -> Option<String> {
    let recorded = timeline.iter().filter_map(|event| match event.kind {
        Kind::Config { settings } => settings.into_iter().find(|(name, _)| name == NETWORK),
        _ => None,
    });
    let networks: Vec<String> = recorded.map(|(_, network)| network).collect();
    let of_device = networks.iter().find(|it| is_of_device(it));
    of_device.or(networks.first()).cloned()
}

/// Judges a job.
fn judge(record: &TrialRecord, trial: &Trial) -> (RowVerdict, String) {
    let killed = count(record.killed, "process was killed", "processes were killed");
    let Some(status) = record.status else {
        let limit = JOB_TIMEOUT.as_secs();
        let finding = format!("{killed}, and the job did not end within {limit} s");
        return (RowVerdict::Wrong, finding);
    };
    if !status.success() {
        let message = &record.message;
        let finding = format!("{killed}, and the job ended with {status}: {message}");
        return (RowVerdict::Wrong, finding);
    }
    if let Some(difference) = &record.difference {
        return (RowVerdict::Wrong, format!("{killed}, and {difference}"));
    }
    if record.killed < trial.disturbance.min_kills() {
        let finding = format!("{killed}, because the job had ended before; its bytes are right");
        return (RowVerdict::NotTried, finding);
    }
    let after = match record.recoveries {
        0 => "a new start".to_owned(),
        recoveries => count(recoveries, "recovery", "recoveries"),
    };
    let time = record.time.as_secs_f64();
    let finding = format!("{killed}; after {after}, all bytes are right ({time:.1} s)");
    match (trial.fabric, &record.network) {
        (TriedFabric::Tcp, _) => (RowVerdict::Right, finding),
        (TriedFabric::Native, Some(network)) if is_of_device(network) => {
            (RowVerdict::Right, format!("{finding}; network: {network}"))
        }
        (TriedFabric::Native, Some(network)) => {
            let why = "the MPI library has not used the network device";
            (RowVerdict::NotTried, format!("{why}: {network}; {finding}"))
        }
        (TriedFabric::Native, None) => {
            let why = "processes of one host do not need the network device";
            (RowVerdict::NotTried, format!("{why}; {finding}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial_table::Detection;
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn record() -> TrialRecord {
        TrialRecord {
            status: Some(ExitStatus::from_raw(0)),
            killed: 1,
            recoveries: 1,
            time: Duration::from_secs(1),
            network: None,
            message: "understudy: the reason".into(),
            difference: None,
        }
    }

    fn trial(fabric: TriedFabric) -> Trial {
        Trial {
            fabric,
            detection: Detection::Compare,
            disturbance: Disturbance::Worker,
        }
    }

    #[test]
    fn a_native_network_is_right_only_if_the_device_was_used() {
        let verdict = |network: Option<&str>| {
            let network = network.map(str::to_owned);
            let record = TrialRecord {
                network,
                ..record()
            };
            judge(&record, &trial(TriedFabric::Native)).0
        };
        assert_eq!(verdict(Some("mlx5_0 by ucx")), RowVerdict::Right);
        let tcp = Some("TCP by ob1, instead of mlx5_0");
        assert_eq!(verdict(tcp), RowVerdict::NotTried);
        assert_eq!(verdict(None), RowVerdict::NotTried);
    }

    #[test]
    fn only_equal_bytes_after_a_kill_are_right() {
        let verdict = |record: TrialRecord| judge(&record, &trial(TriedFabric::Tcp));
        assert_eq!(verdict(record()).0, RowVerdict::Right);
        let unequal = TrialRecord {
            difference: Some("worker-2 differs".into()),
            ..record()
        };
        let (wrong, why) = verdict(unequal);
        assert!(wrong == RowVerdict::Wrong && why.contains("worker-2 differs"));
        let refused = TrialRecord {
            status: Some(ExitStatus::from_raw(78 << 8)),
            ..record()
        };
        let (wrong, why) = verdict(refused);
        assert!(
            wrong == RowVerdict::Wrong && why.contains("the reason"),
            "{why}"
        );
        let hanging = TrialRecord {
            status: None,
            ..record()
        };
        assert_eq!(verdict(hanging).0, RowVerdict::Wrong);
        let unharmed = TrialRecord {
            killed: 0,
            ..record()
        };
        assert_eq!(verdict(unharmed).0, RowVerdict::NotTried);
    }
}
