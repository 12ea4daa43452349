//! Tests of the protocol with events in a fixed order.

use std::time::Duration;
use understudy_catalogue::exit_status;
use understudy_protocol::{
    Action, BegunGeneration, Domain, Ending, Event, Generation, GenerationStart, Guardian,
    JOIN_TIMEOUT, Job, JobOrder, Node, ProcessNumber, ToGuardian, ToManager, Worker,
};

fn ready(number: u32, generation: Generation) -> Event {
    Event::Message(ProcessNumber(number), ToManager::Ready { generation })
}

fn running(number: u32, generation: Generation) -> Event {
    Event::Message(ProcessNumber(number), ToManager::Running { generation })
}

fn failed_in(number: u32, generation: Generation) -> Event {
    Event::Message(ProcessNumber(number), ToManager::Failed { generation })
}

#[test]
fn a_hundred_thousand_processes_cost_little() {
    const WORKERS: u32 = 100_000;
    let (mut job, now) = (Job::new(WORKERS, 1), Duration::ZERO);
    let mut do_with_all = |event: &dyn Fn(u32) -> Event| {
        let events = (0..=WORKERS).map(event);
        events
            .flat_map(|event| job.handle(now, event))
            .collect::<Vec<Action>>()
    };
    assert_eq!(
        do_with_all(&|it| Event::GuardianJoined(Guardian(it), Node(0))).len() as u32,
        WORKERS + 1
    );
    let first = Generation(0);
    let begun = do_with_all(&|it| ready(it, first));
    let begins = |actions: &[Action]| {
        let begin = actions.iter().filter_map(|action| match action {
            Action::Order(JobOrder::Begin(BegunGeneration { ranks, start })) => {
                Some((ranks.len() as u32, start.spares))
            }
            _ => None,
        });
        begin.collect::<Vec<_>>()
    };
    assert_eq!(begins(&begun), [(WORKERS, 1)]);
    do_with_all(&|it| running(it, first));
    let announced = job.handle(now, Event::Ended(ProcessNumber(7), Ending::Signal(9)));
    assert_eq!(announced, [Action::announce(Generation(1))]);
    let ready = |it| ready(it, Generation(1));
    let begun: Vec<Action> = (0..=WORKERS)
        .flat_map(|it| job.handle(now, ready(it)))
        .collect();
    assert_eq!(begins(&begun), [(WORKERS, 0)]);
}

#[test]
fn the_next_program_of_a_script_is_a_job_like_the_first() {
    let (mut job, now) = (Job::new(2, 0), Duration::ZERO);
    let mut all = |event: &dyn Fn(u32) -> Event| {
        (0..2)
            .flat_map(|it| job.handle(now, event(it)))
            .collect::<Vec<Action>>()
    };
    all(&|it| Event::GuardianJoined(Guardian(it), Node(0)));
    for program in 0..2 {
        let generation = Generation(program);
        let sent =
            |message: ToManager| move |it| Event::Message(ProcessNumber(it), message.clone());
        all(&|it| Event::Registered(ProcessNumber(it)));
        let begun = all(&sent(ToManager::Ready { generation }));
        assert!(
            matches!(&begun[..], [Action::Order(JobOrder::Begin(begun))] if begun.start.generation == generation)
        );
        all(&sent(ToManager::Running { generation }));
        assert_eq!(
            all(&sent(ToManager::AtEnd { generation })),
            [Action::end(true)]
        );
    }
}

