//! The manager of a job on a node.
//!
//! The manager has the state of the node, and the leader or a connection to the leader.

use super::follower::Follower;
use super::node::NodeState;
use super::node_queue::NodeMessage;
use crate::Error;
use crate::fence_keeper::remove_fence;
use crate::leader::{Hub, JobLeader, NodeChange, OWN_NODE};
use crate::messages::{
    LeaderToStarter, ManagerDuty, Messages, Order, StarterToLeader, write_message,
};
use crate::print_message::{limit_print_time, print_message};
use crate::spawn_thread::spawn_thread;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use understudy_catalogue::{exit_status, message};
use understudy_protocol::{GuardianLimits, JOIN_TIMEOUT, SilenceLimits};
use understudy_settings::{Config, ports_of};
use understudy_sockets::{RETRY, Registry, Source};
use understudy_wire::io::Interest;
use understudy_wire::line::{LineListener, ManagerRole};

/// Time for the last messages, and for the exit of guardians of an abandoned node.
const LAST_MESSAGES_TIMEOUT: Duration = Duration::from_secs(1);

/// Manages the job with this directory until its guardians have exited; returns the status.
///
/// Standard input contains the manager's duty if `has_duty`. `keeper` is the pipe to the keeper of
/// the node's fence if this manager replaces one that has died, on a node without the leader.
///
/// # Errors
/// Fails if the poller, a pipe or a socket cannot be used, or if the leader cannot be reached.
pub fn manage(
    listener: LineListener,
    directory: &Path,
    has_duty: bool,
    keeper: Option<OwnedFd>,
) -> Result<i32, Error> {
    maximise_descriptor_limit();
    limit_print_time();
    if keeper.is_none() {
        remove_fence(directory).map_err(Error::system("the fence of an earlier job"))?;
    }
    let config = read_settings();
    let limits = GuardianLimits::new(config.node_timeout);
    let mut node = NodeState::new(listener, directory, limits)?;
    receive_request_signals(&node, &config)?;
    let status = match has_duty {
        false => lead_alone(&mut node, &config),
        true => {
            let input = rustix::stdio::stdin().try_clone_to_owned();
            let mut starter =
                Messages::new(File::from(input.map_err(Error::system("standard input"))?));
            let duty = starter.next().map_err(Error::system("standard input"))?;
            match &duty {
                ManagerDuty::Lead { token, others } => {
                    node.role = ManagerRole::Leader;
                    let hub = listen(token, &node, &config);
                    lead(&mut node, &config, hub, others, starter)
                }
                ManagerDuty::Follow {
                    token,
                    node: number,
                    leader,
                } => {
                    node.role = ManagerRole::Follower;
                    let (host, registry) = (node.host(), node.registry());
                    let follower = Follower::call(leader, token, *number, host, registry);
                    let mut follower = follower.map_err(Error::NoLeader)?;
                    // Guardians have started a manager that replaces another one, and each of them
                    // may exit before it.
                    let starter = keeper.is_none().then_some(&starter);
                    follower.set_fence(directory, keeper)?;
                    node.successor = Some(follower.successor_state(&duty)?);
                    follow(&mut node, follower, starter)
                }
            }
        }
    };
    node.clean_up();
    status
}

/// Returns the settings in the environment.
///
/// The processes of the program report a wrong setting. Hangs are then not watched, and other
/// settings have their defaults.
fn read_settings() -> Config {
    Config::read(|name| std::env::var(name).ok()).unwrap_or_else(|_| Config {
        hang_after: None,
        ..Config::default()
    })
}

/// Listens for the managers of the other nodes.
fn listen(token: &[u8], node: &NodeState, config: &Config) -> Result<Hub, Error> {
    let limits = SilenceLimits::new(config.node_timeout);
    let ports = ports_of(|name| std::env::var(name).ok()).map_err(Error::WrongPorts)?;
    Hub::new(token.to_vec(), limits, node.registry(), &ports)
        .map_err(|source| Error::NoPort { ports, source })
}

