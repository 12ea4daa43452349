//! Programs that use one unusual feature each, undisturbed and with failures.
//!
//! The programs are in `programs/table`. Each is run with a failure of worker 1 while there is one
//! spare, and with a failure of worker 0 and no spare. Output and files are compared with a run
//! without understudy. `make test-all` adds an undisturbed run, and all failures of a line with and
//! without a spare. A line may change other settings.

use Expected::{Recovered, Unprotected};
use ffi_tests::native_runs::native;
use ffi_tests::{Job, Outcome, REFUSED, is_thorough, paths, variants};

/// Expected result of the runs of a program.
enum Expected {
    /// The output equals that of the run without understudy.
    Recovered,
    /// The job cannot be protected; one line has these words.
    ///
    /// The program runs unprotected or, with UNDERSTUDY_REQUIRE=1, the job stops.
    #[expect(dead_code, reason = "until a line of the table says so")]
    Unprotected(&'static [&'static str]),
}

/// Pause after each round, in milliseconds; failures occur at calls.
const PAUSE: &str = "0";

/// A program of the table, and the settings of its runs.
struct Line {
    program: &'static str,
    expected: Expected,
    /// Workers that fail, each at its communication call of this number.
    failures: &'static [(u32, u32)],
    workers: u32,
    interval: &'static str,
    /// Number of rounds of the program; failures occur before the last round.
    rounds: &'static str,
    /// True if checkpoints are also written to disk.
    is_on_disk: bool,
}

impl Line {
    const fn new(program: &'static str, expected: Expected) -> Line {
        Line {
            program,
            expected,
            failures: &[(1, 23), (0, 31)],
            workers: 3,
            interval: "5calls",
            rounds: "16",
            is_on_disk: false,
        }
    }

    fn job(&self) -> Job {
        let path = paths::test_program(&format!("table/{}", self.program));
        let job = Job::new(path, &[self.rounds, PAUSE]);
        let job = job.workers(self.workers).interval(self.interval);
        if self.is_on_disk { job.disk() } else { job }
    }

    fn undisturbed(&self) {
        let outcome = self.job().run();
        outcome.assert_success();
        outcome.assert_same_lines(&native(self.job()));
        outcome.assert_same_files(&native(self.job()));
        outcome.assert_nothing_left();
        outcome.assert_checks();
        if let Unprotected(words) = self.expected {
            assert_unprotected(&outcome, words);
        }
    }

    /// Runs the program with each failure of the line; unless thorough, with one of them.
    ///
    /// Unless thorough, the first failure is taken, or without spares the second failure.
    fn with_failures(&self, spares: u32) {
        let first = match spares {
            0 if !is_thorough() => 1,
            _ => 0,
        };
        for (worker, call) in variants(&self.failures[first..], 1) {
            let job = self.job().spares(spares);
            match self.expected {
                Recovered => {
                    let fault = format!("kill rank={worker} at=call:{call}");
                    let outcome = job.fault(&fault).run();
                    outcome.assert_all_recovered(&native(self.job()), &[*worker]);
                    let is_written = !outcome.stderr.contains("[checkpoints-not-written]");
                    outcome.check(is_written, "the disk level failed");
                }
                Unprotected(words) => {
                    let outcome = job.env("UNDERSTUDY_REQUIRE", "1").run();
                    outcome.assert_single_line(words);
                    outcome.assert_status(REFUSED);
                    outcome.assert_nothing_left();
                }
            }
        }
    }
}

fn assert_unprotected(outcome: &Outcome, words: &[&str]) {
    outcome.assert_single_line(words);
    outcome.assert_single_line(&["unprotected"]);
}

/// Makes three tests of each line.
macro_rules! table {
    ($($program:ident: $expected:expr $(, $setting:ident = $value:expr)*;)*) => {$(
        mod $program {
            use super::*;

            const LINE: Line = Line {
                $($setting: $value,)*
                ..Line::new(stringify!($program), $expected)
            };

            #[test]
            #[ignore = "a variant: make test-all"]
            fn undisturbed() {
                LINE.undisturbed();
            }

            #[test]
            fn with_a_spare() {
                LINE.with_failures(1);
            }

            #[test]
            #[ignore = "a variant: make test-all"]
            fn without_a_spare() {
                LINE.with_failures(0);
            }
        }
    )*};
}

table! {
    cancellations: Recovered;
    child_files: Recovered, rounds = "8";
    children: Recovered, rounds = "12";
    clearing: Recovered;
    coroutines: Recovered;
    cpu_clocks: Recovered;
    datareps: Recovered;
    dlopen_loop: Recovered;
    duplicates: Recovered, failures = &[(1, 23), (0, 31), (1, 42)];
    events: Recovered;
    executes: Recovered;
    filelocks: Recovered, failures = &[(1, 31), (0, 42), (1, 35), (0, 38)], is_on_disk = true;
    growing: Recovered;
    in_place: Recovered, workers = 4;
    kernel_aio: Recovered;
    lock_waiters: Recovered;
    orphans: Recovered;
    signal_values: Recovered;
    libc_opens: Recovered;
    libc_threads: Recovered;
    listeners: Recovered;
    loopback_pairs: Recovered;
    inodes: Recovered;
    memory_advice: Recovered;
    memory_policies: Recovered;
    path_descriptors: Recovered;
    process_attributes: Recovered;
    posix_queues: Recovered;
    proc_files: Recovered;
    resizing: Recovered;
    scratch: Recovered;
    sealed_memory: Recovered;
    socket_pairs: Recovered;
    system_v: Recovered;
    waits_in_kernel: Recovered;
    within: Recovered, failures = &[(1, 221), (0, 231), (2, 261)], interval = "53calls";
}
