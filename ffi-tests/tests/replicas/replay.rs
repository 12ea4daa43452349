//! Replicas without static data: a replay of the set-up phase rebuilds these data.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram, prints, setup};
use ffi_tests::reduced_replicas::{
    ALL_REDUCED, LOST, WORKERS, assert_like_undisturbed, assert_workers_recover, elided_pages, job,
    rebuilt,
};
use ffi_tests::{Job, Kill, Outcome, Trigger, Verdicts, paths, variants};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use understudy_formats::events::{EventReader, Kind, ProcessNumber, file_name};

#[test]
#[ignore = "a variant: make test-all"]
fn heat2d_is_recovered_from_reduced_replicas() {
    assert_workers_recover(&programs::heat2d(), 30);
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_and_its_library_are_recovered_from_reduced_replicas() {
    assert_workers_recover(&programs::cg(), 200);
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_with_a_shared_library_is_recovered_from_reduced_replicas() {
    assert_workers_recover(&programs::cg_shared(), 200);
}

#[test]
#[ignore = "a variant: make test-all"]
fn sem_is_recovered_from_reduced_replicas() {
    assert_workers_recover(&programs::sem(), 400);
}

#[test]
#[ignore = "a variant: make test-all"]
fn lammps_is_recovered_from_reduced_replicas() {
    if let Some(case) = programs::lammps() {
        assert_workers_recover(&case, 100);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_replacement_may_fail_after_it_has_taken_over() {
    let case = programs::heat2d();
    let outcome = job(&case)
        .spares(2)
        .kill(Kill::at(1, ALL_REDUCED))
        .kill(
            Kill::at(
                WORKERS,
                Trigger::Resume {
                    rank: WORKERS,
                    recovery: 1,
                },
            )
            .after(Duration::from_millis(40)),
        )
        .run();
    assert_like_undisturbed(&outcome, &case);
    let pages = [WORKERS, WORKERS + 1].map(|spare| rebuilt(&outcome, spare));
    outcome.check(
        pages.iter().all(|&pages| pages > 30),
        &format!("pages rebuilt: {pages:?}"),
    );
}

#[test]
fn another_process_may_die_while_static_data_are_rebuilt() {
    let case = programs::heat2d();
    let mut verdicts = Verdicts::default();
    // The replacement of worker 2, the buddy of worker 2, and another worker.
    let [replacement, buddy, other] = [WORKERS, 3, 0];
    let deaths = [
        (replacement, "fetch"),
        (buddy, "load"),
        (other, "replace"),
        (replacement, "load"),
        (buddy, "replace"),
        (other, "fetch"),
        (replacement, "replace"),
        (buddy, "fetch"),
        (other, "load"),
    ];
    for (rank, stage) in variants(deaths, 2) {
        let fault = format!("kill rank=2 at=cut.begin epoch=12; kill rank={rank} at={stage}");
        let outcome = job(&case).spares(2).fault(&fault).run();
        let lost = outcome
            .own_lines()
            .iter()
            .any(|line| line.contains("which stored its only replica"));
        println!("{fault}: {:?}, lost {lost}", outcome.wall);
        verdicts.judge(&fault, || {
            if rank == buddy && lost {
                outcome.assert_status(LOST);
            } else {
                assert_like_undisturbed(&outcome, &case);
            }
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn what_is_not_the_same_twice_stays_in_the_copies() {
    assert_workers_recover(
        &setup(|| Job::new(paths::test_program("setup"), &["3000"])),
        100,
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn what_cannot_be_replayed_stays_in_the_copies() {
    let case = setup(|| Job::new(paths::test_program("setup"), &["3000", "process"]));
    let outcome = job(&case).fault("kill rank=1 at=cut.begin epoch=40").run();
    assert_like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
    outcome.check(
        elided_pages(&outcome, 1) == (0, 0),
        "the replica was reduced",
    );
}

/// Changes files of a running job and kills worker 1 at a moment.
fn run_with_changed_files(
    job: Job,
    at: Trigger,
    change: fn(&Path) -> std::io::Result<()>,
) -> Outcome {
    let mut is_done = false;
    job.watch(move |ranks| {
        let work = PathBuf::from(format!("/proc/{}/cwd", ranks[&0].pid));
        let events = work.join("../events");
        if !is_done && at.is_reached(&events, &events) {
            is_done = change(&work).is_ok() && ffi_tests::processes::kill(ranks[&1].pid);
        }
        is_done
    })
    .run()
}

/// Files change that the set-up phase has inspected; static data are rebuilt all the same.
///
/// The set-up log has the answers to queries of file properties.
#[test]
fn files_that_were_inspected_may_appear_change_and_disappear() {
    let case = prints("files", || {
        let job = Job::new(paths::test_program("phase"), &["3000", "files"]);
        job.input("status", "0.25 is the status\n")
            .input("gone", "some bytes")
    });
    let outcome = run_with_changed_files(job(&case), ALL_REDUCED, |work| {
        ["STOP", "restart", "parameters"]
            .iter()
            .try_for_each(|name| fs::write(work.join(name), "1"))?;
        fs::write(work.join("status"), "7.5 is the status now\n")?;
        fs::remove_file(work.join("gone"))
    });
    outcome.assert_recovered(&native(case.job()), &[], &[1]);
    outcome.check(
        rebuilt(&outcome, WORKERS) > 100,
        "too few pages were rebuilt",
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn input_may_change_that_was_read() {
    let case = setup(|| {
        let numbers = "0.5 0.25 0.125 0.0625\n";
        Job::new(paths::test_program("setup"), &["3000", "input"]).input("input", numbers)
    });
    let outcome = run_with_changed_files(job(&case), ALL_REDUCED, |work| {
        fs::write(work.join("input"), "0.5 0.25 0.125 0.5\n")
    });
    assert_like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
    outcome.check(
        rebuilt(&outcome, WORKERS) > 100,
        "too few pages were rebuilt",
    );
}

/// Returns a program whose input exceeds the size that may be recorded.
fn reader_of_much() -> TestProgram {
    prints("large", || {
        let numbers: String = (0..20000).map(|number| format!("{number:.6} ")).collect();
        Job::new(paths::test_program("phase"), &["6000", "large"])
            .input("large", &numbers)
            .env("UNDERSTUDY_JOURNAL_LIMIT", "20000")
    })
}

/// The last checkpoint that worker 1 has committed.
fn committed(events: &Path) -> u64 {
    let records = EventReader::open(&events.join(file_name(ProcessNumber(1))));
    let epochs = records.into_iter().flatten().flatten();
    let epochs = epochs.filter_map(|record| match record.kind {
        Kind::Commit { epoch, .. } => Some(epoch.0),
        _ => None,
    });
    epochs.max().unwrap_or(0)
}

#[test]
fn long_input_that_changes_brings_the_data_back_into_the_copies() {
    let case = reader_of_much();
    let (mut is_changed, mut noticed) = (false, None);
    let job = job(&case)
        .env("UNDERSTUDY_LOG", "warn")
        .watch(move |ranks| {
            let work = PathBuf::from(format!("/proc/{}/cwd", ranks[&0].pid));
            let root = work.join("..");
            let events = root.join("events");
            if !is_changed && ALL_REDUCED.is_reached(&events, &events) {
                is_changed = fs::write(work.join("large"), "1 2 3").is_ok();
            }
            let stderr = fs::read_to_string(root.join("stderr")).unwrap_or_default();
            if is_changed
                && noticed.is_none()
                && stderr.matches("has changed").count() >= WORKERS as usize
            {
                noticed = Some(committed(&events));
            }
            // All workers have committed the checkpoint that contains all pages again.
            noticed.is_some_and(|before| committed(&events) > before + 2)
                && ffi_tests::processes::kill(ranks[&1].pid)
        });
    let outcome = job.run();
    outcome.assert_recovered(&native(case.job()), &[], &[1]);
    outcome.check(
        rebuilt(&outcome, WORKERS) == 0,
        "pages were rebuilt although the replica has them",
    );
}

#[test]
fn long_input_that_has_just_changed_is_noticed() {
    let case = reader_of_much();
    let change = |job: Job| {
        let job = job.interval("1h").env("UNDERSTUDY_INIT_END", "auto");
        let just_reduced = Trigger::JustReduced { workers: WORKERS };
        run_with_changed_files(job, just_reduced, |work| {
            fs::write(work.join("large"), "1 2 3")
        })
    };
    // With a persistent replica store, the replacement would not need the input.
    let lost = change(job(&case).fault("pretend no-memfd"));
    lost.assert_line(&["static data cannot be rebuilt", "has changed"]);
    lost.assert_status(LOST);
    let from_disk = run_with_changed_files(job(&case).disk(), ALL_REDUCED, |work| {
        fs::write(work.join("large"), "1 2 3")
    });
    from_disk.assert_success();
    from_disk.assert_like(&native(case.job()), &[]);
}