/// Receives the signals that request a checkpoint, which would otherwise kill this process.
fn receive_request_signals(node: &NodeState, config: &Config) -> Result<(), Error> {
    let Some(requests) = &config.checkpoint_on else {
        return Ok(());
    };
    let signals = Signals::new(&requests.signals);
    let mut signals = signals.map_err(Error::system("a signal handler"))?;
    let queue = node.queue_sender();
    let run = move || {
        for signal in signals.forever() {
            queue.put(NodeMessage::CheckpointRequested(signal));
        }
    };
    spawn_thread(run).map_err(Error::system("a thread"))
}

/// Raises the limit of open descriptors: a rank of Open MPI needs four.
fn maximise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Most jobs also run with the original limit.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Manages a job that is on this node only.
fn lead_alone(node: &mut NodeState, config: &Config) -> Result<i32, Error> {
    let mut leader = JobLeader::new(node.host(), config, node.survives_guardians());
    while !(node.is_deserted() && leader.is_deserted()) {
        node.wait(leader.limit());
        node.serve_node();
        leader.tick();
        exchange(&mut leader, node, &mut |_, _| {});
    }
    Ok(leader.status())
}

/// Exchanges reports and orders until there are none; forwards orders for other nodes.
fn exchange(leader: &mut JobLeader, node: &mut NodeState, others: &mut dyn FnMut(u32, Order)) {
    loop {
        let reports = node.take_reports();
        reports
            .into_iter()
            .for_each(|report| leader.handle_report(OWN_NODE, report));
        let orders = leader.take_orders();
        if orders.is_empty() {
            return;
        }
        for (number, order) in orders {
            match number {
                OWN_NODE => node.execute(order),
                _ => others(number, order),
            }
        }
    }
}

fn lead(
    node: &mut NodeState,
    config: &Config,
    hub: Result<Hub, Error>,
    others: &[String],
    mut starter: Messages<File>,
) -> Result<i32, Error> {
    let mut hub = hub?;
    let mut leader = JobLeader::new(node.host(), config, node.survives_guardians());
    let send = |message| {
        write_message(&mut io::stdout(), &message).map_err(Error::system("standard output"))
    };
    let port = hub.port();
    send(LeaderToStarter::Port(
        port.map_err(Error::system("a socket for other nodes"))?,
    ))?;
    let mut starter_pipe = register_starter(&starter, node.registry())?;
    while !(node.is_deserted() && leader.is_deserted()) {
        let limit = [leader.limit(), hub.limit()].into_iter().flatten().min();
        // At the end the starter may exit before other processes.
        let starter_counts = !leader.is_over();
        let is_watched = hub
            .watch(true)
            .and(watch(Some(&mut starter_pipe), starter_counts));
        let limit = is_watched.map_or(Some(RETRY), |()| limit);
        let ready = node.wait(limit);
        node.serve_node();
        let mut replaced = None;
        for (number, news) in hub.attend(&ready) {
            match news {
                NodeChange::Joined(host) => leader.join(number, host),
                NodeChange::ManagerReplaced if leader.repeat_reports() => {
                    node.repeat_reports();
                    hub.repeat_reports(number);
                    replaced = Some(number);
                }
                // Orders to kill processes may be lost.
                NodeChange::ManagerReplaced if !leader.is_over() => {
                    hub.close(number);
                    leader.lose(number, Duration::ZERO);
                }
                // Guardians that have not received their last order receive it again.
                NodeChange::ManagerReplaced => {}
                // Other nodes have reported before they receive the request to report again.
                NodeChange::Reported(_) if replaced.is_some_and(|it| it != number) => {}
                NodeChange::Reported(report) => leader.handle_report(number, report),
                NodeChange::Silence(change) => {
                    leader.note_silence(number, change, hub.limits());
                }
                NodeChange::Lost(silence) if leader.lose(number, silence) => {
                    let goes_on = !leader.is_over();
                    let node = number;
                    drop(send(LeaderToStarter::Lost { node, goes_on }))
                }
                NodeChange::Lost(_) => {}
            }
        }
        if starter_counts && ready.contains(&starter_pipe) {
            // The starter was killed, so that no process receives the job's result.
            let Ok(received) = starter.read_available() else {
                let _ = hub.watch(false).and(watch(Some(&mut starter_pipe), false));
                abandon_node(node);
                break;
            };
            for StarterToLeader::Ended {
                node: number,
                status,
            } in received
            {
                if leader.awaits_node(number) {
                    let host = others
                        .get(number as usize - 1)
                        .map_or("a node", String::as_str);
                    leader.give_up(&message::host_not_started(host, status).to_string());
                    leader.lose(number, Duration::ZERO);
                }
                leader.note_agent_end(number);
            }
        }
        if let Some(node) = leader.take_drained() {
            send(LeaderToStarter::Drained { node })?;
        }
        leader.tick();
        exchange(&mut leader, node, &mut |number, order| {
            hub.send(number, order)
        });
    }
    hub.finish(LAST_MESSAGES_TIMEOUT);
    Ok(leader.status())
}

