//! Tests of draining a node, with events in a fixed order.

use std::time::Duration;
use understudy_protocol::{
    Action, Ending, Event, Generation, Guardian, Job, JobOrder, Node, NodeEnd, ProcessNumber,
    ToGuardian, ToManager,
};

const NOW: Duration = Duration::from_secs(1);
/// Node that is drained, with the workers 1 and 3 and the spare 5.
const DRAINED: Node = Node(1);

fn send(job: &mut Job, number: u32, message: ToManager) -> Vec<Action> {
    job.handle(NOW, Event::Message(ProcessNumber(number), message))
}

fn ready(job: &mut Job, number: u32) -> Vec<Action> {
    let generation = job.generation();
    send(job, number, ToManager::Ready { generation })
}

fn can_leave(job: &mut Job, number: u32, is_replicated: bool) -> Vec<Action> {
    let generation = job.generation();
    let message = ToManager::CanLeave {
        generation,
        order: 1,
        is_replicated,
    };
    send(job, number, message)
}

/// Returns a job of four workers and two spares that drains its second node.
fn draining() -> Job {
    let mut job = Job::new(4, 2);
    (0..6).for_each(|it| drop(job.handle(NOW, Event::GuardianJoined(Guardian(it), Node(it % 2)))));
    (0..6).for_each(|it| drop(ready(&mut job, it)));
    let generation = Generation(0);
    (0..4).for_each(|it| drop(send(&mut job, it, ToManager::Running { generation })));
    let actions = job.handle(NOW, Event::Drain(DRAINED));
    // One spare is elsewhere, and two workers must be replaced.
    let at_other = |action: &Action| {
        matches!(
            action,
            Action::Order(JobOrder::Guardian {
                rank: Guardian(0 | 2 | 4),
                message: ToGuardian::Start {
                    number: ProcessNumber(6),
                    ..
                },
            })
        )
    };
    assert!(actions.len() == 1 && at_other(&actions[0]), "{actions:?}");
    job
}

#[test]
fn workers_leave_together_at_a_commit_and_the_generation_begins_without_the_node() {
    let mut job = draining();
    let kill = |number: u32| Action::kill(ProcessNumber(number), Guardian(number));
    let actions = ready(&mut job, 6);
    assert!(actions.contains(&Action::EndNode(
        DRAINED,
        NodeEnd::AtCheckpoint { order: 1 }
    )));
    assert!(actions.contains(&kill(5)), "{actions:?}");
    assert_eq!(can_leave(&mut job, 1, true), []);
    let actions = can_leave(&mut job, 3, true);
    assert!(
        [1, 3].iter().all(|it| actions.contains(&kill(*it))),
        "{actions:?}"
    );
    let begins = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::Order(JobOrder::Begin(begun)) => Some(begun.ranks.clone()),
            _ => None,
        })
    };
    let mut actions = Vec::new();
    [0, 2]
        .into_iter()
        .for_each(|it| actions.extend(ready(&mut job, it)));
    for number in [1, 3, 5].map(ProcessNumber) {
        assert_eq!(begins(&actions), None, "{number} may still print");
        actions.extend(job.handle(NOW, Event::Ended(number, Ending::Signal(9))));
        assert_eq!(begins(&actions), None, "{number} may still print");
        actions.extend(job.handle(NOW, Event::OutputClosed(number, 9)));
    }
    assert_eq!(
        begins(&actions),
        Some([0, 4, 2, 6].map(ProcessNumber).to_vec())
    );
    for guardian in [1, 3, 5].map(Guardian) {
        assert!(actions.contains(&Action::leave(guardian, 0)), "{actions:?}");
        assert_eq!(job.handle(NOW, Event::GuardianDied(guardian)), []);
    }
}

#[test]
fn a_job_continues_if_its_node_cannot_be_replaced() {
    let is_refused = |actions: &[Action], order: u32| {
        let withdrawn = Action::EndNode(DRAINED, NodeEnd::AtCheckpoint { order });
        actions.contains(&withdrawn)
            && actions
                .iter()
                .any(|it| matches!(it, Action::RefuseDrain(_)))
            && !actions
                .iter()
                .any(|it| *it == Action::announce(Generation(1)))
    };
    let actions = draining().handle(NOW, Event::Ended(ProcessNumber(6), Ending::Exit(1)));
    assert!(is_refused(&actions, 0), "a new process fails: {actions:?}");
    let mut job = draining();
    ready(&mut job, 6);
    let actions = can_leave(&mut job, 1, false);
    assert!(is_refused(&actions, 2), "replicas are missing: {actions:?}");
}

/// A failure before the node has left does not place a worker there.
#[test]
fn a_failed_worker_is_not_replaced_on_a_node_that_is_drained() {
    let mut job = draining();
    job.handle(NOW, Event::Ended(ProcessNumber(3), Ending::Signal(9)));
    let mut actions = Vec::new();
    [0, 1, 2]
        .into_iter()
        .for_each(|it| actions.extend(ready(&mut job, it)));
    let places = |action: &Action| {
        matches!(action, Action::Order(JobOrder::Begin(begun))
            if begun.ranks == [0, 1, 2, 4].map(ProcessNumber))
    };
    assert!(actions.iter().any(places), "{actions:?}");
}
