//! Starts a job on several hosts.
//!
//! The manager with the leader runs here, so that no other host must survive to the end. Each other
//! host runs a `ckptd node`.

use super::forwarded_signals::{CaughtSignals, StartedGuardians};
use super::host_message::{Assignment, StarterToHost, build_of};
use super::hosts::assign_ranks;
use super::node_releases::NodeReleases;
use super::node_share::NodeShare;
use super::plan::Plan;
use crate::Error;
use crate::job_environment::Environment;
use crate::manager_process::{port_of, start_with_duty};
use crate::messages::{LeaderToStarter, ManagerDuty, Messages, StarterToLeader, write_message};
use crate::print_message::print_message_to;
use crate::process_context::ProcessContext;
use crate::published_addresses::published_addresses;
use crate::spawn_thread::spawn_thread;
use crate::tied_child::die_with_parent;
use parking_lot::Mutex;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use understudy_catalogue::{exit_status, message};
use understudy_formats::host::host_name;
use understudy_numbers::Guardian;
use understudy_sockets::is_own_address;
use understudy_wire::auth;
use understudy_wire::io::{Interest, wait_ready};

/// Poll interval of agents.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit for the last output after the job's end, while it is read.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);
const LAST_OUTPUT_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Agent that was started for another host.
struct StartedAgent {
    node: u32,
    host: String,
    child: Child,
    has_ended: bool,
}

/// Standard input of an agent, shared by threads.
type Input = Arc<Mutex<ChildStdin>>;