#[test]
fn a_process_that_dies_in_every_generation_ends_the_job() {
    let (mut job, now) = (Job::new(1, 0), Duration::ZERO);
    let mut number = ProcessNumber(0);
    let mut actions = job.handle(now, Event::GuardianJoined(Guardian(0), Node(0)));
    for generation in (0..100).map(Generation) {
        actions.extend(job.handle(now, Event::Message(number, ToManager::Ready { generation })));
        if generation == Generation(0) {
            job.handle(
                now,
                Event::Message(number, ToManager::Running { generation }),
            );
            job.handle(
                now,
                Event::Message(number, ToManager::StoreReplicas { worker: Worker(0) }),
            );
        }
        actions.extend(job.handle(now, Event::Ended(number, Ending::Signal(9))));
        actions.extend(job.handle(now, Event::OutputClosed(number, 0)));
        number = ProcessNumber(number.0 + 1);
    }
    let left = actions.iter().find_map(|action| match action {
        Action::Order(JobOrder::Guardian {
            message: ToGuardian::Leave { status },
            ..
        }) => Some(*status),
        _ => None,
    });
    assert_eq!(
        left,
        Some(exit_status::RECOVERY_FAILED),
        "the job ends with this status"
    );
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Print(_))),
        "a message states the reason"
    );
}

/// An MPI library aborts, and another process is then reported dead: the next generation begins.
///
/// MPI libraries that are connected to a dead process over TCP abort in this way. An abort after
/// which no death is reported within ten seconds counts as the death of its own process.
#[test]
fn a_library_that_gives_up_for_a_death_elsewhere_is_forgiven_and_another_is_a_death() {
    let (mut job, generation) = (Job::new(2, 0), Generation(0));
    let mut do_at = |seconds, event| job.handle(Duration::from_secs(seconds), event);
    (0..2).for_each(|it| drop(do_at(0, Event::GuardianJoined(Guardian(it), Node(it)))));
    (0..2).for_each(|it| drop(do_at(0, ready(it, generation))));
    (0..2).for_each(|it| {
        drop(do_at(
            0,
            Event::Message(
                ProcessNumber(it),
                ToManager::StoreReplicas { worker: Worker(it) },
            ),
        ))
    });
    (0..2).for_each(|it| drop(do_at(0, running(it, generation))));
    assert_eq!(
        do_at(1, Event::LibraryAborted(ProcessNumber(0), generation)),
        []
    );
    let next = Generation(1);
    let actions = do_at(1, Event::Ended(ProcessNumber(1), Ending::Signal(9)));
    assert!(actions.contains(&Action::announce(next)));
    do_at(1, ready(0, next));
    do_at(1, ready(2, next));
    assert_eq!(do_at(9, Event::Tick), []);
    let (late, new) = (
        Event::LibraryAborted(ProcessNumber(0), generation),
        Event::LibraryAborted(ProcessNumber(0), next),
    );
    assert_eq!(
        [do_at(20, late), do_at(30, Event::Tick), do_at(30, new)],
        [const { Vec::new() }; 3]
    );
    let (number, at) = (ProcessNumber(0), Guardian(0));
    assert_eq!(do_at(40, Event::Tick), [Action::kill(number, at)]);
    let actions = do_at(40, Event::Ended(number, Ending::Exit(14)));
    assert!(
        actions.contains(&Action::announce(Generation(2))),
        "{actions:?}"
    );
}

/// Returns a job of four workers and two spares on two nodes, which has begun.
fn begun() -> Job {
    let mut job = Job::new(4, 2);
    let now = Duration::ZERO;
    (0..6).for_each(|it| drop(job.handle(now, Event::GuardianJoined(Guardian(it), Node(it % 2)))));
    let ready = |it| ready(it, Generation(0));
    let actions: Vec<Action> = (0..6)
        .rev()
        .flat_map(|it| job.handle(now, ready(it)))
        .collect();
    let ranks = (0..4).map(ProcessNumber).collect();
    let start = GenerationStart {
        generation: Generation(0),
        spares: 2,
        is_first: true,
        since_failure: None,
    };
    let begin = Action::Order(JobOrder::Begin(BegunGeneration { start, ranks }));
    assert_eq!(actions, [begin]);
    (0..4).for_each(|it| drop(job.handle(now, running(it, Generation(0)))));
    job
}

