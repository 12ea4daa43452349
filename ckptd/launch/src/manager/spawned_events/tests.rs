//! Tests of spawned processes on a node without an MPI library.

use super::*;
use crate::manager::spawned_groups::{DETECTION_TIMEOUT, SpawnedChild};
use crate::messages::Order;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::process::{Child as Process, Command};
use std::sync::mpsc;
use std::time::Duration;
use understudy_formats::private_directories::PrivateDirectory;
use understudy_messages::JobOrder;
use understudy_numbers::Generation;
use understudy_pmi::{Answer, GenerationName};
use understudy_protocol::GuardianLimits;
use understudy_wire::line::{LineListener, LineSocket};

fn node() -> (NodeState, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = PrivateDirectory::open_any(directory.path()).unwrap();
    let listener = LineListener::new(&path, LineSocket::Manager).unwrap();
    let limits = GuardianLimits::new(Duration::from_secs(60));
    let node = NodeState::new(listener, directory.path(), limits).unwrap();
    (node, directory)
}

fn pidfd(process: &Process) -> OwnedFd {
    pidfd_open(Pid::from_child(process), PidfdFlags::empty()).unwrap()
}

/// Adds a group with one child that was not started yet; returns the child's identifier.
fn add_unstarted_group(node: &mut NodeState, worker: u32, time: u64) -> u64 {
    let children = &mut node.children;
    children.last_id += 1;
    let id = children.last_id;
    children.groups.push(SpawnedGroup {
        name: GenerationName::new("job", 0).unwrap().child(0, id as u32),
        spawn_call: (Worker(worker), time),
        label: format!("{worker}.{time}"),
        spawns: 0,
        programs: Vec::new(),
        children: vec![SpawnedChild {
            id,
            home: Guardian(0),
            pidfd: None,
            is_finalised: false,
            has_ended: false,
            status: 0,
        }],
        answer: None,
        is_permanent: false,
        is_captured: false,
        is_stopped: false,
        is_killed: false,
        failure: None,
    });
    id
}

/// Adds a group with one child that runs.
fn add_running_group(node: &mut NodeState, worker: u32, time: u64) -> (u64, Process) {
    let id = add_unstarted_group(node, worker, time);
    let process = Command::new("sleep").arg("60").spawn().unwrap();
    node.note_child(id, ChildState::Started, Some(pidfd(&process)));
    (id, process)
}

/// Kills a child; returns true if it had ended before.
fn kill_child((_, mut process): (u64, Process)) -> bool {
    let has_ended = process.try_wait().unwrap().is_some();
    process.kill().unwrap();
    process.wait().unwrap();
    has_ended
}

/// Reports a failure of the child, and waits until its cause would be detected.
fn end_badly(node: &mut NodeState, id: u64, is_killed: bool) {
    node.note_child(
        id,
        ChildState::Ended {
            status: 5,
            is_killed,
        },
        None,
    );
    for group in &mut node.children.groups {
        group.failure = group
            .failure
            .map(|(since, status)| (since - DETECTION_TIMEOUT, status));
    }
}

/// Returns the reports that follow from ended children.
fn reports_of_children(node: &mut NodeState) -> Vec<Report> {
    node.end_as_children();
    node.take_reports()
}

/// A child exits before its start is reported; the spawn call succeeds nevertheless.
#[test]
fn a_child_that_has_exited_already_counts_as_started() {
    let (mut node, _directory) = node();
    let id = add_unstarted_group(&mut node, 0, 1);
    let (reply, replied) = mpsc::channel();
    let (answer, _recall) = Answer::new(Box::new(move |bytes| reply.send(bytes).unwrap()));
    node.children.groups[0].answer = Some(answer);
    let mut process = Command::new("true").spawn().unwrap();
    let pidfd = pidfd(&process);
    process.wait().unwrap();
    node.note_child(id, ChildState::Started, Some(pidfd));
    assert_eq!(replied.try_recv(), Ok(Some(b"job.0.0-1".to_vec())));
}

/// A child of a permanent group fails; the job ends with the child's status.
///
/// A rollback does not repeat the child, since its group is permanent.
#[test]
fn a_failure_in_a_permanent_group_ends_the_job() {
    let (mut node, _directory) = node();
    let id = add_unstarted_group(&mut node, 0, 1);
    node.children.make_permanent(Worker(0), 1);
    end_badly(&mut node, id, false);
    assert_eq!(reports_of_children(&mut node), [Report::Abort(5)]);
    // The job is over, and guardians may exit.
    assert!(!node.children.is_any_open() && node.children.groups.is_empty());
}

#[test]
fn groups_that_are_respawned_are_ended_even_if_permanent() {
    let (mut node, _directory) = node();
    let [stays, again, of_another] =
        [(0, 1), (0, 2), (1, 2)].map(|(worker, time)| add_running_group(&mut node, worker, time));
    node.children.make_permanent(Worker(0), 2);
    node.children.make_permanent(Worker(1), 2);
    node.rolled_back(Worker(0), 1);
    assert_eq!(
        [stays, again, of_another].map(kill_child),
        [false, true, false]
    );
}

