//! Comparison of the simulator with the formulas, and of the formulas with the paper.

use understudy_simulator::model::{self, Machine, expected, savings};
use understudy_simulator::{Failures, Grid, Local, Run, Setting, cone, global, local};

const HOUR: f64 = 3600.0;

fn setting(grid: Grid) -> Setting {
    Setting {
        grid,
        iterations: 1000,
        every: 6,
        task: 10.0,
        node_mtbf: 100.0 * HOUR,
        exchange: 0.0,
        copy: 0.0,
        is_coordinated: true,
    }
}

#[track_caller]
fn assert_near(found: f64, expected: f64, part: f64) {
    assert!(
        (found - expected).abs() <= part * expected.abs(),
        "{found} instead of {expected}"
    );
}

/// Counts, one by one, iteration `lost` of `node` and the tasks on which it depends.
fn reached(grid: Grid, node: usize, lost: usize) -> usize {
    let mut wanted = vec![node];
    let mut count = 0;
    for _ in 0..lost {
        count += wanted.len();
        let mut next = wanted.clone();
        for &at in &wanted {
            let (column, row) = (at % grid.width, at / grid.width);
            next.extend((column > 0).then(|| at - 1));
            next.extend((column + 1 < grid.width).then(|| at + 1));
            next.extend((row > 0).then(|| at - grid.width));
            next.extend((row + 1 < grid.height).then(|| at + grid.width));
        }
        next.sort_unstable();
        next.dedup();
        wanted = next;
    }
    count
}

#[test]
fn cones_are_what_the_tasks_depend_on() {
    let (chain, plane) = (
        Grid::chain(101),
        Grid {
            width: 45,
            height: 43,
        },
    );
    for lost in 0..=20 {
        let exact = cone::inner_tasks(lost as f64, true);
        assert_eq!(
            cone::tasks(chain, 50, lost, lost) as f64,
            exact,
            "chain, {lost}"
        );
        let exact = cone::inner_tasks(lost as f64, false);
        assert_eq!(
            cone::tasks(plane, 21 * 45 + 22, lost, lost) as f64,
            exact,
            "grid, {lost}"
        );
        for (grid, node) in [
            (chain, 3),
            (plane, 0),
            (plane, 2 * 45 + 44),
            (
                Grid {
                    width: 4,
                    height: 2,
                },
                1,
            ),
        ] {
            assert_eq!(
                cone::tasks(grid, node, lost, lost),
                reached(grid, node, lost),
                "{grid:?}, {node}, {lost}"
            );
        }
        let around = |is_chain| cone::neighbours(lost as f64, is_chain) + 1.0;
        assert_eq!(chain.within(50, lost) as f64, around(true));
        assert_eq!(plane.within(21 * 45 + 22, lost) as f64, around(false));
    }
    // The experiment of section 5.1: eight processes as 2 x 4; process 1 fails with two iterations
    // lost.
    let eight = Grid {
        width: 2,
        height: 4,
    };
    assert_eq!(cone::tasks(eight, 1, 2, 2), 4);
    assert_eq!(eight.within(1, 2), 5);
}

#[test]
fn equations_give_the_numbers_of_the_paper() {
    let year = 365.25 * 24.0 * HOUR;
    let machine = |nodes, is_chain| Machine {
        nodes,
        node_mtbf: 50.0 * year,
        every: 10,
        task: 4.0,
        watts_saved: 10.0,
        is_chain,
    };
    let saved = |nodes, is_chain| savings(&machine(nodes, is_chain));
    assert_near(saved(1e4, true).neighbours, 9.0, 1e-12);
    assert_near(saved(1e4, false).neighbours, 66.0, 1e-12);
    assert_near(saved(1e4, true).joules, 200.0, 1e-12);
    assert_near(saved(1e4, true).watts, 12.66, 1e-3);
    assert_near(saved(1e4, false).watts, 12.59, 1e-3);
    assert_near(saved(1e5, true).watts, 1267.0, 1e-3);
    let six = Machine {
        every: 6,
        ..machine(1e4, false)
    };
    assert_near(savings(&six).neighbours, 70.0 / 3.0, 1e-12);
    assert_eq!(
        savings(&machine(5.0, false)).idle,
        0.0,
        "no node is idle in so small a machine"
    );
}

