//! Ranks on several hosts, which are namespaces of one machine.
//!
//! The output is byte-identical, undisturbed and after failures, and nothing is left on any host.

use crate::persistence::restarted_job;
use ffi_tests::daemon_process::{self, spares_chosen};
use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{
    Job, Kill, Launcher, Outcome, Random, Trigger, Verdicts, paths, processes, variants,
};
use std::time::Duration;

/// Two workers on each of three hosts; the last has slots for the spares too.
const SLOTS: [u32; 3] = [2, 2, 4];
const WORKERS: u32 = 6;
const SPARES: u32 = 2;
/// Time without messages after which a host counts as lost.
const SILENCE: Duration = Duration::from_secs(5);

pub fn spread(job: Job) -> Job {
    job.workers(WORKERS).spares(SPARES).hosts(&SLOTS)
}

fn cases() -> Vec<TestProgram> {
    vec![programs::short_heat2d(), programs::short_cg()]
}

/// Fails unless the output is undisturbed, nothing is left, and these workers were replaced.
pub fn assert_good(outcome: &Outcome, undisturbed: &Outcome, case: &TestProgram, replaced: &[u32]) {
    outcome.assert_success();
    outcome.assert_like_after(undisturbed, case.files, case.canonical);
    outcome.assert_replaced(replaced);
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn undisturbed_runs_write_the_same() {
    if !Hosts::are_possible() {
        return;
    }
    let mut verdicts = Verdicts::default();
    for case in cases() {
        let undisturbed = native(spread(case.job()));
        let outcome = spread(case.job()).run();
        println!(
            "{}: {:?} against {:?}",
            case.name, outcome.wall, undisturbed.wall
        );
        verdicts.judge(case.name, || {
            assert_good(&outcome, &undisturbed, &case, &[]);
            outcome.check(
                outcome.own_lines().is_empty(),
                "an undisturbed run has messages of understudy",
            );
        });
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn every_worker_may_be_killed() {
    if !Hosts::are_possible() {
        return;
    }
    let mut verdicts = Verdicts::default();
    for case in cases() {
        let undisturbed = native(spread(case.job()));
        let lines = case.lines_before_end(&undisturbed);
        let mut random = Random::announced(case.name);
        for worker in
            (0..WORKERS).filter(|worker| case.name.starts_with("heat2d") || worker % 2 == 1)
        {
            let after = 1 + random.below(lines as u64 * 8 / 10) as usize;
            let kill = Kill::at(worker, Trigger::Lines(after))
                .after(Duration::from_micros(random.below(15_000)));
            let outcome = spread(case.job()).kill(kill).run();
            println!(
                "{}: {kill:?}: {:?}, recovery in {:?}",
                case.name,
                outcome.wall,
                outcome.slowest_recovery()
            );
            verdicts.judge(&format!("{}: {kill:?}", case.name), || {
                assert_good(&outcome, &undisturbed, &case, &[worker]);
            });
        }
    }
    verdicts.assert_all_good();
}

/// Fault points of a checkpoint, of MPI_Init and of MPI_Finalize, each with the failing worker.
const POINTS: &[(&str, u32)] = &[
    ("cut.begin epoch=3", 0),
    ("cut.end epoch=3", 2),
    ("capture.end epoch=3", 4),
    ("ship.begin epoch=3", 1),
    ("ship.half epoch=3", 3),
    ("ship.end epoch=3", 5),
    ("commit.end epoch=3", 2),
    ("init.end", 3),
    ("finalize.begin", 4),
];

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_die_at_any_point_of_a_checkpoint() {
    if !Hosts::are_possible() {
        return;
    }
    let mut verdicts = Verdicts::default();
    for &(point, worker) in POINTS {
        let case = if point.starts_with("ship.half") {
            programs::large_heat2d()
        } else {
            programs::short_heat2d()
        };
        let undisturbed = native(spread(case.job()));
        let fault = format!("kill rank={worker} at={point}");
        let outcome = spread(case.job()).interval("60calls").fault(&fault).run();
        println!(
            "{fault}: {:?}, recovery in {:?}",
            outcome.wall,
            outcome.slowest_recovery()
        );
        verdicts.judge(&fault, || {
            assert_good(&outcome, &undisturbed, &case, &[worker])
        });
    }
    verdicts.assert_all_good();
}

/// Both workers of a host are killed; processes of the host take over their replicas.
///
/// The replicas outlive their processes, so no buddy is needed and no output is printed twice.
#[test]
fn all_ranks_of_a_host_may_be_killed_at_once() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let killed = |job: Job, both: [u32; 2]| {
        let kill = |rank| Kill::at(rank, Trigger::Lines(15));
        job.kill(kill(both[0])).kill(kill(both[1]))
    };
    let inside = |job: Job, both: [u32; 2]| {
        let fault = both.map(|rank| format!("kill rank={rank} at=cut.end epoch=4 delay=40ms"));
        job.interval("60calls").fault(&fault.join("; "))
    };
    let ways: [&dyn Fn(Job, [u32; 2]) -> Job; 2] = [&killed, &inside];
    let deaths = [
        (Launcher::Mpirun, 0, 0),
        (Launcher::Ckptd, 2, 1),
        (Launcher::Ckptd, 0, 0),
        (Launcher::Mpirun, 2, 1),
        (Launcher::Mpirun, 4, 0),
    ];
    let mut verdicts = Verdicts::default();
    for (launcher, first, way) in variants(deaths, 1) {
        let both = [first, first + 1];
        let outcome = ways[way](spread(case.job()).launched_by(launcher), both).run();
        let what = format!("{launcher:?}, workers {both:?}, way {way}");
        println!(
            "{what}: {:?}, recovery in {:?}",
            outcome.wall,
            outcome.slowest_recovery()
        );
        verdicts.judge(&what, || assert_good(&outcome, &undisturbed, &case, &both));
    }
    verdicts.assert_all_good();
}

#[test]
fn a_worker_of_each_host_may_be_killed() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let job = spread(case.job())
        .launched_by(Launcher::Ckptd)
        .interval("60calls");
    let fault = [1, 2, 4].map(|rank| format!("kill rank={rank} at=cut.end epoch=4 delay=40ms"));
    let outcome = job.fault(&fault.join("; ")).run();
    assert_good(&outcome, &undisturbed, &case, &[1, 2, 4]);
}

/// Guardians of the hosts exchange addresses by mpirun.
#[test]
fn workers_die_under_a_plain_mpirun() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let job = spread(case.job())
        .launched_by(Launcher::Mpirun)
        .interval("60calls");
    let fault = "kill rank=2 at=cut.end epoch=4; kill rank=0 at=cut.end epoch=6";
    let outcome = job.fault(fault).run();
    assert_good(&outcome, &undisturbed, &case, &[0, 2]);
}

