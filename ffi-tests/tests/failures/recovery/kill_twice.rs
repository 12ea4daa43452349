//! A second process fails during a recovery: at each stage, in each role.
//!
//! Four workers and two or three spares; worker 1 fails at a cut. Worker 2 is its buddy, and worker
//! 1 is the buddy of worker 0.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Outcome, Verdicts, variants};
use std::fmt::{self, Display};
use understudy_formats::events::RecoveryStage;

/// Relation of the second failed process to the first failed worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The worker whose replica the first failed worker stored.
    Protected,
    /// The worker that stores the replica of the first failed worker.
    Buddy,
    Bystander,
    /// The spare that replaces the first failed worker.
    Replacement,
    /// The spare that remains idle.
    Spare,
}

const ROLES: [Role; 5] = [
    Role::Protected,
    Role::Buddy,
    Role::Bystander,
    Role::Replacement,
    Role::Spare,
];

impl Role {
    /// Rank in the launcher's world.
    fn rank(self) -> u32 {
        match self {
            Role::Protected => 0,
            Role::Buddy => 2,
            Role::Bystander => 3,
            Role::Replacement => 4,
            Role::Spare => 5,
        }
    }
}

/// Fault points of the second process: ends of stages, and one within a stage.
fn points() -> impl Iterator<Item = &'static str> {
    RecoveryStage::ALL.into_iter().flat_map(|stage| {
        let inside = (stage == RecoveryStage::Rebuild).then_some("rebuild.half");
        inside.into_iter().chain([stage.name()])
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedEnd {
    Survives,
    /// Worker `.0` and its only replica, at worker `.1`, are lost together.
    Lost(u32, u32),
    /// The job survives or ends as in `Lost`: the replica was just being sent.
    Either(u32, u32),
}

fn position(point: &str) -> usize {
    points()
        .position(|known| known == point)
        .expect("a known point")
}

/// Lifetime of replicas: that of the node, or that of the process that stores them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplicaLifetime {
    Node,
    Process,
}

/// Returns the expected end of a job after a second failure.
///
/// A job whose replicas do not outlive their process is lost if a worker and its buddy fail before
/// another replica has been made.
fn expected_end(role: Role, point: &str, lifetime: ReplicaLifetime) -> ExpectedEnd {
    if lifetime == ReplicaLifetime::Node {
        return ExpectedEnd::Survives;
    }
    let at = position(point);
    let (dead, buddy, made) = match role {
        Role::Buddy => (1, 2, "fetch"),
        Role::Protected => (0, 1, "reprotect"),
        _ => return ExpectedEnd::Survives,
    };
    // A buddy may end `fetch` a little before the replacement does, so the end is certain only when
    // all processes have met: in `rebuild`, the stage after `load`, or at the end of `reprotect`.
    let certain = if role == Role::Buddy {
        "rebuild.half"
    } else {
        "resume"
    };
    if at < position(made) {
        ExpectedEnd::Lost(dead, buddy)
    } else if at < position(certain) {
        ExpectedEnd::Either(dead, buddy)
    } else {
        ExpectedEnd::Survives
    }
}

fn assert_survived(outcome: &Outcome, case: &TestProgram) {
    let undisturbed = native(case.job());
    outcome.assert_success();
    outcome.assert_like_after(&undisturbed, case.files, case.canonical);
    outcome.check(!outcome.takeovers().is_empty(), "no worker was replaced");
}

fn assert_lost(outcome: &Outcome, worker: u32, buddy: u32) {
    outcome.check(outcome.status.is_some(), "the job hangs");
    outcome.check(
        outcome.status.is_some_and(|status| !status.success()),
        "the job has lost a worker and its replica, and succeeded",
    );
    let named = format!("worker {worker} (rank {worker} on ");
    let buddy_part = format!("failed together with worker {buddy} (rank {buddy} on ");
    let lines = outcome.own_lines();
    outcome.check(
        lines.len() == 1
            && [&*named, &*buddy_part, "only replica (checkpoint "]
                .iter()
                .all(|words| lines[0].contains(words)),
        "the loss is not named in one line",
    );
}

fn die(
    case: &TestProgram,
    deaths: &impl Display,
    spares: u32,
    expected: ExpectedEnd,
    verdicts: &mut Verdicts,
) {
    let fault = format!("kill rank=1 at=cut.end epoch=3; {deaths}");
    let job = case
        .job()
        .spares(spares)
        .env("UNDERSTUDY_BUDDY_OFFSET", "1")
        .fault(&fault);
    let outcome = job.run();
    println!(
        "{}, {deaths}: {:?}, died: {:?}",
        case.name,
        outcome.wall,
        outcome.faults()
    );
    verdicts.judge(&format!("{}: {fault}", case.name), || {
        match expected {
            ExpectedEnd::Survives => assert_survived(&outcome, case),
            ExpectedEnd::Lost(worker, buddy) => assert_lost(&outcome, worker, buddy),
            ExpectedEnd::Either(worker, buddy) => {
                match outcome.status.is_some_and(|status| status.success()) {
                    true => assert_survived(&outcome, case),
                    false => assert_lost(&outcome, worker, buddy),
                }
            }
        }
        outcome.assert_nothing_left();
    });
}

/// Faults after the first failure: ranks and fault points.
struct Deaths(Vec<(u32, &'static str)>);

impl Display for Deaths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(rank, point): &(u32, &str)| format!("kill rank={rank} at={point}");
        out.write_str(&self.0.iter().map(one).collect::<Vec<_>>().join("; "))
    }
}

fn sweep(
    case: &TestProgram,
    lifetime: ReplicaLifetime,
    points: impl Iterator<Item = (usize, &'static str)>,
    roles: impl Fn(usize) -> Vec<Role>,
) {
    let die_with_process = match lifetime {
        ReplicaLifetime::Node => "",
        ReplicaLifetime::Process => "; pretend no-memfd",
    };
    let mut verdicts = Verdicts::default();
    for (index, point) in points {
        for role in roles(index) {
            let deaths = format!("{}{die_with_process}", Deaths(vec![(role.rank(), point)]));
            die(
                case,
                &deaths,
                2,
                expected_end(role, point, lifetime),
                &mut verdicts,
            );
        }
    }
    verdicts.assert_all_good();
}

#[test]
fn a_second_process_may_die_at_any_stage_of_a_recovery() {
    // The ordinary run has the last points, where failures can lose the most.
    let points: Vec<_> = points().enumerate().collect();
    sweep(
        &programs::heat2d(),
        ReplicaLifetime::Node,
        variants(points.into_iter().rev(), 2),
        |index| vec![ROLES[(2 * index + 3) % ROLES.len()]],
    );
}

#[test]
#[ignore = "long: make sweep"]
fn any_second_process_may_die_at_any_stage_of_a_recovery() {
    for case in [programs::heat2d(), programs::cg(), programs::large_heat2d()] {
        sweep(&case, ReplicaLifetime::Node, points().enumerate(), |_| {
            ROLES.to_vec()
        });
        sweep(
            &case,
            ReplicaLifetime::Process,
            points().enumerate(),
            |_| ROLES.to_vec(),
        );
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn replacements_may_fail_one_after_the_other_before_they_have_taken_over() {
    let mut verdicts = Verdicts::default();
    for points in [
        ["agree", "load"],
        ["fetch", "reprotect"],
        ["rebuild", "replace"],
    ] {
        let deaths = Deaths(vec![(4, points[0]), (5, points[1])]);
        die(
            &programs::heat2d(),
            &deaths,
            3,
            ExpectedEnd::Survives,
            &mut verdicts,
        );
    }
    // The replacement fails when the header of a replica has arrived, and not its pages.
    let deaths = Deaths(vec![(4, "ship.half")]);
    die(
        &programs::large_heat2d(),
        &deaths,
        2,
        ExpectedEnd::Survives,
        &mut verdicts,
    );
    verdicts.assert_all_good();
}
