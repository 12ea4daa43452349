//! Tests of a leader with reports of several nodes.

use super::*;
use understudy_wire::line::ProcessEnd;

fn joined(rank: u32, had_manager: bool) -> [Report; 2] {
    let rank = Guardian(rank);
    let joined = Report::GuardianJoined {
        rank,
        workers: 2,
        spares: 0,
        replenishes: false,
        had_manager,
    };
    [joined, Report::AllReported { rank }]
}

/// The node of a guardian is lost before the guardian has reported again.
#[test]
fn a_leader_that_awaits_repeated_reports_does_not_wait_for_lost_nodes() {
    let mut leader = JobLeader::new("n0", &Config::default(), true);
    leader.join(1, "n1".to_owned());
    for (node, rank) in [(OWN_NODE, 0), (1, 1)] {
        let reports = joined(rank, false).into_iter();
        reports.for_each(|report| leader.handle_report(node, report));
    }
    let is_start = |order: &(u32, Order)| {
        let Order::Job(JobOrder::Guardian { message, .. }) = &order.1 else {
            return false;
        };
        matches!(message, ToGuardian::Start { .. })
    };
    assert_eq!(
        leader
            .take_orders()
            .iter()
            .filter(|it| is_start(it))
            .count(),
        2
    );
    assert!(leader.repeat_reports() && !leader.is_deserted());
    let reports = joined(0, true).into_iter();
    reports.for_each(|report| leader.handle_report(OWN_NODE, report));
    assert!(leader.take_orders().is_empty(), "a guardian is missing");
    assert!(leader.lose(1, Duration::ZERO));
    // Processes of the lost node may have printed, so the job does not start from its beginning.
    let ends = |order: &(u32, Order)| matches!(order.1, Order::Job(JobOrder::End { .. }));
    let orders = leader.take_orders();
    assert!(orders.iter().any(ends) && !orders.iter().any(is_start));
}

#[test]
fn nodes_with_spawned_processes_are_informed_of_a_rollback() {
    let mut leader = JobLeader::new("n0", &Config::default(), true);
    let number = ProcessNumber(7);
    let mut report =
        |node, message| leader.handle_report(node, Report::Process { number, message });
    let (worker, number) = (Worker(1), 2);
    report(2, ToManager::Spawns { worker, number });
    report(0, ToManager::Spawns { worker, number });
    let other = Worker(2);
    report(
        3,
        ToManager::Spawns {
            worker: other,
            number,
        },
    );
    report(0, ToManager::RolledBack { worker, number });
    assert_eq!(
        leader.take_orders(),
        [(
            2,
            Order::Servers(ServerOrder::RolledBack { worker, number })
        )]
    );
}

/// Returns a leader after a guardian on node 2 was ordered to start its process.
fn with_another_node() -> JobLeader {
    let mut leader = JobLeader::new("n0", &Config::default(), true);
    leader.join(2, "n2".into());
    let rank = Guardian(0);
    let joined = Report::GuardianJoined {
        rank,
        workers: 1,
        spares: 0,
        replenishes: false,
        had_manager: false,
    };
    leader.handle_report(2, joined);
    leader.handle_report(2, Report::AllReported { rank });
    leader.take_orders();
    leader
}

/// A guardian on another node dies; its process is killed there.
///
/// A script may have started the process, which then outlives the guardian.
#[test]
fn the_process_of_a_dead_guardian_is_killed_on_its_node() {
    let mut leader = with_another_node();
    leader.handle_report(2, Report::GuardianDied { rank: Guardian(0) });
    let number = ProcessNumber(0);
    let kill = Order::Job(JobOrder::Guardian {
        rank: Guardian(0),
        message: ToGuardian::Kill { number },
    });
    assert_eq!(leader.take_orders().first(), Some(&(2, kill)));
}

#[test]
fn a_spawned_process_on_another_node_sets_the_status_of_the_job() {
    let mut leader = with_another_node();
    let (number, status) = (ProcessNumber(0), 0);
    leader.handle_report(
        2,
        Report::Ended(ProcessEnd::Exited {
            number,
            status,
            pid: 1,
        }),
    );
    leader.handle_report(
        2,
        Report::Ended(ProcessEnd::OutputClosed { number, written: 0 }),
    );
    leader.tick();
    assert!(leader.is_over() && leader.status() == 0);
    leader.handle_report(2, Report::Spawned(3));
    assert_eq!(leader.status(), 3);
}
