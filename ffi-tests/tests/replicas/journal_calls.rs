//! Event files report the calls in the set-up logs.

use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Outcome, Verdicts, paths, plain_commands};
use std::collections::BTreeMap;
use understudy_formats::events::{JournalCalls, Kind};

const WORKERS: u32 = 4;

fn journals(outcome: &Outcome) -> Vec<JournalCalls> {
    let records = outcome
        .event_ranks()
        .into_iter()
        .flat_map(|rank| outcome.events(rank));
    let tables = records.filter_map(|record| match record.kind {
        Kind::JournalCalls { calls } => Some(calls),
        _ => None,
    });
    tables.collect()
}

/// Fails unless `understudy inspect` lists a call site in this file.
fn assert_inspected(outcome: &Outcome, file: &str) {
    let directory = outcome.event_directory();
    let arguments = ["inspect", &directory.to_string_lossy()];
    let ran = plain_commands::run(paths::product("understudy"), &arguments, &[], false);
    let text = String::from_utf8_lossy(&ran.stdout);
    let is_site = |line: &str| line.contains("  MPI_Alltoallv at ") && line.ends_with(file);
    outcome.check(
        ran.status.success()
            && text.contains("set-up logs of 4 workers")
            && text.lines().any(is_site),
        &format!("`understudy inspect` lists no call site in {file}:\n{text}"),
    );
}

/// Makes a job whose set-up log ends after the set-up of the gather-scatter library.
fn recorded(case: &TestProgram) -> Job {
    case.job()
        .env("UNDERSTUDY_STATIC", "replay")
        .env("UNDERSTUDY_INIT_END", "MPI_Allreduce#7")
}

#[test]
#[ignore = "a variant: make test-all"]
fn journals_add_up() {
    let mut verdicts = Verdicts::default();
    for case in [programs::cg_shared(), programs::sem()] {
        let outcome = recorded(&case).run();
        verdicts.judge(case.name, || {
            outcome.assert_success();
            let tables = journals(&outcome);
            outcome.check(
                tables.len() == WORKERS as usize,
                "not every worker has reported its calls",
            );
            let trials: BTreeMap<_, _> = outcome
                .event_ranks()
                .into_iter()
                .flat_map(|rank| outcome.events(rank))
                .filter_map(|record| match record.kind {
                    Kind::TrialReplay {
                        worker, journal, ..
                    } => Some((worker, journal)),
                    _ => None,
                })
                .collect();
            for table in &tables {
                let mut sum = table.others;
                table.rows.iter().for_each(|row| sum += row.calls);
                outcome.check(
                    sum == table.journal,
                    &format!("{sum:?} instead of {:?}", table.journal),
                );
                outcome.check(
                    sum.count > 10 && sum.bytes > 500,
                    "hardly anything was recorded",
                );
                outcome.check(
                    table
                        .rows
                        .is_sorted_by_key(|row| std::cmp::Reverse(row.calls.bytes)),
                    "the rows are not sorted",
                );
                // The job may end before every worker has had its trial replay.
                outcome.check(table.kept.is_some(), "a log was abandoned");
                let kept = trials.get(&table.worker).copied().or(table.kept);
                outcome.check(
                    kept == table.kept,
                    &format!("{kept:?} instead of {:?}", table.kept),
                );
            }
            let has = |procedure: &str, place: &str| {
                let mut rows = tables.iter().flat_map(|table| &table.rows);
                rows.any(|row| row.procedure == procedure && row.place.contains(place))
            };
            let in_library = if case.name.contains("shared") {
                "(libgs.so)"
            } else {
                "(sem)"
            };
            outcome.check(
                has("MPI_Alltoallv", in_library),
                &format!("the library's calls are not listed: {:#?}", tables[0]),
            );
            assert_inspected(&outcome, in_library);
        });
    }
    verdicts.assert_all_good();
}

/// Workers also report the calls of a set-up log that has exceeded its limit.
///
/// The table of calls is needed most in this case.
#[test]
#[ignore = "a variant: make test-all"]
fn an_abandoned_journal_reports_its_calls() {
    let case = programs::sem();
    let limited = recorded(&case).env("UNDERSTUDY_JOURNAL_LIMIT", "1000");
    let outcome = limited.run();
    outcome.assert_success();
    let tables = journals(&outcome);
    println!(
        "{:?}",
        tables
            .iter()
            .map(|table| (table.kept, table.journal))
            .collect::<Vec<_>>()
    );
    outcome.check(
        !tables.is_empty()
            && tables
                .iter()
                .all(|table| table.kept.is_none() && table.journal.bytes > 1000),
        &format!("{tables:#?}"),
    );
}
