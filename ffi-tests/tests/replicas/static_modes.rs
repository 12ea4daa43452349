//! `UNDERSTUDY_STATIC=disk` and `auto`: other ways to restore data that are set up once.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram, setup};
use ffi_tests::reduced_replicas::{
    self, ALL_REDUCED, WORKERS, assert_like_undisturbed, assert_lost, elided_pages, rebuilt,
};
use ffi_tests::{Job, Kill, KillScope, Outcome, Trigger, Verdicts, paths, variants};
use std::fs;
use std::path::{Path, PathBuf};
use understudy_formats::events::Kind;

fn on_disk(case: &TestProgram) -> Job {
    reduced_replicas::job(case)
        .env("UNDERSTUDY_STATIC", "disk")
        .disk()
}

/// Prevents checkpoints on disk, so that only replicas in memory can be restored.
fn without_epochs(job: Job) -> Job {
    job.env("UNDERSTUDY_DISK_EVERY", "1000000")
}

fn assert_nothing_on_disk(outcome: &Outcome) {
    let left = fs::read_dir(outcome.disk()).map_or(0, Iterator::count);
    outcome.check(left == 0, "files are left on disk");
}

#[test]
fn static_data_on_disk_are_recovered_from() {
    let mut verdicts = Verdicts::default();
    let [heat2d, cg, sem] = [programs::heat2d(), programs::cg(), programs::sem()];
    let deaths = [
        (&heat2d, 2),
        (&sem, 0),
        (&cg, 0),
        (&heat2d, 0),
        (&cg, 2),
        (&sem, 2),
    ];
    for (case, worker) in variants(deaths, 1) {
        let outcome = without_epochs(on_disk(case))
            .kill(Kill::at(worker, ALL_REDUCED))
            .run();
        let (gone, left) = elided_pages(&outcome, worker);
        let pages = rebuilt(&outcome, WORKERS);
        println!(
            "{}: worker {worker}: {pages} pages read; {gone} gone, {left} left",
            case.name
        );
        verdicts.judge(&format!("{}, worker {worker}", case.name), || {
            assert_like_undisturbed(&outcome, case);
            outcome.assert_taken_over(&[worker]);
            outcome.check(pages >= 30, &format!("only {pages} pages were read"));
            assert_nothing_on_disk(&outcome);
        });
    }
    verdicts.assert_all_good();
}

/// Static data of a set-up phase that cannot be replayed are restored from a file.
#[test]
#[ignore = "a variant: make test-all"]
fn a_setup_that_cannot_be_replayed_may_be_on_disk() {
    let case = setup(|| Job::new(paths::test_program("setup"), &["3000", "process"]));
    let outcome = without_epochs(on_disk(&case))
        .kill(Kill::at(1, ALL_REDUCED))
        .run();
    assert_like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
    outcome.check(rebuilt(&outcome, WORKERS) > 100, "the pages were not read");
}

/// Checkpoints on disk are complete although replicas have no static data.
///
/// A restarted job writes the files of an undisturbed run.
#[test]
#[ignore = "a variant: make test-all"]
fn epochs_on_disk_are_complete() {
    let case = programs::longer_heat2d();
    let mut first = on_disk(&case)
        .killed_as_a_whole(
            Trigger::OnDisk {
                workers: WORKERS,
                epoch: 60,
            },
            KillScope::Job,
        )
        .run();
    first.check(elided_pages(&first, 1).0 > 0, "the replica was not reduced");
    let second = on_disk(&case)
        .env("UNDERSTUDY_RESTART", "1")
        .env("UNDERSTUDY_STATIC", "disk")
        .run_after(&mut first);
    second.assert_success();
    let undisturbed = native(case.job());
    for file in case.files {
        second.check(
            second.file(file) == undisturbed.file(file),
            &format!("{file} differs"),
        );
    }
    assert_nothing_on_disk(&second);
}

/// Changes a byte of each page from the third on in a worker's file.
fn damage(directory: &Path, worker: u32) {
    let ending = format!("-w{worker:05}.static");
    let names = fs::read_dir(directory)
        .expect("the directory is there")
        .flatten();
    let path: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
    let path = path
        .iter()
        .find(|path| path.to_string_lossy().ends_with(&ending));
    let path = path.expect("the worker has a file");
    let mut bytes = fs::read(path).expect("the file can be read");
    bytes
        .iter_mut()
        .skip(8192)
        .step_by(4096)
        .for_each(|byte| *byte ^= 1);
    fs::write(path, bytes).expect("the file can be written");
}

