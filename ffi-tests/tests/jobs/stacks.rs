//! Programs with stacks of their own.

use ffi_tests::shared::native;
use ffi_tests::{Job, Kill, Trigger, few, place};

#[test]
fn coroutines_call_mpi() {
    let coroutines =
        || Job::new(place::test_program("coroutines"), &["200", "2000"]).interval("7calls");
    let undisturbed = native(coroutines());
    for worker in few([1, 0, 2, 3], 1) {
        let kill = Kill::at(worker, Trigger::Lines(5 + worker as usize * 4));
        let outcome = coroutines().kill(kill).run();
        outcome.assert_success();
        outcome.assert_same_lines(&undisturbed);
        outcome.assert_taken_over(&[worker]);
        outcome.assert_nothing_left();
    }
}
