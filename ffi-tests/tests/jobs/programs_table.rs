//! Programs that use one unusual thing each, undisturbed and with failures: a line per program.
//!
//! The programs are in `programs/table`. Each is run three times: undisturbed, with failures of
//! workers 1 and 0 while there is one spare, and with the same failures and no spare. An undisturbed
//! run equals the run without understudy, whatever the line expects.

use Expected::{Recovered, Unprotected};
use ffi_tests::shared::native;
use ffi_tests::{Job, Outcome, REFUSED, place};

/// Result of the runs of a program in which workers fail.
enum Expected {
    /// The output equals that of the run without understudy.
    Recovered,
    /// The run goes on unprotected; one line has these words.
    ///
    /// With UNDERSTUDY_REQUIRE=1 the job stops.
    #[expect(dead_code, reason = "until a line of the table says so")]
    Unprotected(&'static [&'static str]),
}

/// Number of rounds that each program plays.
const ROUNDS: &str = "16";

/// Workers that fail, each at its communication call of this number.
const FAILURES: [(u32, u32); 2] = [(1, 23), (0, 31)];

fn job(program: &str) -> Job {
    let path = place::test_program(&format!("table/{program}"));
    Job::new(path, &[ROUNDS]).workers(3).interval("5calls")
}

fn assert_unprotected(outcome: &Outcome, words: &[&str]) {
    outcome.assert_told(words);
    outcome.assert_told(&["unprotected"]);
}

fn undisturbed(program: &str, expected: &Expected) {
    let outcome = job(program).run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(job(program)));
    outcome.assert_nothing_left();
    if let Unprotected(words) = expected {
        assert_unprotected(&outcome, words);
    }
}

fn with_failures(program: &str, expected: &Expected, spares: u32) {
    for (worker, call) in FAILURES {
        let job = job(program).spares(spares);
        match expected {
            Recovered => {
                let fault = format!("kill rank={worker} at=call:{call}");
                let outcome = job.fault(&fault).run();
                outcome.assert_success();
                outcome.assert_same_lines(&native(self::job(program)));
                outcome.assert_taken_over(&[worker]);
                outcome.assert_nothing_left();
            }
            Unprotected(words) => {
                let outcome = job.env("UNDERSTUDY_REQUIRE", "1").run();
                outcome.assert_told(words);
                outcome.assert_status(REFUSED);
                outcome.assert_nothing_left();
            }
        }
    }
}

/// Makes three tests of each line.
macro_rules! table {
    ($($program:ident: $expected:expr;)*) => {$(
        mod $program {
            use super::*;

            const NAME: &str = stringify!($program);

            #[test]
            fn undisturbed() {
                super::undisturbed(NAME, &$expected);
            }

            #[test]
            fn with_a_spare() {
                with_failures(NAME, &$expected, 1);
            }

            #[test]
            fn without_a_spare() {
                with_failures(NAME, &$expected, 0);
            }
        }
    )*};
}

table! {
    cancellations: Recovered;
    child_files: Recovered;
    children: Recovered;
    cpu_clocks: Recovered;
    datareps: Recovered;
    dlopen_loop: Recovered;
    executes: Recovered;
    growing: Recovered;
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
    sealed_memory: Recovered;
    socket_pairs: Recovered;
    system_v: Recovered;
    waits_in_kernel: Recovered;
}
