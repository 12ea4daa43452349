//! The protocol with events in a given order.

use std::time::Duration;
use understudy_protocol::{Action, Ending, Event, Generation, Guardian, Job, LOST, Node, Number, Said};

#[test]
fn a_hundred_thousand_processes_cost_little() {
    const WORKERS: u32 = 100_000;
    let (mut job, now) = (Job::new(WORKERS, 1), Duration::ZERO);
    let mut do_with_all = |event: &dyn Fn(u32) -> Event| {
        let events = (0..=WORKERS).map(event);
        events.flat_map(|event| job.handle(now, event)).collect::<Vec<Action>>()
    };
    assert_eq!(
        do_with_all(&|it| Event::Came(Guardian(it), Node(0))).len() as u32,
        WORKERS + 1
    );
    let first = Generation(0);
    let begun = do_with_all(&|it| Event::Said(Number(it), Said::Ready(first)));
    assert!(matches!(&begun[..], [Action::Begin { ranks, .. }] if ranks.len() as u32 == WORKERS + 1));
    do_with_all(&|it| Event::Said(Number(it), Said::Running(first)));
    let announced = job.handle(now, Event::Ended(Number(7), Ending::Signal(9)));
    assert_eq!(announced, [Action::Announce(Generation(1))]);
    let ready = |it| Event::Said(Number(it), Said::Ready(Generation(1)));
    let begun: Vec<Action> = (0..=WORKERS).flat_map(|it| job.handle(now, ready(it))).collect();
    assert!(matches!(&begun[..], [Action::Begin { ranks, .. }] if ranks.len() as u32 == WORKERS));
}

#[test]
fn the_next_program_of_a_script_is_a_job_like_the_first() {
    let (mut job, now) = (Job::new(2, 0), Duration::ZERO);
    let mut all = |event: &dyn Fn(u32) -> Event| {
        (0..2)
            .flat_map(|it| job.handle(now, event(it)))
            .collect::<Vec<Action>>()
    };
    all(&|it| Event::Came(Guardian(it), Node(0)));
    for program in 0..2 {
        let generation = Generation(program);
        let said = |said: Said| move |it| Event::Said(Number(it), said);
        all(&|it| Event::Called(Number(it)));
        let begun = all(&said(Said::Ready(generation)));
        assert!(matches!(&begun[..], [Action::Begin { generation: of, .. }] if *of == generation));
        all(&said(Said::Running(generation)));
        assert_eq!(all(&said(Said::AtEnd(generation))), [Action::End { is_good: true }]);
    }
}

#[test]
fn a_process_that_dies_in_every_generation_ends_the_job() {
    let (mut job, now) = (Job::new(1, 0), Duration::ZERO);
    let mut number = Number(0);
    let mut actions = job.handle(now, Event::Came(Guardian(0), Node(0)));
    for generation in (0..100).map(Generation) {
        actions.extend(job.handle(now, Event::Said(number, Said::Ready(generation))));
        if generation == Generation(0) {
            job.handle(now, Event::Said(number, Said::Running(generation)));
            job.handle(now, Event::Said(number, Said::Keeps(0)));
        }
        actions.extend(job.handle(now, Event::Ended(number, Ending::Signal(9))));
        actions.extend(job.handle(now, Event::Closed(number, 0)));
        number = Number(number.0 + 1);
    }
    let left = actions.iter().find_map(|action| match action {
        Action::Leave { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(left, Some(LOST), "it goes on for ever");
    assert!(
        actions.iter().any(|action| matches!(action, Action::Say(_))),
        "in silence"
    );
}

/// As MPI libraries do that are connected to a dead process over TCP.
#[test]
fn a_library_that_gives_up_for_a_death_elsewhere_is_forgiven_and_another_is_a_death() {
    let (mut job, generation) = (Job::new(2, 0), Generation(0));
    let mut do_at = |seconds, event| job.handle(Duration::from_secs(seconds), event);
    (0..2).for_each(|it| drop(do_at(0, Event::Came(Guardian(it), Node(it)))));
    (0..2).for_each(|it| drop(do_at(0, Event::Said(Number(it), Said::Ready(generation)))));
    (0..2).for_each(|it| drop(do_at(0, Event::Said(Number(it), Said::Keeps(it)))));
    (0..2).for_each(|it| drop(do_at(0, Event::Said(Number(it), Said::Running(generation)))));
    assert_eq!(do_at(1, Event::Broke(Number(0), generation)), []);
    let next = Generation(1);
    let told = do_at(1, Event::Ended(Number(1), Ending::Signal(9)));
    assert!(told.contains(&Action::Announce(next)));
    do_at(1, Event::Said(Number(0), Said::Ready(next)));
    do_at(1, Event::Said(Number(2), Said::Ready(next)));
    assert_eq!(do_at(9, Event::Tick), []);
    let (late, new) = (Event::Broke(Number(0), generation), Event::Broke(Number(0), next));
    assert_eq!(
        [do_at(20, late), do_at(30, Event::Tick), do_at(30, new)],
        [const { Vec::new() }; 3]
    );
    let (number, at) = (Number(0), Guardian(0));
    assert_eq!(do_at(40, Event::Tick), [Action::Kill { number, at }]);
    let told = do_at(40, Event::Ended(number, Ending::Exit(14)));
    assert!(told.contains(&Action::Announce(Generation(2))), "{told:?}");
}
