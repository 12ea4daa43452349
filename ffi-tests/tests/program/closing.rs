//! Programs that close all descriptors before `MPI_Init`, and understudy's after checkpoints.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, paths};

#[test]
fn descriptors_of_understudy_stay_open_when_a_program_closes_all() {
    for how in ["range", "from", "loop", "call"] {
        let job = || {
            Job::new(paths::test_program("closes_all"), &[how, "12"])
                .workers(2)
                .interval("5calls")
        };
        let undisturbed = native(job());
        let outcome = job().fault("kill rank=1 at=call:20").run();
        outcome.assert_success();
        outcome.assert_like(&undisturbed, &[]);
        outcome.assert_taken_over(&[1]);
        outcome.assert_nothing_left();
    }
}
