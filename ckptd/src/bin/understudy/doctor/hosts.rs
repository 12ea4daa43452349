//! Checks of several nodes, each made by a process on the node.

use super::checks::{kernel_release, node};
use super::fabric::active_network;
use super::process_starter::Starter;
use super::{Check, kernel};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use understudy_formats::host::host_name;
use understudy_launch::Error;
use understudy_launch::starter::Agent;
use understudy_report::count;

/// Results of the checks that a node has made of itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct Node {
    pub host: String,
    /// Kernel, C library and processor, which must be equal on all nodes.
    pub kind: String,
    /// Active network devices that write into memory by themselves; empty without any.
    pub network: String,
    pub checks: Vec<Check>,
}

impl Node {
    /// Checks the node on which this process runs.
    pub fn this(library: Option<&Path>) -> Self {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let model = model.map_or("unknown processor", |(_, model)| model);
        Self {
            host: host_name(),
            kind: format!("{}, glibc {}, {model}", kernel_release(), kernel::glibc()),
            network: active_network(),
            checks: node(library),
        }
    }
}

/// Returns a check of the hosts together, and the results of each host's own checks.
pub fn check_hosts(starter: &Starter, hosts: &[String]) -> (Check, Vec<Node>) {
    const NAME: &str = "hosts";
    let names: BTreeSet<&str> = hosts
        .iter()
        .flat_map(|hosts| hosts.split(','))
        .map(|host| host.split(':').next().unwrap_or(host))
        .filter(|host| !host.is_empty())
        .collect();
    let remedy = "every host must be reached without a password, and find understudy and MPI \
        under the same paths";
    let nodes = match starter {
        Starter::Mpirun(mpirun) => check_by_job(mpirun, &names),
        Starter::Ckptd { agent } => check_by_agent(agent, &names),
    };
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(why) => return (Check::failure(NAME, why, remedy), Vec::new()),
    };
    let check = if nodes.len() < names.len() {
        Check::failure(
            NAME,
            format!(
                "only {} of {} answered",
                nodes.len(),
                count(names.len(), "host", "hosts")
            ),
            remedy,
        )
    } else if nodes
        .iter()
        .map(|node| &node.kind)
        .collect::<BTreeSet<_>>()
        .len()
        > 1
    {
        Check::failure(
            NAME,
            "they differ in kernel, C library or processor (below)",
            "a rank cannot take over from one on a node of another kind: use hosts of one kind",
        )
    } else {
        Check::ok(NAME, format!("{} of one kind", nodes.len()))
    };
    (check, nodes)
}

fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))
}

/// Starts this program on each host, as `understudy run` starts ckptd: elsewhere by the agent.
fn check_by_agent(agent: &str, names: &BTreeSet<&str>) -> Result<Vec<Node>, String> {
    let agent: Agent = agent.parse().map_err(|error: Error| error.to_string())?;
    let words = agent.words();
    let own = host_name();
    let program = this_program()?;
    let mut nodes = Vec::new();
    for name in names {
        let is_here = *name == "localhost" || *name == own;
        let agent_words = words.iter().map(String::as_str).chain([*name]);
        let agent_words: Vec<&str> = agent_words.take_while(|_| !is_here).collect();
        let line = agent_words.into_iter().map(OsString::from);
        let line: Vec<OsString> = line
            .chain([program.clone().into(), "doctor".into(), "--local".into()])
            .collect();
        let output = Command::new(&line[0])
            .args(&line[1..])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{} cannot be executed: {error}", line[0].display()))?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        let node = serde_json::from_slice(&output.stdout).map_err(|_| {
            let why = messages
                .lines()
                .map(str::trim)
                .find(|line| !line.is_empty());
            format!(
                "{name} has not answered: {}",
                why.unwrap_or("no reason is given")
            )
        })?;
        nodes.push(node);
    }
    Ok(nodes)
}

/// Runs this program as a job with one process on each host.
///
/// Each process prints its results in one line.
fn check_by_job(mpirun: &str, names: &BTreeSet<&str>) -> Result<Vec<Node>, String> {
    let words = shell_words::split(mpirun).map_err(|error| format!("--mpirun: {error}"))?;
    let (launcher, options) = words.split_first().ok_or("--mpirun names no launcher")?;
    let program = this_program()?;
    let list: Vec<String> = names.iter().map(|name| format!("{name}:1")).collect();
    let output = Command::new(launcher)
        .args(options)
        .args(["--host", &list.join(","), "-n", &names.len().to_string()])
        .arg(program)
        .args(["doctor", "--local"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{launcher} cannot be executed: {error}"))?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let nodes: Vec<Node> = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if nodes.is_empty() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let reason = text
            .lines()
            .map(str::trim)
            .find(|line| line.len() > 3 && !line.starts_with("---"));
        return Err(format!(
            "none has answered: {}",
            reason.unwrap_or("mpirun gives no reason")
        ));
    }
    Ok(nodes)
}