/// Kills a process, makes `others` ready, and returns the ranks of the next generation.
///
/// The first of `others` sends `answer` when all of them are ready. The result is empty if no
/// generation begins.
fn ranks_after(job: &mut Job, dead: u32, others: &[u32], answer: &[ToManager]) -> Vec<u32> {
    let now = Duration::ZERO;
    let mut actions = job.handle(now, Event::Ended(ProcessNumber(dead), Ending::Signal(9)));
    let generation = job.generation();
    for &other in others {
        actions.extend(job.handle(now, ready(other, generation)));
    }
    for message in answer {
        let sent = Event::Message(ProcessNumber(others[0]), message.clone());
        actions.extend(job.handle(now, sent));
    }
    let ranks = actions.into_iter().find_map(|action| match action {
        Action::Order(JobOrder::Begin(BegunGeneration { ranks, .. })) => Some(ranks),
        _ => None,
    });
    ranks
        .unwrap_or_default()
        .into_iter()
        .map(|number| number.0)
        .collect()
}

#[test]
fn a_spare_of_the_same_node_is_preferred() {
    assert_eq!(ranks_after(&mut begun(), 2, &[0, 1, 3], &[]), [0, 1, 4, 3]);
    assert_eq!(ranks_after(&mut begun(), 3, &[0, 1, 2], &[]), [0, 1, 2, 5]);
    // Spare 5 of the odd node has already taken over, so the next one is of the even node.
    let mut job = begun();
    ranks_after(&mut job, 3, &[0, 1, 2], &[]);
    assert_eq!(ranks_after(&mut job, 5, &[0, 1, 2], &[]), [0, 1, 2, 4]);
}

/// Begins a job whose processes are on these nodes, the workers first.
///
/// The remaining processes are spares.
///
/// The nodes with even numbers are one rack, and the nodes with odd numbers are a second rack.
fn begun_in_racks(workers: u32, nodes: &[u32]) -> Job {
    let mut job = Job::new(workers, nodes.len() as u32 - workers);
    let mut each = |event: &dyn Fn(u32) -> Event| {
        (0..nodes.len() as u32).for_each(|it| drop(job.handle(Duration::ZERO, event(it))));
    };
    each(&|it| Event::NodeInDomain(Node(nodes[it as usize]), Domain(nodes[it as usize] % 2)));
    each(&|it| Event::GuardianJoined(Guardian(it), Node(nodes[it as usize])));
    each(&|it| ready(it, Generation(0)));
    each(&|it| running(it, Generation(0)));
    job
}

#[test]
fn what_is_left_of_a_domain_that_has_lost_a_node_is_used_last() {
    let mut job = begun_in_racks(3, &[0, 1, 1, 2, 3]);
    job.handle(Duration::ZERO, Event::NodeLost(Node(0), Duration::ZERO));
    let ready = |it| ready(it, Generation(1));
    let actions: Vec<Action> = [1, 2]
        .into_iter()
        .flat_map(|it| job.handle(Duration::ZERO, ready(it)))
        .collect();
    let begins = |action: &Action| matches!(action, Action::Order(JobOrder::Begin(BegunGeneration { ranks, .. })) if *ranks == [4, 1, 2].map(ProcessNumber));
    assert!(actions.iter().any(begins), "{actions:?}");
    // A spare in the rack that has lost a node is used if no other spare is left.
    assert_eq!(ranks_after(&mut job, 1, &[4, 2], &[]), [4, 3, 2]);
    // Without spares a new process is started outside of the rack.
    let mut job = begun_in_racks(3, &[0, 2, 1]);
    let actions = job.handle(Duration::ZERO, Event::NodeLost(Node(0), Duration::ZERO));
    let starts = |action: &Action| {
        matches!(
            action,
            Action::Order(JobOrder::Guardian {
                rank: Guardian(2),
                message: ToGuardian::Start { .. },
            })
        )
    };
    assert!(actions.iter().any(starts), "{actions:?}");
}