#[test]
fn expectations_are_those_of_the_paper() {
    for (nodes, failures, all, log, chain, plane, time) in [
        (100, 2.80, 700.0, 7.0, 25.7, 72.0, 10_084.0),
        (200, 5.65, 2_825.0, 14.1, 51.8, 146.0, 10_169.0),
        (500, 14.5, 18_116.0, 36.2, 133.0, 374.0, 10_435.0),
        (1000, 30.3, 75_758.0, 75.8, 278.0, 783.0, 10_909.0),
    ] {
        let found = expected(&setting(Grid::chain(nodes))).expect("it ends");
        let shape = Grid {
            width: 10,
            height: nodes / 10,
        };
        let in_plane = expected(&setting(shape)).expect("it ends");
        for (found, known) in [
            (found.failures, failures),
            (found.global, all),
            (found.log, log),
            (found.data_flow, chain),
            (in_plane.data_flow, plane),
            (found.time, time),
        ] {
            assert_near(found, known, 0.006);
        }
    }
    let worn = Setting {
        node_mtbf: HOUR,
        ..setting(Grid::chain(1000))
    };
    assert_eq!(expected(&worn), None, "the run never ends");
    assert_eq!(global(&worn, Failures::new(1, 1000, HOUR)), None);
}

/// Returns the mean results of global rollback and of local rollback over the seeds.
fn means(setting: &Setting, seeds: u64) -> (Run, Local) {
    let nodes = setting.grid.nodes();
    let mean = |runs: &[Run]| Run {
        failures: (runs.iter().map(|run| run.failures).sum::<u64>() as f64 / runs.len() as f64)
            .round() as u64,
        recomputed: runs.iter().map(|run| run.recomputed).sum::<f64>() / runs.len() as f64,
        time: runs.iter().map(|run| run.time).sum::<f64>() / runs.len() as f64,
    };
    let (mut all, mut log, mut flow) = (vec![], vec![], vec![]);
    for seed in 0..seeds {
        let failures = Failures::new(seed, nodes, setting.node_mtbf);
        let found = local(setting, failures.clone());
        assert!(
            found.log.recomputed <= found.data_flow.recomputed,
            "seed {seed}"
        );
        assert_eq!(found.log.time, found.data_flow.time);
        all.push(global(setting, failures).expect("it ends"));
        log.push(found.log);
        flow.push(found.data_flow);
    }
    let found = Local {
        log: mean(&log),
        data_flow: mean(&flow),
    };
    (mean(&all), found)
}

/// Returns the number of tasks that global rollback computes again, for any failure rate.
///
/// The formulas assume rare failures. If failures are frequent, more of them occur early in a
/// section of C iterations of duration τ. With the failure rate λ of the whole machine, each
/// section is tried e^(λCτ) times.
fn exactly_global(setting: &Setting) -> f64 {
    let rate = setting.grid.nodes() as f64 / setting.node_mtbf;
    let survives = |iterations: u32| (-rate * setting.task * f64::from(iterations)).exp();
    let lost: f64 = (0..setting.every)
        .map(|done| f64::from(done) * (survives(done) - survives(done + 1)))
        .sum();
    let sections = f64::from(setting.iterations) / f64::from(setting.every);
    sections * lost / survives(setting.every) * setting.grid.nodes() as f64
}

