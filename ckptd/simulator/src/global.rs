//! Global rollback: all partitions roll back, so that all are always in the same iteration.

use crate::{Failures, Run, Setting};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Simulates one run; `None` if it never ends ([`Setting::can_end`]).
pub fn global(setting: &Setting, mut failures: Failures) -> Option<Run> {
    let nodes = setting.grid.nodes();
    if !setting.can_end() {
        return None;
    }
    // Times are positive, so that their bit patterns have the same order.
    let soonest = |failures: &Failures, node| Reverse((failures.next(node).to_bits(), node));
    let mut order: BinaryHeap<_> = (0..nodes).map(|node| soonest(&failures, node)).collect();
    let (mut run, mut done) = (Run::default(), 0);
    while done < setting.iterations {
        let (count, copy) = setting.section(done);
        let end = run.time + f64::from(count) * setting.iteration() + copy;
        let Some(mut first) = order
            .peek_mut()
            .filter(|first| f64::from_bits(first.0.0) < end)
        else {
            (run.time, done) = (end, done + count);
            continue;
        };
        let node = first.0.1;
        let at = failures.next(node);
        let lost = ((at - run.time) / setting.iteration())
            .floor()
            .min(f64::from(count));
        run.recomputed += lost * nodes as f64;
        run.failures += 1;
        run.time = at;
        failures.renew(node);
        *first = soonest(&failures, node);
    }
    Some(run)
}
