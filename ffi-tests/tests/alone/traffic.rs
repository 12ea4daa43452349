//! What event files tell of the program's messages, and of what its journals are made of, is exactly what it has done.

use ckptd::events::{Amount, CommTraffic, EndHow, JournalCalls, Kind, Traffic};
use ffi_tests::command::Understudy;
use ffi_tests::job::Scope;
use ffi_tests::programs::{self, Case, prints};
use ffi_tests::shared::native;
use ffi_tests::{Job, Outcome, Trigger, Verdicts, place};
use std::collections::BTreeMap;

const WORKERS: u32 = 4;
const ROUNDS: u64 = 200;
const BYTES: u64 = 1000;

fn talk() -> Case {
    prints("talk", || {
        Job::new(
            place::test_program("talk"),
            &[&ROUNDS.to_string(), &BYTES.to_string()],
        )
        .workers(WORKERS)
        .interval("20calls")
    })
}

fn amount(count: u64, bytes: u64) -> Amount {
    Amount { count, bytes }
}

/// What `talk` hands over in MPI_COMM_WORLD's collectives; its source has the sizes.
fn collectives(worker: u64) -> Amount {
    // An Allreduce of a double, an Iallreduce of two integers, and every fourth time a Bcast of three.
    let rounds = ROUNDS * (8 + 8) + ROUNDS / 4 * 12;
    // Gather, Gather in place, Alltoall, Alltoallv, Alltoallw, Reduce, Reduce_scatter_block, Reduce_scatter, Scan, Exscan.
    let same = 20 + 24 + 16 + 40 + 48 + 12 + 64 + 40 + 4 + 4;
    // Allgatherv, the same in place, Gatherv.
    let by_rank = 3 * 4 * (worker + 1);
    let as_root = match worker {
        0 => 40, // Scatterv
        3 => 64, // Scatter
        _ => 0,
    };
    amount(3 * ROUNDS + 16, rounds + same + by_rank + as_root)
}

/// What worker `worker` has sent when `talk` is over.
fn expected(worker: u64) -> Traffic {
    let comm = |id: u64, name: &str, size, messages, collectives| CommTraffic {
        id,
        name: name.into(),
        size,
        remote: None,
        messages,
        collectives,
    };
    let none = Amount::default();
    let mut peers = [
        (
            (worker + 1) % 4,
            amount(2 * ROUNDS, ROUNDS * (BYTES + 3000)),
        ),
        ((worker + 3) % 4, amount(ROUNDS, ROUNDS * 16)),
        ((worker + 2) % 4, amount(ROUNDS, ROUNDS * 4)),
        (worker, amount(ROUNDS, ROUNDS * 5)),
    ];
    peers.sort_unstable();
    let peer = |(to, messages): (u64, Amount)| ckptd::events::PeerTraffic {
        to: ckptd::events::Worker(to as u32),
        messages,
    };
    // The first member of each half has chosen its number.
    let half = ((worker % 2) << 40) | 1;
    Traffic {
        worker: ckptd::events::Worker(worker as u32),
        peers: peers.map(peer).to_vec(),
        other_peers: none,
        comms: vec![
            comm(
                0,
                "MPI_COMM_WORLD",
                4,
                amount(3 * ROUNDS, ROUNDS * (BYTES + 3000 + 16)),
                collectives(worker),
            ),
            comm(
                half,
                "halves",
                2,
                amount(ROUNDS, ROUNDS * 4),
                amount(ROUNDS + 1, ROUNDS * 4 + 8),
            ),
            comm(
                u64::MAX,
                "MPI_COMM_SELF",
                1,
                amount(ROUNDS, ROUNDS * 5),
                none,
            ),
            // Neighbor_allgather, _alltoall, _alltoallv, _alltoallw.
            comm(2, "", 4, none, amount(4, 12 + 16 + 12 + 8)),
        ],
        other_comms: Default::default(),
        undone: none,
    }
}

/// The last records of those who have come to the end.
fn last(outcome: &Outcome) -> Vec<Traffic> {
    let mut last = BTreeMap::new();
    for rank in outcome.event_ranks() {
        let records = outcome.events(rank);
        let is_end = |kind: &Kind| {
            matches!(
                kind,
                Kind::End {
                    how: EndHow::Finalized
                }
            )
        };
        if !records.iter().any(|record| is_end(&record.kind)) {
            continue;
        }
        for record in records {
            if let Kind::Traffic(traffic) = record.kind {
                last.insert(traffic.worker, traffic);
            }
        }
    }
    last.into_values().collect()
}

/// Messages that were undone by rollbacks; the rest must be as it is without.
fn assert_as_undisturbed(outcome: &Outcome) -> Vec<Amount> {
    outcome.assert_success();
    outcome.assert_like(&native(talk().job()), &[]);
    let mut found = last(outcome);
    let undone = found
        .iter_mut()
        .map(|traffic| std::mem::take(&mut traffic.undone))
        .collect();
    for (worker, traffic) in (0..).zip(&mut found) {
        // Which row comes first is not promised.
        traffic.comms.sort_by_key(|comm| comm.id);
        let mut expected = expected(worker);
        expected.comms.sort_by_key(|comm| comm.id);
        outcome.check(
            *traffic == expected,
            &format!("{traffic:#?}\ninstead of\n{expected:#?}"),
        );
    }
    outcome.check(found.len() == WORKERS as usize, "not every worker has told");
    undone
}

