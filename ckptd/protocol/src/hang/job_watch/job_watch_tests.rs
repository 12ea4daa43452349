//! Tests of the watch of a job.

use super::*;
use understudy_messages::CallPlace;

const RANKS: [ProcessNumber; 4] = [
    ProcessNumber(0),
    ProcessNumber(5),
    ProcessNumber(2),
    ProcessNumber(3),
];

fn in_call(procedure: &str) -> Activity {
    Activity::InCall(CallPlace {
        procedure: procedure.into(),
        address: "solver+0x4f2c".into(),
    })
}

fn idle() -> Activity {
    Activity::Idle {
        after: CallPlace::default(),
        kernel_function: String::new(),
    }
}

fn watch(replaces: bool) -> JobWatch {
    JobWatch::new(HangLimits::new(Duration::from_secs(300)), replaces)
}

/// Reports states of some ranks, and returns the judgement.
fn judge(
    watch: &mut JobWatch,
    reports: impl IntoIterator<Item = (ProcessNumber, Option<Activity>)>,
) -> Vec<HangAction> {
    for (number, state) in reports {
        watch.record(Duration::ZERO, number, state);
    }
    let host = |number| format!("n{number}");
    assert_eq!(watch.judge(Duration::ZERO, &RANKS, host), []);
    watch.judge(Duration::from_secs(10), &RANKS, host)
}

/// Reports these states of the ranks, in order, and returns the judgement.
fn report(watch: &mut JobWatch, states: [Activity; 4]) -> Vec<HangAction> {
    judge(watch, RANKS.into_iter().zip(states.map(Some)))
}

fn printed(actions: &[HangAction]) -> Vec<&str> {
    let texts = actions.iter().filter_map(|action| match action {
        HangAction::Print(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn a_stopped_rank_is_reported_before_the_job() {
    let waits = || in_call("MPI_Allreduce");
    let mut watch = watch(false);
    let actions = report(&mut watch, [waits(), Activity::Stopped, waits(), waits()]);
    let texts = printed(&actions);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].contains("rank 5 on n5 is stopped (SIGSTOP)"),
        "{texts:?}"
    );
    assert!(
        texts[1].contains(
            "for 5 min: 3 ranks are in MPI_Allreduce at solver+0x4f2c; rank 5 on n5 is stopped \
             (SIGSTOP)"
        ),
        "{texts:?}"
    );
    // Repeated reports are not printed again.
    assert_eq!(
        report(&mut watch, [waits(), Activity::Stopped, waits(), waits()]),
        []
    );
    // The job moves, and stands again.
    let again = judge(&mut watch, [(RANKS[0], None), (RANKS[0], Some(waits()))]);
    assert_eq!(printed(&again).len(), 1);
}

#[test]
fn a_job_that_is_suspended_as_a_whole_is_not_reported() {
    let mut watch = watch(true);
    assert_eq!(report(&mut watch, [const { Activity::Stopped }; 4]), []);
    // The ranks continue one after the other.
    assert_eq!(judge(&mut watch, [(RANKS[0], None)]), []);
    assert_eq!(
        report(
            &mut watch,
            [
                in_call("MPI_Recv"),
                Activity::Stopped,
                Activity::Stopped,
                Activity::Stopped
            ]
        )
        .len(),
        1
    );
}

/// The leader would poll without a pause if a deadline remained.
#[test]
fn a_judgement_is_made_once_and_not_of_dead_processes() {
    let mut watch = watch(true);
    watch.record(Duration::ZERO, RANKS[1], Some(Activity::Stopped));
    let deadline = watch.deadline().expect("a judgement is due");
    watch.retain(|number| number != RANKS[1]);
    assert_eq!(watch.judge(deadline, &RANKS, |_| String::new()), []);
    assert_eq!(watch.deadline(), None);
}

#[test]
fn a_debugged_rank_is_neither_reported_nor_replaced() {
    let waits = || in_call("MPI_Barrier");
    let states = [waits(), waits(), Activity::Traced, waits()];
    assert_eq!(report(&mut watch(true), states), []);
}

/// Processes were inactive before a failure, and a spare before it took over.
///
/// Regression test: the replacement was killed at once.
#[test]
fn a_job_is_not_judged_by_states_from_before_a_recovery() {
    let mut watch = watch(true);
    let now = Duration::from_secs(400);
    for number in RANKS {
        watch.record(now, number, Some(in_call("MPI_Init")));
    }
    watch.note_generation(now);
    let host = |_| String::new();
    let deadline = watch.deadline().expect("a judgement is due");
    assert_eq!(watch.judge(deadline, &RANKS, host), []);
    let deadline = watch.deadline().expect("another judgement is due");
    assert!(deadline >= now + watch.limits.any);
    assert_eq!(watch.judge(deadline, &RANKS, host).len(), 1);
}

#[test]
fn a_crawling_rank_is_named_once_and_most_ranks_are_not() {
    let waits = || in_call("MPI_Barrier");
    let crawls = || Activity::Crawling {
        after: CallPlace::default(),
    };
    let mut watch = watch(true);
    for printed in [1, 0] {
        let actions = report(&mut watch, [waits(), crawls(), waits(), waits()]);
        assert_eq!(actions.len(), printed, "{actions:?}");
        let is_print = |action| matches!(action, &HangAction::Print(_));
        assert!(actions.iter().all(is_print), "{actions:?}");
        watch.forget(RANKS[1]);
    }
    let most = [crawls(), crawls(), crawls(), waits()];
    assert_eq!(report(&mut watch, most), []);
}

#[test]
fn stopped_ranks_and_odd_ones_out_are_replaced_on_request() {
    let (some, other) = (|| in_call("MPI_Barrier"), || in_call("MPI_Recv"));
    for (states, replaced) in [
        ([some(), Activity::Stopped, some(), some()], vec![5]),
        ([some(), some(), other(), some()], vec![2]),
        ([some(), some(), idle(), some()], vec![2]),
        ([some(), other(), idle(), some()], vec![2]),
        ([some(), some(), other(), other()], vec![]),
        ([idle(), idle(), idle(), some()], vec![]),
        ([some(), some(), some(), some()], vec![]),
    ] {
        let actions = report(&mut watch(true), states.clone());
        let found: Vec<u32> = actions
            .iter()
            .filter_map(|action| match action {
                HangAction::Replace(number) => Some(number.0),
                _ => None,
            })
            .collect();
        assert_eq!(found, replaced, "{states:?}");
        let actions = report(&mut watch(false), states);
        assert!(
            actions
                .iter()
                .all(|action| matches!(action, HangAction::Print(_)))
        );
    }
}

#[test]
fn a_rank_that_hangs_repeatedly_at_one_place_ends_the_job() {
    let mut watch = watch(true);
    let mut hang = || {
        let waits = || in_call("MPI_Barrier");
        watch.forget(RANKS[1]);
        report(&mut watch, [waits(), in_call("MPI_Recv"), waits(), waits()])
    };
    for _ in 0..MAX_REPLACEMENTS {
        assert_eq!(hang().last(), Some(&HangAction::Replace(RANKS[1])));
    }
    assert_eq!(hang().last(), Some(&HangAction::GiveUp));
}

#[test]
fn large_classes_are_counted() {
    let members: Vec<_> = (0..1023).map(ProcessNumber).collect();
    assert_eq!(
        describe(&in_call("MPI_Recv"), &members, |_| String::new()),
        "1023 ranks are in MPI_Recv at solver+0x4f2c"
    );
    assert_eq!(in_words(Duration::from_millis(1500)), "1.5 s");
    assert_eq!(in_words(Duration::from_secs(30)), "30 s");
}
