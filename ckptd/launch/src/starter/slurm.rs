//! The allocation of this process's job of Slurm.

use super::batch_command::output_of;
use super::hosts::{Host, add};
use super::slurm_lists::{expand_hosts, expand_numbers};
use crate::Error;
use std::collections::{BTreeMap, BTreeSet};

/// The batch job of this process, as Slurm describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlurmJob {
    /// First node of a job that was submitted with a script; `None` for salloc(1).
    pub batch_host: Option<String>,
    /// True if Slurm starts the script again after the loss of its node.
    pub is_requeued: bool,
    /// Time after which Slurm declares a silent node down; `None` without a limit.
    pub node_timeout_s: Option<u32>,
}

impl SlurmJob {
    /// Queries Slurm for the job of this process.
    ///
    /// # Errors
    /// Fails with the reason if Slurm does not answer.
    pub fn own() -> Result<SlurmJob, String> {
        let job = std::env::var("SLURM_JOB_ID").map_err(|error| error.to_string())?;
        let job = output_of("scontrol", &["--oneliner", "show", "job", &job])?;
        let configuration = output_of("scontrol", &["show", "config"])?;
        Ok(SlurmJob::parse(&job, &configuration))
    }

    fn parse(job: &str, configuration: &str) -> SlurmJob {
        let timeout = configuration.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "SlurmdTimeout").then_some(value)
        });
        let timeout = timeout.and_then(|value| value.split_whitespace().next()?.parse().ok());
        SlurmJob {
            batch_host: field(job, "BatchHost")
                .filter(|_| field(job, "BatchFlag") == Some("1"))
                .map(str::to_owned),
            is_requeued: field(job, "Requeue") == Some("1"),
            node_timeout_s: timeout.filter(|&seconds| seconds > 0),
        }
    }
}

/// Returns the leaf switch of each host of Slurm.
///
/// The result is empty if the site has not described its network.
pub fn leaf_switches() -> BTreeMap<String, String> {
    output_of("scontrol", &["show", "topology"])
        .map(|text| parse_switches(&text))
        .unwrap_or_default()
}

/// Parses lines such as `SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]`.
fn parse_switches(text: &str) -> BTreeMap<String, String> {
    let mut switches = BTreeMap::new();
    for line in text.lines() {
        let Some(name) = field(line, "SwitchName").filter(|_| field(line, "Level") == Some("0"))
        else {
            continue;
        };
        let hosts = field(line, "Nodes").map(expand_hosts);
        let hosts = hosts.and_then(Result::ok).unwrap_or_default();
        switches.extend(hosts.into_iter().map(|host| (host, name.to_owned())));
    }
    switches
}

/// Returns the value of `NAME=VALUE` in a line of scontrol.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = line
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    fields.find_map(|(key, value)| (key == name).then_some(value))
}

/// Takes lost nodes out of the allocation of a job.
///
/// Returns the nodes that were taken out. The owner of a job may reduce its allocation
/// (scontrol(1), "NodeList").
///
/// # Errors
/// Fails with the reason if Slurm refuses or does not answer.
pub(super) fn release(job: &str, lost: &BTreeSet<String>) -> Result<Vec<String>, String> {
    let nodes = output_of("squeue", &["--noheader", "--jobs", job, "--format", "%N"])?;
    let nodes = expand_hosts(&nodes).map_err(|error| error.to_string())?;
    let (lost, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| lost.contains(node));
    if lost.is_empty() || others.is_empty() {
        return Ok(Vec::new());
    }
    let others = format!("NodeList={}", others.join(","));
    output_of("scontrol", &["update", &format!("JobId={job}"), &others])?;
    Ok(lost)
}

/// First number of the steps that are not started by a user's srun (slurm.h, `SLURM_*_STEP`).
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