/// A child of a captured group fails; the rollback of its worker decides what follows.
///
/// The job ends if the worker is rolled back to a point after the spawn call; otherwise the child
/// is spawned again. The child's MPI library may have aborted because of another death, or the
/// child was killed.
#[test]
fn a_bad_end_of_one_that_is_captured_waits_for_its_worker() {
    for (is_counted, is_killed) in [(true, false), (false, false), (true, true), (false, true)] {
        let (mut node, _directory) = node();
        let id = add_unstarted_group(&mut node, 0, 1);
        node.children.capture(Worker(0), 1);
        end_badly(&mut node, id, is_killed);
        assert_eq!(
            (reports_of_children(&mut node), node.children.deadline()),
            (vec![], None)
        );
        node.end_children();
        node.rolled_back(Worker(0), u64::from(is_counted));
        let ends = is_counted.then_some(Report::Abort(5));
        assert_eq!(reports_of_children(&mut node), Vec::from_iter(ends));
    }
}

/// True if the process was stopped (proc(5)).
fn is_stopped((_, process): &(u64, Process)) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('T')
}

/// At an announcement, groups that are not permanent stop until their worker is rolled back.
///
/// A group is captured after the announcement, too: a worker with much memory may commit a captured
/// cut after faster workers have died. Groups after the point of the rollback are killed.
#[test]
fn captured_groups_are_stopped_until_their_worker_resumes() {
    let (mut node, _directory) = node();
    let [settled, captured, late, again] =
        [1, 2, 3, 4].map(|time| add_running_group(&mut node, 0, time));
    node.children.make_permanent(Worker(0), 1);
    node.children.capture(Worker(0), 2);
    node.execute(Order::Job(JobOrder::Announce {
        generation: Generation(1),
    }));
    node.children.capture(Worker(0), 3);
    let all = [settled, captured, late, again];
    let until = Instant::now() + Duration::from_secs(10);
    while all.each_ref().map(is_stopped) != [false, true, true, true] {
        assert!(Instant::now() < until);
    }
    node.end_children();
    node.rolled_back(Worker(0), 3);
    while all[..3].iter().any(is_stopped) {
        assert!(Instant::now() < until);
    }
    assert_eq!(all.map(kill_child), [false, false, false, true]);
}

/// A child has aborted when the job ends; the guardian's exit is not delayed.
///
/// The cause of the abort is the end of the other processes.
#[test]
fn a_child_that_has_ended_does_not_delay_the_end_of_the_job() {
    let (mut node, _directory) = node();
    let id = add_unstarted_group(&mut node, 0, 1);
    let status = 14;
    node.note_child(
        id,
        ChildState::Ended {
            status,
            is_killed: false,
        },
        None,
    );
    node.execute(Order::Job(JobOrder::End { is_good: false }));
    let leave = ToGuardian::Leave { status: 0 };
    assert_eq!(node.unless_children_run(Guardian(0), &leave), Some(leave));
}

/// A guardian dies: its running child is killed, and the job ends with status 137.
///
/// A child of this guardian that has exited before, and a child of another guardian, do not count.
#[test]
fn children_of_a_killed_guardian_are_killed() {
    let (mut node, _directory) = node();
    let [killed, ended, of_another] = [1, 2, 3].map(|time| add_running_group(&mut node, 0, time));
    node.children.make_permanent(Worker(0), 3);
    node.children.groups[2].children[0].home = Guardian(1);
    let (status, is_killed) = (0, false);
    node.note_child(ended.0, ChildState::Ended { status, is_killed }, None);
    let rank = Guardian(0);
    node.lose_guardian(rank);
    end_badly(&mut node, 0, true);
    assert_eq!(
        reports_of_children(&mut node),
        [Report::GuardianDied { rank }, Report::Abort(137)]
    );
    assert_eq!(node.children.groups.len(), 1);
    assert_eq!(
        [killed, ended, of_another].map(kill_child),
        [true, false, false]
    );
}

/// A child fails after MPI_Finalize; the job continues, and ends with the child's status.
///
/// The end of a process and its call of MPI_Finalize are reported on different paths, so that
/// either report may be the first.
#[test]
fn a_failure_after_mpi_finalize_does_not_end_the_job_in_any_order_of_reports() {
    for is_late in [false, true] {
        let (mut node, _directory) = node();
        let id = add_unstarted_group(&mut node, 0, 1);
        let name = node.children.groups[0].name.clone();
        if !is_late {
            node.children.finalised(&name, Rank(0));
        }
        let news = ChildState::Ended {
            status: 3,
            is_killed: false,
        };
        node.note_child(id, news, None);
        if is_late {
            node.children.finalised(&name, Rank(0));
        }
        assert_eq!(node.children.deadline(), None);
        assert!(!node.children.is_any_open());
        let [before, after] = [0, 3].map(|status| ToGuardian::Leave { status });
        assert_eq!(node.unless_children_run(Guardian(0), &before), Some(after));
        assert_eq!(node.take_reports(), [Report::Spawned(3)]);
    }
}