#[test]
fn time_since_a_failure_includes_detection() {
    let mut job = begun_in_racks(3, &[0, 1, 1, 2, 3]);
    let seconds = Duration::from_secs;
    job.handle(seconds(9), Event::NodeLost(Node(0), seconds(5)));
    let since_failure = |job: &mut Job, now, of, numbers: [u32; 2]| {
        let ready = |it| ready(it, Generation(of));
        let actions = numbers.map(|it| job.handle(seconds(now), ready(it)));
        actions
            .into_iter()
            .flatten()
            .find_map(|action| match action {
                Action::Order(JobOrder::Begin(begun)) => Some(begun.start.since_failure),
                _ => None,
            })
    };
    let lost = since_failure(&mut job, 10, 1, [1, 2]);
    assert_eq!(lost, Some(Some(seconds(6))));
    // A further failure before the program resumes belongs to the same recovery.
    let sent = |number, message| Event::Message(ProcessNumber(number), message);
    let failed = |of| {
        sent(
            1,
            ToManager::Failed {
                generation: Generation(of),
            },
        )
    };
    job.handle(seconds(12), failed(1));
    job.handle(
        seconds(13),
        sent(
            4,
            ToManager::Ready {
                generation: Generation(2),
            },
        ),
    );
    let again = since_failure(&mut job, 14, 2, [1, 2]);
    assert_eq!(again, Some(Some(seconds(10))));
    job.handle(
        seconds(15),
        sent(
            1,
            ToManager::Running {
                generation: Generation(2),
            },
        ),
    );
    job.handle(seconds(20), failed(2));
    job.handle(
        seconds(21),
        sent(
            4,
            ToManager::Ready {
                generation: Generation(3),
            },
        ),
    );
    let later = since_failure(&mut job, 22, 3, [1, 2]);
    assert_eq!(later, Some(Some(seconds(2))));
}

#[test]
fn a_hinted_spare_precedes_a_neighbour_and_follows_an_adopter() {
    let hints = [
        ToManager::PlacementHint {
            spare: ProcessNumber(5),
        },
        ToManager::PlacementHintsEnd {
            generation: Generation(1),
        },
    ];
    let begun_with_hints = || {
        let mut job = begun();
        job.handle(
            Duration::ZERO,
            Event::Message(ProcessNumber(0), ToManager::CanGivePlacementHints),
        );
        job
    };
    assert_eq!(
        ranks_after(&mut begun_with_hints(), 2, &[0, 1, 3], &hints),
        [0, 1, 5, 3]
    );
    // Without an answer the generation does not begin.
    assert_eq!(ranks_after(&mut begun_with_hints(), 2, &[0, 1, 3], &[]), []);
    let mut job = begun_with_hints();
    job.handle(
        Duration::ZERO,
        Event::Message(
            ProcessNumber(2),
            ToManager::StoreReplicas { worker: Worker(2) },
        ),
    );
    assert_eq!(ranks_after(&mut job, 2, &[0, 1, 3], &hints), [0, 1, 4, 3]);
}

#[test]
fn the_death_of_a_spare_has_no_effect_on_workers() {
    let (mut job, now) = (begun().with_replenishing(true), Duration::ZERO);
    let died = job.handle(now, Event::Ended(ProcessNumber(4), Ending::Signal(9)));
    let [
        Action::Print(_),
        Action::Order(JobOrder::CountSpareDeath),
        Action::Order(JobOrder::Guardian {
            message:
                ToGuardian::Start {
                    number: ProcessNumber(6),
                    is_restart: true,
                },
            ..
        }),
    ] = &died[..]
    else {
        panic!("{died:?}");
    };
    // The other idle spare can replace a worker that dies before the new spare is ready.
    assert_eq!(ranks_after(&mut job, 2, &[0, 1, 3], &[]), [0, 1, 5, 3]);
}

