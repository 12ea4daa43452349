//! Simulated runs over seeds, together with the results of the equations.

use crate::model::{self, Expected};
use crate::{Failures, Grid, Local, Run, Setting, global, local};
use serde::Serialize;

/// Number of machines of a [`series`].
const SIZES: usize = 10;

/// Results of one kind of rollback.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Values {
    pub failures: f64,
    /// Tasks that are computed again.
    pub recomputed: f64,
    pub energy_j: f64,
    /// Duration of the whole run, in seconds.
    pub time_s: f64,
}

impl Values {
    fn new(run: &Run, joules: f64) -> Self {
        Self {
            failures: run.failures as f64,
            recomputed: run.recomputed,
            energy_j: run.recomputed * joules,
            time_s: run.time,
        }
    }

    /// Applies a function to each pair of equally named fields.
    fn combine(self, other: Self, function: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            failures: function(self.failures, other.failures),
            recomputed: function(self.recomputed, other.recomputed),
            energy_j: function(self.energy_j, other.energy_j),
            time_s: function(self.time_s, other.time_s),
        }
    }
}

/// Values of one kind of rollback.
///
/// The values are means over all seeds, standard deviations, and results of the equations.
#[derive(Debug, Serialize)]
pub struct Strategy {
    #[serde(flatten)]
    pub mean: Values,
    pub deviation: Values,
    /// Results of the equations; `None` if the run never ends by them.
    pub expected: Option<Values>,
}

impl Strategy {
    fn new(runs: &[Run], joules: f64, expected: Option<Values>) -> Self {
        let count = runs.len() as f64;
        let values = || runs.iter().map(|run| Values::new(run, joules));
        let sum = values().fold(Values::default(), |sum, run| sum.combine(run, |a, b| a + b));
        let mean = sum.combine(sum, |sum, _| sum / count);
        let squares = values().fold(Values::default(), |sum, run| {
            let square = run.combine(mean, |value, mean| (value - mean).powi(2));
            sum.combine(square, |a, b| a + b)
        });
        Self {
            mean,
            deviation: squares.combine(squares, |sum, _| (sum / (count - 1.0).max(1.0)).sqrt()),
            expected,
        }
    }
}

/// Results of all kinds of rollback, for the same failures.
#[derive(Debug, Serialize)]
pub struct Strategies {
    /// `None` if the run never ends.
    pub global: Option<Strategy>,
    pub log: Strategy,
    pub dataflow: Strategy,
}

/// All runs of one machine.
#[derive(Debug, Serialize)]
pub struct Simulation {
    pub nodes: usize,
    iterations: u32,
    every: u32,
    seeds: u64,
    pub undisturbed_s: f64,
    pub strategies: Strategies,
}

/// Simulates runs with all seeds; `joules` is the energy of a task.
pub fn simulate(setting: &Setting, seeds: u64, joules: f64) -> Simulation {
    let nodes = setting.grid.nodes();
    let (mut all, mut log, mut flow) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 0..seeds {
        let failures = Failures::new(seed, nodes, setting.node_mtbf);
        let Local {
            log: by_log,
            data_flow,
        } = local(setting, failures.clone());
        all.extend(global(setting, failures));
        log.push(by_log);
        flow.push(data_flow);
    }
    let expected = model::expected(setting);
    let expected_values = |recomputed: fn(&Expected) -> f64| {
        expected.map(|expected| Values {
            failures: expected.failures,
            recomputed: recomputed(&expected),
            energy_j: recomputed(&expected) * joules,
            time_s: expected.time,
        })
    };
    let strategy =
        |runs: &[Run], recomputed| Strategy::new(runs, joules, expected_values(recomputed));
    Simulation {
        nodes,
        iterations: setting.iterations,
        every: setting.every,
        seeds,
        undisturbed_s: f64::from(setting.iterations) * setting.task,
        strategies: Strategies {
            global: (!all.is_empty()).then(|| strategy(&all, |it| it.global)),
            log: strategy(&log, |it| it.log),
            dataflow: strategy(&flow, |it| it.data_flow),
        },
    }
}

/// Simulates machines of one shape, from a tenth of the size to the whole size.
pub fn series(setting: &Setting, seeds: u64, joules: f64) -> Vec<Simulation> {
    let mut grids: Vec<Grid> = (1..=SIZES)
        .map(|tenths| scaled_grid(setting.grid, tenths))
        .collect();
    grids.dedup();
    let settings = grids.into_iter().map(|grid| Setting { grid, ..*setting });
    settings
        .map(|setting| simulate(&setting, seeds, joules))
        .collect()
}

/// Returns a grid with some tenths of the nodes, but at least one node.
fn scaled_grid(grid: Grid, tenths: usize) -> Grid {
    let share = tenths as f64 / SIZES as f64;
    let scaled = |length: usize, share: f64| ((length as f64 * share).round() as usize).max(1);
    if grid.is_chain() {
        Grid::chain(scaled(grid.nodes(), share))
    } else {
        Grid {
            width: scaled(grid.width, share.sqrt()),
            height: scaled(grid.height, share.sqrt()),
        }
    }
}

impl Simulation {
    /// Returns a table of all values.
    ///
    /// Each value has a row, and each kind of rollback a column.
    pub fn text(&self) -> String {
        let Strategies {
            global,
            log,
            dataflow,
        } = &self.strategies;
        let columns = [global.as_ref(), Some(log), Some(dataflow)];
        let row = |label: &str, digits: usize, value: fn(&Values) -> f64| {
            let cell = |strategy: &Option<&Strategy>| match strategy {
                None => format!("{:>34}", "never ends"),
                Some(strategy) => {
                    let number = |values: &Values| number(value(values), digits);
                    let expected = strategy.expected.as_ref();
                    let expected = expected.map_or_else(|| "-".to_owned(), number);
                    format!(
                        "{:>12} ± {:<8} ({expected:>8})",
                        number(&strategy.mean),
                        number(&strategy.deviation)
                    )
                }
            };
            let cells: String = columns.iter().map(cell).collect();
            format!("{label:<20}{cells}\n")
        };
        let mut text = format!(
            "{} nodes, {} iterations, a checkpoint after every {}; means of {} runs ± their \
             deviation (results of the equations)\n\n\
             {:<20}{:>34}{:>34}{:>34}\n{}{}{}{}\nWithout failures the run takes {:.0} s.\n",
            self.nodes,
            self.iterations,
            self.every,
            self.seeds,
            "",
            "global",
            "log",
            "dataflow",
            row("failures", 1, |it| it.failures),
            row("tasks computed again", 1, |it| it.recomputed),
            row("their energy, J", 0, |it| it.energy_j),
            row("time, s", 0, |it| it.time_s),
            self.undisturbed_s,
        );
        if global.is_none() {
            let every = self.every;
            text += &format!(
                "With global rollback the run never ends: hardly any section of {every} iterations \
                 is free of failures.\n"
            );
        }
        text
    }
}

/// Formats a number in at most eight characters.
fn number(value: f64, digits: usize) -> String {
    if value < 1e7 {
        format!("{value:.*}", if value < 1e5 { digits } else { 0 })
    } else {
        format!("{value:.2e}")
    }
}
