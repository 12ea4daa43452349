//! Cost of a recovery for 100,000 workers.

use crate::process::{Process, ReplicaRecord};
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::meeting::{Meeting, MeetingAction, MeetingContext, MeetingEvent};
use understudy_policy::redundancy::Redundancy;
use understudy_settings::Scheme;

const WORKERS: u32 = 100_000;
const WORKERS_PER_NODE: u32 = 100;
/// Every n-th node fails.
const NODES_PER_FAILURE: u32 = 10;

/// Every tenth node fails; each dead worker gets a replacement, a replica and a rebuild.
///
/// A computation that compares all pairs of workers would take minutes.
#[test]
fn a_plan_for_100_000_workers_with_10_000_deaths_is_computed() {
    let node = |worker: Worker| worker.0 / WORKERS_PER_NODE;
    let nodes: Vec<u32> = Worker::all(WORKERS).map(node).collect();
    let redundancy = Redundancy::place(&nodes, WORKERS_PER_NODE, Scheme::Copies(1));
    let has_failed = |worker: &Worker| node(*worker) % NODES_PER_FAILURE == 0;
    let living = Worker::all(WORKERS).filter(|worker| !has_failed(worker));
    let mut reports: Vec<_> = living
        .map(|worker| {
            let replicas = ReplicaRecord::committed(worker, Epoch(7));
            Process::worker(worker, replicas, None, &redundancy).report(&redundancy)
        })
        .collect();
    let joining = Worker::all(WORKERS).filter(has_failed);
    reports.extend(joining.map(|worker| {
        let number = ProcessNumber(WORKERS + worker.0);
        Process::joining(number, None, &redundancy).report(&redundancy)
    }));
    let context = MeetingContext {
        redundancy: &redundancy,
        workers: WORKERS,
        has_disk_level: true,
    };
    let (mut meeting, action) = Meeting::begin(context, &reports);
    assert_eq!(action, MeetingAction::ExchangeDeaths { epoch: Epoch(7) });
    let MeetingAction::End(Ok(plan)) = meeting.step(MeetingEvent::Deaths(None)) else {
        panic!("no plan");
    };
    let failed = (WORKERS / NODES_PER_FAILURE) as usize;
    assert_eq!((plan.takeovers.len(), plan.fetches.len()), (failed, failed));
    assert_eq!(plan.rebuilds.len(), failed);
}
