//! `understudy simulate`: what ways of rolling back cost on a machine that fails.

use crate::advise::time;
use crate::outcome::{Failure, Outcome, USAGE, print, print_json, verdict};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;
use understudy_simulator::model::{self, Expected};
use understudy_simulator::{Failures, Grid, Local, Run, Setting, global, local};

/// Partitions that are simulated; more take too much memory.
const MOST_NODES: usize = 100_000_000;

/// Simulate a stencil program on a machine that fails, with three ways of rolling back.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  done\n  \
    2  wrong usage\n\n\
    All runs of a seed see the same failures. `global`: all nodes go back to the checkpoint; `log`: the lost one does, and gets its\n\
    messages from logs; `dataflow`: its neighbours compute them again.\n\n\
    Example: understudy simulate --grid 32x32 --every 6 --task 10s --node-mtbf 100h")]
pub struct Arguments {
    /// Nodes, one partition each: a chain (`1000`) or a grid (`32x32`).
    #[arg(long, value_name = "N|NxM", value_parser = grid)]
    grid: Grid,
    /// Iterations of the program.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Iterations from one checkpoint to the next.
    #[arg(long, value_name = "C", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Time of one iteration of one partition.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    task: Duration,
    /// Mean time between failures of one node.
    #[arg(long, value_name = "TIME", default_value = "100h", value_parser = time)]
    node_mtbf: Duration,
    /// Energy of a task.
    #[arg(long, value_name = "J", default_value_t = 500.0)]
    joules: f64,
    /// Runs that means are taken over.
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Time until neighbours have what they need of each other.
    #[arg(long, value_name = "TIME", value_parser = time)]
    exchange: Option<Duration>,
    /// Time until the copy of a partition is where it is kept.
    #[arg(long, value_name = "TIME", value_parser = time)]
    copy: Option<Duration>,
    /// Nobody waits for others at a checkpoint (`log` and `dataflow`).
    #[arg(long)]
    no_barrier: bool,
    /// Print one JSON object; times are in seconds.
    #[arg(long)]
    json: bool,
}

fn grid(text: &str) -> Result<Grid, String> {
    let number = |text: &str| text.parse().ok().filter(|&number: &usize| number > 0);
    let found = match text.split_once('x') {
        None => number(text).map(Grid::chain),
        Some((width, height)) => number(width)
            .zip(number(height))
            .map(|(width, height)| Grid { width, height }),
    };
    found
        .filter(|grid| {
            grid.width
                .checked_mul(grid.height)
                .is_some_and(|nodes| nodes <= MOST_NODES)
        })
        .ok_or_else(|| format!("`{text}` is no number of nodes (`1000`, `32x32`), or more than {MOST_NODES}"))
}

/// A mean over all seeds, and the standard deviation.
#[derive(Clone, Copy, Debug, Serialize)]
struct Mean {
    mean: f64,
    deviation: f64,
}

impl Mean {
    fn of(runs: &[Run], value: fn(&Run) -> f64) -> Self {
        let count = runs.len() as f64;
        let mean = runs.iter().map(value).sum::<f64>() / count;
        let squares: f64 = runs.iter().map(|run| (value(run) - mean).powi(2)).sum();
        Self {
            mean,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
        }
    }
}

/// One way of rolling back; means, and what the equations give.
#[derive(Debug, Serialize)]
struct Strategy {
    failures: f64,
    recomputed: f64,
    energy_j: f64,
    time_s: f64,
    deviation: Deviation,
    expected: Option<Values>,
}

#[derive(Debug, Serialize)]
struct Deviation {
    failures: f64,
    recomputed: f64,
    time_s: f64,
}

#[derive(Debug, Serialize)]
struct Values {
    failures: f64,
    recomputed: f64,
    energy_j: f64,
    time_s: f64,
}

impl Strategy {
    fn new(runs: &[Run], joules: f64, expected: Option<(Expected, f64)>) -> Self {
        let failures = Mean::of(runs, |run| run.failures as f64);
        let recomputed = Mean::of(runs, |run| run.recomputed);
        let time = Mean::of(runs, |run| run.time);
        Self {
            failures: failures.mean,
            recomputed: recomputed.mean,
            energy_j: recomputed.mean * joules,
            time_s: time.mean,
            deviation: Deviation {
                failures: failures.deviation,
                recomputed: recomputed.deviation,
                time_s: time.deviation,
            },
            expected: expected.map(|(expected, recomputed)| Values {
                failures: expected.failures,
                recomputed,
                energy_j: recomputed * joules,
                time_s: expected.time,
            }),
        }
    }
}