/// Runs the job on the hosts of the plan; returns its exit status.
///
/// # Errors
/// Errors of starting processes on this host. Failures on other hosts are printed and end the job.
pub fn run_on_several(
    plan: &Plan,
    context: ProcessContext<'_>,
    share: &NodeShare,
    own_host: &str,
    (signals, mut notify): (CaughtSignals, impl FnMut(i32) + Send + 'static),
) -> Result<i32, Error> {
    let ranks = assign_ranks(&plan.hosts, share.size, plan.rank_order)?;
    let token = auth::nonce().map_err(Error::system("getrandom"))?.to_vec();
    let shares = plan
        .hosts
        .iter()
        .zip(ranks)
        .filter(|(_, ranks)| !ranks.is_empty());
    let shares = shares.map(|(host, ranks)| (host.name.as_str(), share.with(ranks)));
    let (here, elsewhere): (Vec<_>, Vec<_>) = shares.partition(|(name, _)| is_here(name, own_host));
    if here.len() > 1 {
        return Err(Error::SameHost);
    }
    let duty = ManagerDuty::Lead {
        token: token.clone(),
        others: elsewhere
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect(),
    };
    let mut manager = start_with_duty(&share.job, &duty, Some(context))?;
    let failed = || Error::system("the node manager");
    let port = port_of(&mut manager)?;
    let (Some(output), Some(mut input)) = (manager.stdout.take(), manager.stdin.take()) else {
        return Err(Error::NoManager);
    };
    let mut messages = Messages::new(output);
    let mut guardians = Vec::new();
    for (_, share) in &here {
        guardians.extend(share.start(context, Stdio::inherit)?);
    }
    let agent_words = plan.agent.words();
    let (mut agents, mut inputs) = (Vec::new(), Vec::new());
    let build = build_of(context.ckptd)?;
    let environment = Environment::own().with(context.environment);
    let directory = std::env::current_dir().map_err(Error::system("the working directory"))?;
    for (node, (name, share)) in (1..).zip(elsewhere) {
        let mut child = start(&agent_words, name, context)?;
        let has_first = share.ranks.contains(&Guardian(0));
        let assignment = Assignment {
            build,
            directory: directory.clone().into_os_string().into_vec(),
            environment: environment.clone(),
            share,
            duty: ManagerDuty::Follow {
                token: token.clone(),
                node,
                leader: published_addresses(Some(name), own_host, port),
            },
        };
        if let Some(mut input) = child.stdin.take() {
            // An agent that has ended at once is detected below.
            let _ = write_message(&mut input, &assignment);
            let input = Arc::new(Mutex::new(input));
            if has_first {
                pass_input_on(&input)?;
            }
            inputs.push(input);
        }
        agents.push(StartedAgent {
            node,
            host: name.to_owned(),
            child,
            has_ended: false,
        });
    }
    signals.pass_on_to(StartedGuardians::new(&guardians)?, move |number| {
        notify(number);
        inputs
            .iter()
            .for_each(|input| send_to_agent(input, &StarterToHost::Signal(number)));
    })?;
    let releases = NodeReleases::start(context.streams)?;
    supervise_agents(&mut messages, &mut agents, &mut input, releases.as_ref());
    let status = manager.wait().map_err(failed())?;
    let mut codes = vec![status.code().unwrap_or(128 + libc::SIGKILL)];
    for mut guardian in guardians {
        codes.extend(guardian.wait().map_err(Error::system("a guardian"))?.code());
    }
    let streams = context.streams;
    let outputs = [streams.stdout.as_fd(), streams.stderr.as_fd()];
    for host in end(&mut agents, LAST_OUTPUT_TIMEOUT, outputs) {
        print_message_to(
            &streams.stderr,
            message::host_not_ended(host, LAST_OUTPUT_TIMEOUT.as_secs()),
        );
        codes.push(exit_status::STATE_NOT_SAVED);
    }
    if let Some(releases) = releases {
        releases.finish();
    }
    Ok(codes.into_iter().find(|&code| code != 0).unwrap_or(0))
}

fn send_to_agent(input: &Input, message: &StarterToHost) {
    // The end of the agent is detected elsewhere.
    let _ = write_message(&mut *input.lock(), message);
}

/// True if a name is that of this host.
pub fn is_this_host(name: &str) -> bool {
    is_here(name, &host_name())
}

fn is_here(name: &str, own_host: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    // The name of a node of Slurm may differ from the host name.
    name == "localhost"
        || name == own_host
        || short(name) == short(own_host)
        || std::env::var("SLURMD_NODENAME").is_ok_and(|node| node == name)
        || name.parse().is_ok_and(is_own_address)
}

/// Starts `ckptd node` on a host.
fn start(agent: &[String], host: &str, context: ProcessContext<'_>) -> Result<Child, Error> {
    let ckptd = context.ckptd.to_string_lossy();
    let Some((program, options)) = agent.split_first() else {
        return Err(Error::Hosts(
            "the command that starts commands on other hosts (--agent) is empty".into(),
        ));
    };
    let mut command = Command::new(program);
    command.args(options).arg(host);
    command.arg(format!("exec {} node", shell_words::quote(&ckptd)));
    let [stdout, stderr] = context
        .streams
        .for_command()
        .map_err(Error::system("an agent"))?;
    command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
    // Otherwise the agent would receive a terminal's signals, which this process forwards.
    command.process_group(0);
    die_with_parent(&mut command);
    let what = format!("the command {program} for the host {host}");
    command.spawn().map_err(Error::system(what))
}

/// Passes standard input on to rank 0, which is on another host.
fn pass_input_on(to: &Input) -> Result<(), Error> {
    let to = Arc::clone(to);
    spawn_thread(move || {
        let mut bytes = [0; 1 << 16];
        while let Ok(length @ 1..) = io::stdin().read(&mut bytes) {
            send_to_agent(&to, &StarterToHost::Input(bytes[..length].to_vec()));
        }
        send_to_agent(&to, &StarterToHost::Input(Vec::new()));
    })
    .map_err(Error::system("a thread"))
}

/// Reports ended agents to the leader, and kills agents of lost nodes.
///
/// Lost nodes are taken out of the batch system's allocation if the job goes on without them.
///
/// Returns when the leader has ended.
fn supervise_agents(
    messages: &mut Messages<std::process::ChildStdout>,
    agents: &mut [StartedAgent],
    input: &mut ChildStdin,
    releases: Option<&NodeReleases>,
) {
    loop {
        if wait_ready(messages.from(), Interest::READ, POLL_INTERVAL).unwrap_or(false) {
            let Ok(received) = messages.read_available::<LeaderToStarter>() else {
                return;
            };
            for message in received {
                let (node, goes_on, is_lost) = match message {
                    LeaderToStarter::Lost { node, goes_on } => (node, goes_on, true),
                    LeaderToStarter::Drained { node } => (node, true, false),
                    LeaderToStarter::Port(_) => continue,
                };
                for agent in agents.iter_mut().filter(|agent| agent.node == node) {
                    if is_lost {
                        let _ = agent.child.kill();
                    }
                    if let Some(releases) = releases.filter(|_| goes_on) {
                        releases.release(&agent.host);
                    }
                }
            }
        }
        for agent in agents.iter_mut().filter(|agent| !agent.has_ended) {
            if let Ok(Some(status)) = agent.child.try_wait() {
                agent.has_ended = true;
                let ended = StarterToLeader::Ended {
                    node: agent.node,
                    status: status.code().unwrap_or(128 + libc::SIGKILL),
                };
                // The end of the leader is detected next.
                let _ = write_message(input, &ended);
            }
        }
    }
}

/// Waits for the agents to end, kills late agents, and returns the late agents' hosts.
///
/// The limit applies to time in which the agents' output is read and this process runs.
fn end(agents: &mut [StartedAgent], limit: Duration, outputs: [BorrowedFd<'_>; 2]) -> Vec<String> {
    // An output without a reader, such as a terminal that was hung up, does not block.
    let is_blocked = |output| {
        matches!(
            wait_ready(&output, Interest::WRITE, Duration::ZERO),
            Ok(false)
        )
    };
    let mut waited = Duration::ZERO;
    let mut late = Vec::new();
    for agent in agents {
        while waited < limit && matches!(agent.child.try_wait(), Ok(None)) {
            std::thread::sleep(LAST_OUTPUT_POLL_INTERVAL);
            waited += LAST_OUTPUT_POLL_INTERVAL;
            if outputs.into_iter().any(is_blocked) {
                waited = Duration::ZERO;
            }
        }
        if matches!(agent.child.try_wait(), Ok(None)) {
            late.push(agent.host.clone());
        }
        let _ = agent.child.kill();
        let _ = agent.child.wait();
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn agents_with_unread_output_are_awaited() {
        let (from, to) = UnixStream::pair().unwrap();
        to.set_nonblocking(true).unwrap();
        let end_of = |seconds: &str, outputs| {
            let child = Command::new("sleep").arg(seconds).spawn().unwrap();
            let mut agents = [StartedAgent {
                node: 1,
                host: "n1".into(),
                child,
                has_ended: false,
            }];
            let late = end(&mut agents, Duration::from_millis(50), outputs);
            let has_ended = agents[0].child.try_wait().unwrap().unwrap().success();
            assert_eq!(late.is_empty(), has_ended);
            has_ended
        };
        let outputs = [to.as_fd(), to.as_fd()];
        assert!(!end_of("60", outputs));
        while rustix::io::write(&to, &[0; 4096]).is_ok() {}
        assert!(end_of("0.5", outputs));
        drop(from);
        assert!(!end_of("60", outputs));
    }
}