/// Worker 1 cannot restart from disk, although other workers have resumed: worker 1 is killed.
///
/// Before any worker has resumed, all processes are killed, for a restart from the beginning.
#[test]
fn a_process_that_waits_for_a_restart_while_others_resume_is_replaced() {
    let (mut job, now) = (begun(), Duration::ZERO);
    job.handle(now, Event::Ended(ProcessNumber(2), Ending::Signal(9)));
    let failed = failed_in(1, Generation(1));
    let (number, at) = (ProcessNumber(1), Guardian(1));
    assert_eq!(job.handle(now, failed), [Action::kill(number, at)]);
    // No process has resumed yet.
    let mut job = Job::new(2, 0);
    (0..2).for_each(|it| drop(job.handle(now, Event::GuardianJoined(Guardian(it), Node(it)))));
    (0..2).for_each(|it| drop(job.handle(now, ready(it, Generation(0)))));
    job.handle(now, Event::Ended(ProcessNumber(0), Ending::Signal(9)));
    let failed = failed_in(1, Generation(1));
    assert!(job.handle(now, failed).contains(&Action::kill(number, at)));
    assert_eq!(
        job.generation(),
        Generation(1),
        "no generation is announced before all have exited"
    );
}

#[test]
fn a_launcher_that_ends_a_spare_ends_the_job() {
    let (mut job, now) = (begun(), Duration::ZERO);
    let actions = job.handle(
        now,
        Event::Ended(ProcessNumber(4), Ending::LauncherSignal(15)),
    );
    assert_eq!(actions, [Action::end(false)]);
}

/// A spare that joins when all workers are in `MPI_Finalize` is admitted and exits.
///
/// The spare does not count as the next program of a script.
#[test]
fn a_spare_that_joins_after_the_end_is_released() {
    let (mut job, now) = (begun().with_replenishing(true), Duration::ZERO);
    job.handle(now, Event::Ended(ProcessNumber(4), Ending::Signal(9)));
    let generation = Generation(0);
    (0..4).for_each(|it| {
        drop(job.handle(
            now,
            Event::Message(ProcessNumber(it), ToManager::AtEnd { generation }),
        ))
    });
    let number = ProcessNumber(6);
    let admitted = Action::admit(number, Some(generation));
    let actions = job.handle(now, Event::Registered(number));
    assert_eq!(actions, [admitted, Action::end(true)]);
}

/// A guardian does not join in time: the job ends, and the late guardian exits.
///
/// A guardian may have died before it could send a message.
#[test]
fn a_missing_guardian_ends_the_job_and_a_late_one_exits() {
    let mut job = Job::new(2, 0);
    let (first, late) = (Guardian(0), Guardian(1));
    assert_eq!(
        job.handle(Duration::ZERO, Event::GuardianJoined(first, Node(0))),
        []
    );
    let mut left = Vec::new();
    while let Some(deadline) = job.deadline() {
        left.extend(job.handle(deadline, Event::Tick));
    }
    let leave = |at| Action::leave(at, exit_status::RECOVERY_FAILED);
    assert!(
        matches!(&left[..], [Action::Print(_), end, last] if *end == Action::end(false) && *last == leave(first))
    );
    assert_eq!(
        job.handle(JOIN_TIMEOUT * 2, Event::GuardianJoined(late, Node(0))),
        [leave(late)]
    );
}

#[test]
fn an_early_signal_ends_the_job() {
    let (mut job, now) = (Job::new(2, 0), Duration::ZERO);
    let (at, status) = (Guardian(1), 143);
    job.handle(now, Event::GuardianJoined(at, Node(0)));
    let actions = job.handle(
        now,
        Event::Ended(ProcessNumber(1), Ending::LauncherSignal(15)),
    );
    assert_eq!(actions, [Action::end(false), Action::leave(at, status)]);
}