/// Workers of a lost host have replicas elsewhere; they print nothing that could come twice.
#[test]
fn a_host_may_be_lost() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let job = spread(case.job()).launched_by(Launcher::Ckptd);
    let outcome = job.lose_host(Trigger::Lines(15), 1).run();
    assert_good(&outcome, &undisturbed, &case, &[2, 3]);
    outcome.assert_line(&["is lost, with all of its processes"]);
}

/// A host without a network counts as lost; the recovery time includes its silence.
#[test]
fn a_host_may_be_cut_off() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let job = spread(case.job()).launched_by(Launcher::Ckptd);
    let job = job.env("UNDERSTUDY_NODE_TIMEOUT", "5s");
    let outcome = job.cut_off_host(Trigger::Lines(15), 1).run();
    assert_good(&outcome, &undisturbed, &case, &[2, 3]);
    let time = outcome.slowest_recovery();
    outcome.check(
        time.is_some_and(|time| time >= SILENCE),
        &format!("the recovery time {time:?} does not contain the silence of the host"),
    );
}

/// Worker 2 is lost with the second host; a spare on another host replaces it.
///
/// With racks, the second and the third host are one failure domain, so the spare of the fourth
/// host is preferred to that of the third.
#[test]
fn a_worker_of_a_lost_host_is_replaced_by_a_spare_of_another_domain() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let job = || case.job().workers(3).spares(2).hosts(&[2, 1, 1, 1]);
    let undisturbed = native(job());
    for (racks, spare) in variants([(&[0, 1, 1, 2][..], 4), (&[], 3)], 1) {
        let job = job().launched_by(Launcher::Ckptd).racks(racks);
        let outcome = job.lose_host(Trigger::Lines(15), 1).run();
        assert_good(&outcome, &undisturbed, &case, &[2]);
        outcome.assert_line(&[&format!("rank {spare}")]);
    }
}

