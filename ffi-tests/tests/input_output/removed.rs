//! Files that are removed or replaced while the program has them mapped or open.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Outcome, Requirement, paths, skip, variants};
use std::fs;
use std::path::Path;
use std::process::Command;

const STEPS: &str = "40";

fn removed(mode: &str) -> Job {
    Job::new(paths::test_program("removed"), &[mode, STEPS]).interval("5calls")
}

/// Kills a worker in the step of this number, before the collective of the step.
fn killed(job: Job, worker: u32, step: u32) -> Job {
    job.fault(&format!("kill rank={worker} at=call:{step}"))
}

/// Fails unless the job is undisturbed by each of these failures.
fn assert_survived(mode: &str, deaths: &[(u32, u32)]) {
    let undisturbed = native(removed(mode));
    for (worker, step) in variants(deaths.iter().copied(), 1) {
        let outcome = killed(removed(mode), worker, step).run();
        outcome.assert_all_recovered(&undisturbed, &[worker]);
    }
}

/// Fails unless protection ends with a line that has these words, and the job completes.
fn assert_refused(mode: &str, words: &[&str]) {
    let outcome = removed(mode).run();
    outcome.assert_single_line(words);
    outcome.assert_single_line(&["unprotected"]);
    outcome.assert_success();
    outcome.assert_same_lines(&native(removed(mode)));
}

/// Copies the program; a run replaces the copy by another file.
fn own_program(directory: &Path) -> Job {
    let copy = directory.join("program");
    std::fs::copy(paths::test_program("removed"), &copy).expect("there is room");
    Job::new(copy, &["program", STEPS]).interval("5calls")
}

/// A worker fails after the program's file was replaced, before or after the next checkpoint.
///
/// Until that checkpoint, the survivors have the old file mapped. After it, the replicas contain
/// the program's text.
#[test]
fn a_program_that_is_replaced_while_it_runs_continues() {
    let directory = tempfile::tempdir().expect("there is room");
    let undisturbed = own_program(directory.path()).native().run();
    for (worker, step) in [(1, 20), (2, 28)] {
        let outcome = killed(own_program(directory.path()), worker, step).run();
        outcome.assert_all_recovered(&undisturbed, &[worker]);
    }
}

#[test]
fn private_mappings_of_removed_files_are_restored() {
    assert_survived("private", &[(1, 23), (2, 14), (0, 31)]);
}

/// A failure before the next checkpoint ends the job; a later one is recovered from.
#[test]
fn a_mapped_file_that_is_replaced_is_not_taken_for_the_old_one() {
    let outcome = killed(removed("late"), 1, 19).run();
    // Another line names the program that has replaced the file.
    outcome.assert_line(&["removed.1\" has been replaced while the job ran"]);
    outcome.assert_status(74);
    outcome.assert_nothing_left();
    assert_survived("late", &[(1, 28), (2, 33)]);
}

/// A child process replaces a mapped file; the rollback restores the old file.
#[test]
fn a_mapped_file_that_a_child_process_replaces_is_restored() {
    assert_survived("child", &[(1, 19), (2, 18), (1, 28)]);
}

#[test]
fn mappings_for_reading_of_removed_files_are_restored() {
    assert_survived("read", &[(1, 23), (2, 14), (0, 31)]);
}

/// Survivors have unmapped one of two mappings since the checkpoint, and must map it again.
#[test]
fn two_mappings_of_one_file_in_memory_stay_one() {
    assert_survived("twice", &[(1, 19), (2, 28), (0, 24), (1, 9)]);
}

#[test]
fn a_file_in_memory_that_is_open_and_mapped_is_refused() {
    assert_refused("open", &["memfd:removed", "open and mapped"]);
}

#[test]
fn huge_pages_of_a_pool_are_refused() {
    if !Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB").exists() {
        return skip(
            Requirement::Machine,
            "this kernel has no huge pages of 2 MiB",
        );
    }
    assert_refused("huge", &["huge pages", "MAP_HUGETLB"]);
}

#[test]
fn protection_keys_are_refused() {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !processor.contains(" ospke") {
        return skip(
            Requirement::Machine,
            "this processor has no protection keys",
        );
    }
    assert_refused("keys", &["protection keys", "pkey_alloc"]);
    // A survivor is rolled back while it may not access some of its memory.
    let outcome = killed(removed("keys16"), 1, 19).run();
    outcome.assert_all_recovered(&native(removed("keys16")), &[1]);
}

/// Floating-point operations of understudy must not raise signals that the program requests.
#[test]
fn a_program_that_wants_signals_for_inexact_results_is_protected() {
    assert_survived("inexact", &[(1, 23), (2, 14)]);
}

/// A worker fails after an open file of rank 0 was renamed; no byte differs.
#[test]
fn an_open_file_that_is_renamed_stays_open() {
    let undisturbed = native(removed("renamed"));
    for (worker, step) in variants([(1, 19), (0, 28)], 1) {
        let outcome = killed(removed("renamed"), worker, step).run();
        outcome.assert_success();
        outcome.assert_same_lines(&undisturbed);
        outcome.check(
            outcome.file("renamed.txt") == undisturbed.file("renamed.txt"),
            "renamed.txt differs",
        );
        outcome.assert_taken_over(&[worker]);
        outcome.assert_nothing_left();
    }
}

/// Runs a program that prints addresses, with `more` bytes added to the loader's cache.
///
/// The launcher runs in its own mount namespace, which contains that cache.
fn places_with_cache(directory: &Path, more: usize) -> Outcome {
    let (cache, launcher) = (directory.join("cache"), directory.join("mpirun"));
    let mut content = fs::read("/etc/ld.so.cache").expect("ldconfig has made it");
    content.resize(content.len() + more, 0);
    fs::write(&cache, content).expect("a directory of ours");
    let mount = "mount --bind \"$0\" /etc/ld.so.cache && exec \"$@\"";
    let launch = format!(
        "#!/bin/sh\nexec unshare --mount sh -c '{mount}' {} {} --oversubscribe \"$@\"\n",
        cache.display(),
        paths::mpirun().display()
    );
    paths::script(&launcher, &launch);
    let outcome = Job::new(paths::test_program("places"), &[])
        .workers(1)
        .mpirun(&launcher)
        .run();
    outcome.assert_success();
    outcome
}

/// The dynamic loader maps its cache before the libraries.
///
/// The size of the cache changes when a package is installed after the start of the job.
#[test]
fn libraries_lie_at_the_same_places_whatever_the_size_of_the_loaders_cache() {
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return skip(
            Requirement::Namespaces,
            "there are no mount namespaces here, or no right to make one",
        );
    }
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let [small, large] = [0, 100 << 10].map(|more| places_with_cache(directory.path(), more));
    small.check(
        small.stdout.starts_with(b"2 opened"),
        "libraries were not opened",
    );
    large.check(large.stdout == small.stdout, "libraries lie elsewhere");
}