fn follow(
    node: &mut NodeState,
    mut leader: Follower,
    starter: Option<&Messages<File>>,
) -> Result<i32, Error> {
    let starter_pipe = starter.map(|starter| register_starter(starter, node.registry()));
    let mut starter_pipe = starter_pipe.transpose()?;
    let began = Instant::now();
    let mut had_guardians = false;
    while !(node.is_deserted() && (had_guardians || began.elapsed() > JOIN_TIMEOUT)) {
        let is_led = leader.lost_reason().is_none();
        let is_watched = leader
            .watch(is_led)
            .and(watch(starter_pipe.as_mut(), !node.is_over()));
        let limit = is_watched.map_or(RETRY, |()| leader.limit());
        let ready = node.wait(Some(limit));
        node.serve_node();
        node.take_reports()
            .into_iter()
            .for_each(|report| leader.send(report));
        let orders = leader.attend();
        if leader.begin_repetition() {
            node.repeat_reports();
        }
        orders.into_iter().for_each(|order| node.execute(order));
        // Replies to these orders are sent at once.
        node.take_reports()
            .into_iter()
            .for_each(|report| leader.send(report));
        had_guardians |= !node.is_deserted();
        if node.is_over() {
            leader.stop_fence();
        }
        if node.must_end && !node.is_over() {
            // The end of the connection tells the leader that no process is left.
            abandon_node(node);
            return Ok(exit_status::RECOVERY_FAILED);
        }
        let exit_of_starter = || {
            let has_ended = |pipe| ready.contains(pipe);
            starter_pipe
                .as_ref()
                .is_some_and(has_ended)
                .then(|| "the process that has started their node manager has exited".to_owned())
        };
        if let (false, Some(why)) = (
            node.is_over(),
            leader.lost_reason().or_else(exit_of_starter),
        ) {
            print_message(message::node_ends(node.host(), why));
            let _ = leader.watch(false).and(watch(starter_pipe.as_mut(), false));
            abandon_node(node);
            return Ok(exit_status::RECOVERY_FAILED);
        }
    }
    let _ = leader.watch(false).and(watch(starter_pipe.as_mut(), false));
    if !node.is_over() {
        // Processes that scripts have started outlive guardians that are killed.
        abandon_node(node);
    }
    leader.finish(LAST_MESSAGES_TIMEOUT);
    Ok(0)
}

/// Ends all processes of this node, and waits a while for the guardians to exit.
fn abandon_node(node: &mut NodeState) {
    let began = Instant::now();
    node.abandon_node(exit_status::RECOVERY_FAILED);
    while !node.is_deserted() && began.elapsed() < LAST_MESSAGES_TIMEOUT {
        node.wait(Some(LAST_MESSAGES_TIMEOUT));
        node.serve_node();
    }
}

/// Registers the pipe from the process that has started this manager.
fn register_starter(
    starter: &Messages<File>,
    registry: &Registry,
) -> Result<Source<OwnedFd>, Error> {
    let copy = starter.from().try_clone();
    copy.and_then(|copy| Source::new(registry, copy.into(), Interest::READ))
        .map_err(Error::system("standard input"))
}

fn watch(starter_pipe: Option<&mut Source<OwnedFd>>, is_awaited: bool) -> io::Result<()> {
    let interest = Interest::new(is_awaited, false);
    starter_pipe.map_or(Ok(()), |pipe| pipe.set_interest(interest))
}