/// `ckptd launch` is killed: the job ends, since its output and status would be lost.
#[test]
fn a_launcher_that_is_killed_leaves_nothing_on_any_host() {
    if !Hosts::are_possible() {
        return;
    }
    let job = spread(programs::heat2d().job()).launched_by(Launcher::Ckptd);
    let outcome = job
        .watch(|ranks| {
            let guardian = ranks.get(&0).map(|rank| rank.parent);
            guardian
                .and_then(processes::parent)
                .is_some_and(processes::kill)
        })
        .run();
    outcome.assert_failed();
    outcome.assert_nothing_left();
}

/// Workers 1 and 4 of one host fail at once; the job recovers.
///
/// Ranks are assigned round-robin, so worker r + 3, which the setting names as the buddy of worker
/// r, is on the host of worker r. The replicas are placed on other hosts instead. No replica
/// outlives its process.
#[test]
#[ignore = "a variant: make test-all"]
fn copies_are_on_other_hosts_however_ranks_are_placed() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    // A spare, rank 7, is on the host of the failing ranks 1 and 4.
    let fault = "kill rank=1 at=cut.end epoch=4 delay=40ms; kill rank=4 at=cut.end epoch=4 \
        delay=40ms; pretend no-memfd";
    let outcome = spread(case.job())
        .spares(3)
        .hosts(&[3, 3, 3])
        .map_by("node")
        .env("UNDERSTUDY_BUDDY_OFFSET", "3")
        .interval("60calls")
        .fault(fault)
        .run();
    assert_good(&outcome, &undisturbed, &case, &[1, 4]);
}

/// Default number of runs, each with a random kill, for each length of messages.
const DEFAULT_TIMES: usize = 1;

#[test]
fn large_messages_are_right_after_a_failure_in_the_middle_of_them() {
    if !Hosts::are_possible() {
        return;
    }
    let times = std::env::var("FFI_TESTS_TIMES")
        .ok()
        .and_then(|times| times.parse().ok())
        .unwrap_or(DEFAULT_TIMES);
    let mut random = Random::announced("large messages");
    let mut verdicts = Verdicts::default();
    for (mebibytes, rounds) in variants([(16, 8), (1, 200)], 1) {
        let arguments = [(mebibytes << 20).to_string(), rounds.to_string()];
        let job = || {
            let arguments = arguments.each_ref().map(String::as_str);
            spread(Job::new(paths::test_program("ring"), &arguments)).interval("5calls")
        };
        let undisturbed = native(job());
        for _ in 0..times {
            let worker = random.below(u64::from(WORKERS)) as u32;
            let after = 1 + random.below(rounds * 7 / 10) as usize;
            let kill = Kill::at(worker, Trigger::Lines(after))
                .after(Duration::from_micros(random.below(60_000)));
            let outcome = job().kill(kill).run();
            println!(
                "{mebibytes} MiB, {kill:?}: {:?}, recovery in {:?}",
                outcome.wall,
                outcome.slowest_recovery()
            );
            verdicts.judge(&format!("{mebibytes} MiB, {kill:?}"), || {
                outcome.assert_recovered(&undisturbed, &[], &[worker]);
            });
        }
    }
    verdicts.assert_all_good();
}

/// A single command and a single daemon serve all hosts.
///
/// Two workers are killed and replaced. The daemon runs on the first host; ranks on other hosts
/// connect by TCP with the job's token.
#[test]
#[ignore = "a variant: make test-all"]
fn one_command_runs_a_job_on_all_hosts() {
    if !Hosts::are_possible() {
        return;
    }
    let heat = paths::example("heat2d").to_string_lossy().into_owned();
    let arguments = ["300", "300", "3000", "heat.field"];
    let native = native(Job::new(&heat, &arguments).workers(WORKERS));
    let (hosts, work) = (
        Hosts::new(&SLOTS).expect("possible"),
        daemon_process::private_directory(),
    );
    let options = [
        "-n",
        "6",
        "--oversubscribe",
        "--spares",
        "2",
        "--interval",
        "0.1s",
        "--events",
        "events",
        "--fault",
        "kill rank=1 at=commit.end epoch=2; kill rank=3 at=commit.end epoch=3",
        "--",
        &heat,
    ];
    paths::wait_for_turn();
    let output = hosts
        .run(work.path(), &[&options[..], &arguments].concat())
        .output()
        .expect("nsenter");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(output.stdout == native.stdout, "the output differs: {said}");
    let field = std::fs::read(work.path().join("heat.field")).ok();
    assert!(
        field == native.file("heat.field"),
        "the file differs: {said}"
    );
    let choices = spares_chosen(&work.path().join("events"));
    assert_eq!(choices.len(), 2, "{choices:?} {said}");
    // The daemon is consulted, but a process that takes over persistent replicas is preferred to
    // any spare.
    assert!(said.contains("; replaced by "), "{said}");
    assert!(
        !work.path().join("events/ckptd.token").exists(),
        "the token has stayed"
    );
}