/// Damages the file of worker 1 and kills worker 1, when all replicas are reduced.
fn run_with_damage(job: Job) -> Outcome {
    let mut is_done = false;
    let watched = job.watch(move |ranks| {
        let work = PathBuf::from(format!("/proc/{}/cwd", ranks[&0].pid));
        let events = work.join("../events");
        if !is_done && ALL_REDUCED.is_reached(&events, &events) {
            damage(&work.join("../disk"), 1);
            is_done = ffi_tests::processes::kill(ranks[&1].pid);
        }
        is_done
    });
    watched.run()
}

#[test]
fn a_damaged_file_is_a_loss_or_an_epoch_on_disk() {
    let case = programs::heat2d();
    let lost = run_with_damage(without_epochs(on_disk(&case)));
    assert_lost(&lost, &["static data cannot be rebuilt", "is damaged"]);
    let saved = run_with_damage(on_disk(&case).env("UNDERSTUDY_DISK_EVERY", "5"));
    assert_like_undisturbed(&saved, &case);
}

/// Decisions of all workers on how to restore static data.
fn decisions(outcome: &Outcome) -> Vec<String> {
    let of_rank = |rank: u32| {
        let events = outcome.events(rank).into_iter();
        events.filter_map(|record| match record.kind {
            Kind::StaticData { way, .. } => Some(way),
            _ => None,
        })
    };
    (0..WORKERS).flat_map(of_rank).collect()
}

#[test]
fn auto_takes_the_way_that_works() {
    let auto = |case: &TestProgram| reduced_replicas::job(case).env("UNDERSTUDY_STATIC", "auto");
    let late = |job: Job| job.kill(Kill::at(1, Trigger::Decided { workers: WORKERS }));
    // `image` is chosen at once, in the set-up phase, where a failure would restart the phase.
    let later = |job: Job| job.kill(Kill::at(1, Trigger::Commit { rank: 1, epoch: 20 }));
    let heat2d = programs::heat2d();
    let impossible = setup(|| Job::new(paths::test_program("setup"), &["3000", "process"]));
    let runs = [
        (
            &heat2d,
            auto(&heat2d).kill(Kill::at(1, ALL_REDUCED)),
            "replay",
        ),
        (&impossible, late(auto(&impossible)), "image"),
        (
            &heat2d,
            later(auto(&heat2d).env("UNDERSTUDY_COPIES", "xor:4")),
            "image",
        ),
        (
            &heat2d,
            later(auto(&heat2d).env("UNDERSTUDY_JOURNAL_LIMIT", "10")),
            "image",
        ),
    ];
    for (case, job, way) in variants(runs, 1) {
        let outcome = job.run();
        assert_like_undisturbed(&outcome, case);
        outcome.assert_taken_over(&[1]);
        let decisions = decisions(&outcome);
        let all = decisions.len() == WORKERS as usize && decisions.iter().all(|taken| taken == way);
        outcome.check(all, &format!("{decisions:?} instead of {way}"));
        let line = format!("UNDERSTUDY_STATIC=auto uses {way}");
        let lines = outcome
            .own_lines()
            .iter()
            .filter(|text| text.contains(&line))
            .count();
        outcome.check(
            lines == 1,
            &format!("{lines} lines report the use of {way}"),
        );
    }
}

/// A job without spares rebuilds static data as well.
///
/// Trial replays need no spare, and their results are valid for a new process.
#[test]
#[ignore = "a variant: make test-all"]
fn without_a_spare_data_are_rebuilt_as_well() {
    let case = programs::heat2d();
    let outcome = reduced_replicas::job(&case)
        .spares(0)
        .kill(Kill::at(1, ALL_REDUCED))
        .run();
    assert_like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
    outcome.check(
        rebuilt(&outcome, WORKERS) > 30,
        "too few pages were rebuilt",
    );
}

/// A worker is killed before or at a trial replay, which is repeated afterwards.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_fail_before_the_trial_replays() {
    let case = programs::heat2d();
    let mut verdicts = Verdicts::default();
    for fault in [
        "kill rank=1 at=phase.end",
        "kill rank=2 at=rehearse.begin",
        "kill rank=2 at=rehearse.end",
    ] {
        let job = reduced_replicas::job(&case).env("UNDERSTUDY_STATIC", "auto");
        let outcome = job.fault(fault).run();
        verdicts.judge(fault, || {
            assert_like_undisturbed(&outcome, &case);
            outcome.check(outcome.takeovers().len() == 1, "no worker was replaced");
            let decisions = decisions(&outcome);
            let are_made = decisions.len() >= WORKERS as usize - 1;
            outcome.check(
                are_made && decisions.iter().all(|way| way == "replay"),
                &format!("{decisions:?}"),
            );
        });
    }
    verdicts.assert_all_good();
}