/// Means over 400 seeds differ from the formulas by at most 15 %.
///
/// The formulas assume rare failures. Frequent failures occur early in a section more often, and
/// some of them occur while a node waits for other nodes and loses nothing.
#[test]
fn simulated_means_are_those_of_the_formulas() {
    let plane = Grid {
        width: 32,
        height: 32,
    };
    for (grid, part) in [
        (Grid::chain(1000), 0.12),
        (plane, 0.12),
        (Grid::chain(100), 0.15),
    ] {
        let setting = setting(grid);
        let known = model::expected(&setting).expect("it ends");
        let (all, found) = means(&setting, 400);
        assert_near(all.recomputed, known.global, part);
        assert_near(found.log.recomputed, known.log, part);
        for time in [all.time, found.log.time] {
            assert_near(time, known.time, 0.02);
        }
        // Waiting nodes lose nothing, so that only failures during computation count.
        let computing =
            grid.nodes() as f64 * f64::from(setting.iterations) * setting.task / setting.node_mtbf;
        assert_near(
            found.log.recomputed,
            computing * f64::from(setting.every - 1) / 2.0,
            if grid.nodes() <= 100 { 0.1 } else { 0.03 },
        );
        let is_rare = grid.nodes() <= 100;
        assert_near(
            all.recomputed,
            exactly_global(&setting),
            if is_rare { 0.1 } else { 0.03 },
        );
        // Near borders the cones are smaller than in the formula.
        let losses = 0..setting.every as usize;
        let cones = losses.clone().map(|lost| {
            (0..grid.nodes())
                .map(|node| cone::tasks(grid, node, lost, lost))
                .sum::<usize>()
        });
        let cone = cones.sum::<usize>() as f64 / grid.nodes() as f64 / losses.sum::<usize>() as f64;
        assert_near(
            found.data_flow.recomputed / found.log.recomputed,
            cone,
            0.05,
        );
    }
}

#[test]
fn a_single_failure_costs_all_three_the_same_time() {
    let grid = Grid {
        width: 9,
        height: 7,
    };
    let setting = Setting {
        iterations: 60,
        ..setting(grid)
    };
    for (node, at) in [(0, 3.0), (31, 59.5), (62, 60.0), (40, 175.0), (13, 599.0)] {
        let failures = Failures::listed(grid.nodes(), &[(node, at)]);
        let all = global(&setting, failures.clone()).expect("it ends");
        let Local { log, data_flow } = local(&setting, failures);
        assert_near(log.time, all.time, 1e-12);
        assert_eq!(log.time, data_flow.time);
        assert_eq!([all.failures, log.failures, data_flow.failures], [1; 3]);
        assert!(
            log.recomputed <= data_flow.recomputed && data_flow.recomputed <= all.recomputed,
            "{at}"
        );
        let lost = ((at % 60.0) / 10.0).floor();
        assert_eq!(log.recomputed, lost);
        assert_eq!(all.recomputed, lost * grid.nodes() as f64);
    }
}

#[test]
fn nothing_is_lost_without_failures() {
    let setting = Setting {
        iterations: 20,
        exchange: 0.5,
        copy: 2.0,
        ..setting(Grid::chain(8))
    };
    let none = Failures::listed(8, &[]);
    let undisturbed = Run {
        failures: 0,
        recomputed: 0.0,
        time: 20.0 * 10.5 + 3.0 * 2.0,
    };
    assert_eq!(global(&setting, none.clone()), Some(undisturbed));
    assert_eq!(local(&setting, none.clone()).log, undisturbed);
    let apart = Setting {
        is_coordinated: false,
        ..setting
    };
    assert_eq!(local(&apart, none).data_flow, undisturbed);
}

/// Without a barrier at checkpoints, delays of distant nodes overlap, and runs are shorter.
///
/// Gamell et al. (2017) call this failure masking.
#[test]
fn without_waiting_for_all_delays_overlap() {
    let apart = Setting {
        is_coordinated: false,
        ..setting(Grid::chain(1000))
    };
    let mean = |setting: &Setting| {
        (0..20)
            .map(|seed| {
                local(setting, Failures::new(seed, 1000, setting.node_mtbf))
                    .log
                    .time
            })
            .sum::<f64>()
            / 20.0
    };
    let (alone, together) = (mean(&apart), mean(&setting(Grid::chain(1000))));
    assert_near(alone, 10_258.0, 0.01);
    assert_near(together, 10_909.0, 0.01);
}

/// A run of a million partitions has as many failures as its duration implies.
///
/// With global rollback the run never ends.
#[test]
fn a_million_partitions_are_no_trouble() {
    let large = Setting {
        iterations: 100,
        ..setting(Grid {
            width: 1000,
            height: 1000,
        })
    };
    let found = local(&large, Failures::new(7, 1_000_000, large.node_mtbf));
    assert_near(found.log.failures as f64, found.log.time / 0.36, 0.1);
    assert_eq!(
        global(&large, Failures::new(7, 1_000_000, large.node_mtbf)),
        None
    );
}