#[derive(Debug, Serialize)]
struct Strategies {
    /// `None`: it never ends.
    global: Option<Strategy>,
    log: Strategy,
    dataflow: Strategy,
}

#[derive(Debug, Serialize)]
struct Simulation {
    nodes: usize,
    iterations: u32,
    every: u32,
    seeds: u64,
    undisturbed_s: f64,
    strategies: Strategies,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        if !(self.joules.is_finite() && self.joules >= 0.0) {
            return Err(Failure::with_status(
                USAGE,
                "--joules: give the energy of a task, 0 or more",
            ));
        }
        let simulation = self.simulate();
        if self.json {
            print_json(&simulation)?;
        } else {
            print(simulation.text())?;
        }
        Ok(verdict(true))
    }

    fn simulate(&self) -> Simulation {
        let seconds = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64());
        let setting = Setting {
            grid: self.grid,
            iterations: self.iterations,
            every: self.every,
            task: self.task.as_secs_f64(),
            node_mtbf: self.node_mtbf.as_secs_f64(),
            exchange: seconds(self.exchange),
            copy: seconds(self.copy),
            is_coordinated: !self.no_barrier,
        };
        let nodes = self.grid.nodes();
        let (mut all, mut log, mut flow) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 0..self.seeds {
            let failures = Failures::new(seed, nodes, setting.node_mtbf);
            let Local { log: by_log, data_flow } = local(&setting, failures.clone());
            all.extend(global(&setting, failures));
            log.push(by_log);
            flow.push(data_flow);
        }
        let expected = model::expected(&setting);
        let of = |value: fn(&Expected) -> f64| expected.map(|expected| (expected, value(&expected)));
        let global = (!all.is_empty()).then(|| Strategy::new(&all, self.joules, of(|expected| expected.global)));
        Simulation {
            nodes,
            iterations: self.iterations,
            every: self.every,
            seeds: self.seeds,
            undisturbed_s: f64::from(self.iterations) * setting.task,
            strategies: Strategies {
                global,
                log: Strategy::new(&log, self.joules, of(|expected| expected.log)),
                dataflow: Strategy::new(&flow, self.joules, of(|expected| expected.data_flow)),
            },
        }
    }
}

impl Simulation {
    fn text(&self) -> String {
        let mut text = format!(
            "{} nodes, {} iterations, a checkpoint after every {}; means of {} runs, and what the equations give\n\n\
             {:<9} {:>17} {:>31} {:>12} {:>25}\n",
            self.nodes,
            self.iterations,
            self.every,
            self.seeds,
            "",
            "failures",
            "tasks computed again",
            "energy",
            "time"
        );
        let rows = [
            ("global", self.strategies.global.as_ref()),
            ("log", Some(&self.strategies.log)),
            ("dataflow", Some(&self.strategies.dataflow)),
        ];
        for (name, strategy) in rows {
            let line = match strategy {
                None => format!(
                    "{name:<9} never ends: hardly any section of {} iterations is free of failures\n",
                    self.every
                ),
                Some(it) => {
                    let known = |value: fn(&Values) -> f64| {
                        it.expected
                            .as_ref()
                            .map_or_else(|| "-".to_owned(), |it| format!("{:.1}", value(it)))
                    };
                    format!(
                        "{name:<9} {:>8.1} ({:>6}) {:>9.1} ± {:<8.1} ({:>8}) {:>10.3e} J {:>10.0} s ({:>8} s)\n",
                        it.failures,
                        known(|it| it.failures),
                        it.recomputed,
                        it.deviation.recomputed,
                        known(|it| it.recomputed),
                        it.energy_j,
                        it.time_s,
                        known(|it| it.time_s),
                    )
                }
            };
            let _ = text.write_str(&line);
        }
        let _ = writeln!(text, "\nWithout failures it takes {:.0} s.", self.undisturbed_s);
        text
    }
}