/// Workers that share memory are replaced on their host; the only spare is elsewhere.
#[test]
#[ignore = "a variant: make test-all"]
fn workers_that_share_memory_are_replaced_on_their_host() {
    if !Hosts::are_possible() {
        return;
    }
    let job = || Job::new(paths::test_program("commons"), &["16", "20"]).workers(3);
    let undisturbed = native(job());
    for launcher in [Launcher::Ckptd, Launcher::Mpirun] {
        let outcome = job()
            .spares(1)
            .hosts(&[3, 1])
            .launched_by(launcher)
            .interval("7calls")
            .fault("kill rank=1 at=call:200; kill rank=0 at=call:400")
            .run();
        outcome.assert_recovered(&undisturbed, &[], &[1, 0]);
    }
}

/// A restart on two hosts turns Put and Get from loads and stores into messages.
#[test]
#[ignore = "a variant: make test-all"]
fn workers_with_a_window_may_part() {
    if !Hosts::are_possible() {
        return;
    }
    let windows = || Job::new(paths::test_program("windows"), &["24", "4"]);
    let case = TestProgram {
        name: "windows",
        make: windows,
        files: &[],
        ..programs::heat2d()
    };
    let mut first = restarted_job::killed(restarted_job::job(&case).interval("7calls"), 3);
    let last = restarted_job::restarted(&case)
        .interval("7calls")
        .hosts(&[2, 3])
        .run_after(&mut first);
    restarted_job::assert_as_undisturbed(&case, &first.stdout, last);
}

/// A worker is killed after a job was restarted on two hosts; the job recovers.
///
/// The node manager is informed that a restarted job has a checkpoint to restore. Workers of other
/// hosts abandon their library calls, since the library has given up its connections to the failed
/// rank.
#[test]
fn a_restarted_job_may_lose_a_worker() {
    if !Hosts::are_possible() {
        return;
    }
    let (case, mut verdicts) = (programs::heat2d(), Verdicts::default());
    for worker in variants([3, 0], 1) {
        let fault = format!("kill rank={worker} at=call:100");
        let mut first = restarted_job::killed(restarted_job::job(&case), 3);
        let last = restarted_job::restarted(&case)
            .hosts(&[2, 3])
            .fault(&fault)
            .run_after(&mut first);
        verdicts.judge(&fault, || {
            last.assert_taken_over(&[worker]);
            restarted_job::assert_as_undisturbed(&case, &first.stdout, last);
        });
    }
    verdicts.assert_all_good();
}

/// A worker is killed while files with shared pointers are open on two hosts.
///
/// Each host undoes the changes that its own processes have made to files. No single host has the
/// position of a shared pointer.
#[test]
fn shared_pointers_of_several_hosts_are_rolled_back() {
    if !Hosts::are_possible() {
        return;
    }
    let program = paths::test_program("pointers");
    let make = || {
        let job = Job::new(&program, &["12", "2"]).workers(4).spares(1);
        job.hosts(&[2, 3]).interval("5calls")
    };
    let undisturbed = make().run();
    undisturbed.assert_success();
    let names: Vec<String> = (0..24).map(|file| format!("turns.{file}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // The files are open from checkpoint 15 on.
    for (rank, epoch) in variants([(1, 16), (3, 19), (0, 17), (2, 20)], 1) {
        let fault = format!("kill rank={rank} at=cut.begin epoch={epoch}");
        let outcome = make().fault(&fault).run();
        outcome.assert_success();
        outcome.assert_same_lines(&undisturbed);
        outcome.assert_like(&undisturbed, &names);
        outcome.assert_replaced(&[rank]);
        outcome.assert_nothing_left();
    }
}