#[test]
fn the_matrix_is_what_the_program_has_sent() {
    let outcome = talk().job().run();
    let undone = assert_as_undisturbed(&outcome);
    outcome.check(undone == [Amount::default(); 4], "something was undone");
    let directory = outcome.event_directory();
    let ran = Understudy::new(&directory, &["inspect", "."]).run();
    ran.assert(0, &[]);
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    for words in [
        "      0    1    2    3\n     0  200  400  200  200\n     1  200  200  400  200\n     2  200  200  200  400\n     3  400  200  200  200\n",
        "     0     1000 B  781.2 KiB      800 B    3.1 KiB\n",
    ] {
        outcome.check(text.contains(words), &format!("no\n{words}in\n{text}"));
    }
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    // Workers 0 and 2: 200 Allgathers of 4 bytes and a Reduce of 8 each.
    for line in [
        "halves (communicator 1 of worker 0) 2 400 1.6 KiB 402 1.6 KiB",
        "MPI_COMM_SELF 1 800 3.9 KiB 0 0 B",
        "communicator 2 of worker 0 4 0 0 B 16 192 B",
    ] {
        outcome.check(
            lines.iter().any(|other| other == line),
            &format!("no `{line}` in\n{text}"),
        );
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_rollback_takes_counts_back() {
    let mut verdicts = Verdicts::default();
    // A checkpoint every ten rounds, of five messages each: all of them are undone if the next one does not come.
    let ten_rounds = amount(10 * 5, 10 * (BYTES + 3000 + 16 + 4 + 5));
    let none = Amount::default();
    for (fault, dead, undone) in [
        (
            "kill rank=1 at=cut.begin epoch=9",
            &[1][..],
            Some([ten_rounds, none, ten_rounds, ten_rounds]),
        ),
        (
            "kill rank=0 at=commit.end epoch=5; kill rank=3 at=capture.end epoch=12",
            &[0, 3],
            None,
        ),
        ("kill rank=2 at=finalize.begin", &[2], Some([none; 4])),
    ] {
        let outcome = talk().job().spares(dead.len() as u32).fault(fault).run();
        verdicts.judge(fault, || {
            outcome.assert_taken_over(dead);
            let found = assert_as_undisturbed(&outcome);
            println!("{fault}: undone {found:?}");
            outcome.check(
                undone.is_none_or(|undone| found == undone),
                &format!("undone {found:?} instead of {undone:?}"),
            );
        });
    }
    verdicts.assert_all_good();
}

/// Counts are saved with the epochs on disk, too.
#[test]
#[ignore = "a variant: make test-all"]
fn a_job_that_goes_on_from_the_disk_goes_on_counting() {
    let job = || talk().job().disk();
    let at = Trigger::OnDisk {
        workers: 4,
        epoch: 20,
    };
    let mut first = job().killed_as_a_whole(at, Scope::Everything).run();
    let second = job().env("UNDERSTUDY_RESTART", "1").run_after(&mut first);
    second.assert_success();
    let goes_on = |line: &&str| line.contains("the job goes on from epoch");
    second.check(second.own_lines().iter().any(goes_on), "it began anew");
    println!("{:?}", second.own_lines());
    let found = last(&second);
    let sums: Vec<Vec<_>> = found.iter().map(|traffic| traffic.peers.clone()).collect();
    let all: Vec<Vec<_>> = (0..4).map(|worker| expected(worker).peers).collect();
    second.check(sums == all, &format!("{sums:?}"));
}

fn journals(outcome: &Outcome) -> Vec<JournalCalls> {
    let records = outcome
        .event_ranks()
        .into_iter()
        .flat_map(|rank| outcome.events(rank));
    let tables = records.filter_map(|record| match record.kind {
        Kind::JournalCalls(calls) => Some(calls),
        _ => None,
    });
    tables.collect()
}

/// With a journal that ends after the set-up of the library for gather and scatter, which has the first two Allreduces.
fn recorded(case: &Case) -> Job {
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
                "not every worker has told",
            );
            let rehearsed: BTreeMap<_, _> = outcome
                .event_ranks()
                .into_iter()
                .flat_map(|rank| outcome.events(rank))
                .filter_map(|record| match record.kind {
                    Kind::Rehearsal {
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
                    "they are not sorted",
                );
                // Not all may have been rehearsed before the end.
                outcome.check(table.kept.is_some(), "it was given up");
                let kept = rehearsed.get(&table.worker).copied().or(table.kept);
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
                &format!("the library's calls are not told: {:#?}", tables[0]),
            );
        });
    }
    verdicts.assert_all_good();
}

/// A journal that is too long is the one whose table is wanted most.
#[test]
#[ignore = "a variant: make test-all"]
fn a_journal_that_is_given_up_tells_of_its_calls() {
    let case = programs::sem();
    let limited = recorded(&case).env("UNDERSTUDY_LOG_LIMIT", "1000");
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