/// Returns the hosts of the allocation, or of the step in which this process runs.
///
/// A host has as many slots as tasks, if the user has requested tasks, or one for each processor.
pub(super) fn granted_hosts(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<Host>, Error> {
    let step = variable("SLURM_STEP_ID").and_then(|step| step.parse().ok());
    let is_in_step = step.is_some_and(|step: u32| step < FIRST_SPECIAL_STEP);
    let (hosts, tasks) = match is_in_step {
        true => ("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"),
        false => ("SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"),
    };
    let Some(hosts) = variable(hosts) else {
        return Ok(Vec::new());
    };
    let names = expand_hosts(&hosts)?;
    let requests_tasks = is_in_step
        || ["SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"]
            .iter()
            .any(|name| variable(name).is_some());
    let tasks = variable(tasks).filter(|_| requests_tasks);
    let processors = || variable("SLURM_JOB_CPUS_PER_NODE");
    let per_task = match tasks {
        Some(_) => 1,
        None => variable("SLURM_CPUS_PER_TASK").map_or(1, |number| number.parse().unwrap_or(1)),
    };
    let numbers = expand_numbers(&tasks.or_else(processors).unwrap_or_else(|| "1".into()))?;
    let mut granted = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let number = numbers.get(index).or(numbers.last()).copied().unwrap_or(1);
        let slots = (number / per_task.max(1)).max(1);
        add(&mut granted, name, &slots.to_string())?;
    }
    Ok(granted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_described_by_slurm() {
        let job = "JobId=2 JobName=a Requeue=1 Restarts=0 BatchFlag=1 BatchHost=n1 NumNodes=3";
        let configuration = "SlurmctldTimeout        = 120 sec\nSlurmdTimeout = 300 sec\n";
        let batch = SlurmJob {
            batch_host: Some("n1".into()),
            is_requeued: true,
            node_timeout_s: Some(300),
        };
        assert_eq!(SlurmJob::parse(job, configuration), batch);
        let interactive = "JobId=2 Requeue=0 BatchFlag=0 BatchHost=n1";
        let without_limit = "SlurmdTimeout = 0 sec";
        let expected = SlurmJob::default();
        assert_eq!(SlurmJob::parse(interactive, without_limit), expected);
    }

    #[test]
    fn leaf_switches_have_hosts() {
        let text = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n\
            SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n3\n\
            SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=s[1-2]\n";
        let expected = [("n1", "s1"), ("n2", "s1"), ("n3", "s2")];
        let expected = expected.map(|(host, switch)| (host.to_owned(), switch.to_owned()));
        assert_eq!(parse_switches(text), BTreeMap::from(expected));
        let without = parse_switches("No topology information available\n");
        assert!(without.is_empty());
    }

    fn granted(variables: &[(&str, &str)]) -> Vec<(String, u32)> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let hosts = granted_hosts(variable).expect("good");
        hosts
            .into_iter()
            .map(|host| (host.name, host.slots))
            .collect()
    }

    #[test]
    fn slots_are_tasks_or_processors() {
        let mut variables = vec![
            ("SLURM_JOB_NODELIST", "n[1-3]"),
            ("SLURM_JOB_CPUS_PER_NODE", "8(x2),4"),
            ("SLURM_TASKS_PER_NODE", "1(x3)"),
        ];
        let of = |slots: [u32; 3]| {
            let names = ["n1", "n2", "n3"].map(str::to_owned);
            names.into_iter().zip(slots).collect::<Vec<_>>()
        };
        assert_eq!(granted(&variables), of([8, 8, 4]));
        variables.push(("SLURM_CPUS_PER_TASK", "4"));
        assert_eq!(granted(&variables), of([2, 2, 1]));
        variables.push(("SLURM_NTASKS", "3"));
        assert_eq!(granted(&variables), of([1, 1, 1]));
        variables.extend([
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NODELIST", "n2"),
            ("SLURM_STEP_TASKS_PER_NODE", "6"),
        ]);
        assert_eq!(granted(&variables), [("n2".to_owned(), 6)]);
        assert_eq!(granted(&[("SLURM_JOB_ID", "1")]), []);
    }
}
