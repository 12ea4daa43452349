//! Tests of death histories.

use super::*;

fn fault(signal: c_int, code: i32, places: &[u64]) -> DeathCause {
    let frame = |&offset: &u64| Frame {
        address: 0x40_0000 + offset,
        offset,
        module: "solver".into(),
    };
    DeathCause::Fault(Note {
        signal,
        code,
        address: 0,
        frames: places.iter().map(frame).collect(),
    })
}

/// Returns the index of the death that ends the job.
///
/// Each death has its worker, the epoch of the rollback, and its cause.
fn ends_at(deaths: &[(u32, u64, DeathCause)]) -> Option<usize> {
    let mut history = DeathHistory::default();
    deaths.iter().position(|(worker, epoch, cause)| {
        history.now = vec![Death {
            worker: Worker(*worker),
            process: ProcessNumber(0),
            epoch: Epoch::NONE,
            cause: cause.clone(),
        }];
        let verdict = history.judge(Epoch(*epoch));
        history.record_success(Epoch(*epoch));
        verdict.is_some()
    })
}

#[test]
fn the_third_fault_at_the_same_place_is_the_programs() {
    let crash = |offset| fault(libc::SIGSEGV, 1, &[offset, 0x900]);
    assert_eq!(
        ends_at(&[(1, 3, crash(5)), (1, 3, crash(5)), (1, 3, crash(5))]),
        Some(2)
    );
    assert_eq!(
        ends_at(&[(1, 3, crash(5)), (2, 3, crash(5)), (0, 3, crash(5))]),
        Some(2),
        "in different workers"
    );
    assert_eq!(
        ends_at(&[(1, 3, crash(5)), (1, 3, crash(6)), (1, 3, crash(5))]),
        None,
        "another place"
    );
    assert_eq!(
        ends_at(&[(1, 3, crash(5)), (1, 4, crash(5)), (1, 5, crash(5))]),
        Some(2),
        "few checkpoints"
    );
    assert_eq!(
        ends_at(&[(1, 3, crash(5)), (1, 4, crash(5)), (1, 6, crash(5))]),
        None,
        "many checkpoints"
    );
}

#[test]
fn callers_of_a_sent_signal_count() {
    let abort = |caller| fault(libc::SIGABRT, -6, &[7, caller]);
    assert_eq!(
        ends_at(&[(1, 3, abort(1)), (1, 3, abort(2)), (1, 3, abort(3))]),
        None
    );
    assert_eq!(
        ends_at(&[(1, 3, abort(1)), (2, 3, abort(1)), (1, 3, abort(1))]),
        Some(2)
    );
}

#[test]
fn kills_are_never_the_programs_and_signals_without_a_note_are() {
    let three = |cause: DeathCause| [(1, 3, cause.clone()), (1, 3, cause.clone()), (1, 3, cause)];
    assert_eq!(ends_at(&three(DeathCause::Signal(libc::SIGKILL))), None);
    assert_eq!(ends_at(&three(DeathCause::Signal(libc::SIGTERM))), None);
    assert_eq!(ends_at(&three(DeathCause::Unknown)), None);
    assert_eq!(ends_at(&three(DeathCause::Signal(libc::SIGSEGV))), Some(2));
    assert_eq!(
        ends_at(&three(fault(libc::SIGSEGV, 0, &[]))),
        None,
        "sent by another process"
    );
}

#[test]
fn a_process_that_ends_by_itself_ends_the_job() {
    let mut words = [0; RECORD_WORDS];
    words[RECORD_WORDS - 1] = 1 + (5 << 8);
    assert_eq!(
        Death::read((Worker(1), ProcessNumber(1)), &words).cause,
        DeathCause::Exited(5)
    );
    words[RECORD_WORDS - 2] = 1 + 6;
    assert_eq!(
        Death::read((Worker(1), ProcessNumber(1)), &words).cause,
        DeathCause::Exited(6)
    );
    assert_eq!(ends_at(&[(1, 3, DeathCause::Exited(6))]), Some(0));
    words = [0; RECORD_WORDS];
    assert_eq!(
        Death::read((Worker(1), ProcessNumber(1)), &words).cause,
        DeathCause::Unknown
    );
    words[RECORD_WORDS - 1] = 1 + 0x80 + libc::SIGSEGV as u64;
    assert_eq!(
        Death::read((Worker(1), ProcessNumber(1)), &words).cause,
        DeathCause::Signal(libc::SIGSEGV)
    );
}

#[test]
fn many_kills_of_one_worker_are_reported_once() {
    let mut history = DeathHistory::default();
    let reported: Vec<bool> = (0..5)
        .map(|_| {
            history.now = vec![Death {
                worker: Worker(2),
                process: ProcessNumber(0),
                epoch: Epoch::NONE,
                cause: DeathCause::Signal(libc::SIGKILL),
            }];
            history.record_success(Epoch(3)).is_some()
        })
        .collect();
    assert_eq!(reported, [false, false, true, false, false]);
}

/// An attempt has succeeded only in process 0, where process 4 is worker 2.
///
/// All processes still judge equal deaths, and reach an equal verdict.
#[test]
fn all_judge_the_same_deaths_after_an_attempt_that_has_succeeded_for_some() {
    let death = |process: u32| Death {
        worker: Worker(2),
        process: ProcessNumber(process),
        epoch: Epoch(3),
        cause: fault(libc::SIGSEGV, 1, &[5]),
    };
    let view = |deaths: &[u32], process: u32| DeathView {
        earlier: deaths.iter().map(|&it| death(it)).collect(),
        processes: vec![ProcessNumber(process)],
    };
    let views = [view(&[1, 2], 4), view(&[1], 2)];
    // Process 4 lives and is to take over again, or has also died.
    for (living, last, verdict) in [(vec![ProcessNumber(4)], 2, false), (vec![], 4, true)] {
        for own in &views {
            let mut history = DeathHistory {
                earlier: own.earlier.clone(),
                now: Vec::new(),
            };
            assert_eq!(history.agree(&views, &living), [ProcessNumber(last)]);
            history.record(vec![death(last)]);
            assert_eq!(history.judge(Epoch(3)).is_some(), verdict, "{last}");
        }
    }
}

/// A search through all living processes for each view would take minutes.
#[test]
fn the_views_of_many_processes_need_one_pass() {
    const PROCESSES: u32 = 200_000;
    let dead = ProcessNumber(PROCESSES);
    let view = || DeathView {
        earlier: Vec::new(),
        processes: vec![dead],
    };
    let views: Vec<DeathView> = (0..PROCESSES).map(|_| view()).collect();
    let living: Vec<ProcessNumber> = (0..PROCESSES).map(ProcessNumber).collect();
    let mut history = DeathHistory::default();
    assert_eq!(history.agree(&views, &living), [dead]);
}
