//! `understudy simulate`: costs of three ways to roll back on a machine that fails.

mod savings;

use crate::advise::time;
use crate::outcome::{Failure, IMPOSSIBLE, Outcome, USAGE, print, print_json, verdict};
use std::path::PathBuf;
use std::time::Duration;
use understudy_html::simulation_figure;
use understudy_launch::print_message;
use understudy_simulator::model::Machine;
use understudy_simulator::{Grid, Setting, series, simulate};

/// Largest number of partitions; more would take too much memory.
const MOST_NODES: usize = 100_000_000;

/// Simulate a stencil program on a machine that fails, with three ways of rolling back.
#[derive(clap::Args)]
#[command(
    after_help = "Exit status:\n  0  done\n  2  wrong usage\n  3  the figure cannot be \
        written\n\nAll runs of a seed see the same failures. `global`: all nodes go back to the \
        checkpoint; `log`: the lost one does, and gets its\nmessages from logs; `dataflow`: its \
        neighbours compute them again.\n\nThe equations count failures of a whole run, and far \
        from borders. In a simulated run nothing is lost where a node fails while it\nwaits for \
        another's recovery, and cones end at the grid's borders, so on large machines simulated \
        values are lower.\n\nExamples: understudy simulate --grid 32x32 --every 6 --task 10s \
        --node-mtbf 100h\n          understudy simulate --grid 1000 -o figure.svg\n          \
        understudy simulate --model --nodes 100000 --node-mtbf 50y --every 10 --task 4s"
)]
pub struct Arguments {
    /// Nodes with one partition each: a chain (`1000`) or a grid (`32x32`).
    #[arg(long, value_name = "N|NxM", value_parser = grid, required_unless_present = "nodes")]
    grid: Option<Grid>,
    /// Number of iterations of the program.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Number of iterations between two checkpoints.
    #[arg(long, value_name = "C", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Time of one iteration of one partition.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    task: Duration,
    /// Mean time between failures of one node.
    #[arg(long, value_name = "TIME", default_value = "100h", value_parser = time)]
    node_mtbf: Duration,
    /// Energy of a task.
    #[arg(long, value_name = "J", default_value_t = 500.0, value_parser = amount)]
    joules: f64,
    /// Number of runs over which means are taken.
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Time of the exchange between neighbours.
    #[arg(long, value_name = "TIME", value_parser = time)]
    exchange: Option<Duration>,
    /// Time to send the replica of a partition.
    #[arg(long, value_name = "TIME", value_parser = time)]
    copy: Option<Duration>,
    /// Let no node wait for others at a checkpoint (`log` and `dataflow`).
    #[arg(long)]
    no_barrier: bool,
    /// Draw recomputed tasks, energy saved and run time for ten machines up to this size.
    #[arg(short, long, value_name = "FILE.svg", conflicts_with = "model")]
    output: Option<PathBuf>,
    /// Simulate nothing. Print what idle nodes save by the equations, for a chain and for a grid.
    #[arg(long)]
    model: bool,
    /// Number of nodes of the model.
    #[arg(long, value_name = "N", requires = "model", conflicts_with = "grid", value_parser = clap::value_parser!(u64).range(1..))]
    nodes: Option<u64>,
    /// Power that a waiting node saves compared to a computing one.
    #[arg(long, value_name = "W", requires = "model", default_value_t = 10.0, value_parser = amount)]
    watts_saved: f64,
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
        .ok_or_else(|| {
            format!("`{text}` is not a number of nodes (`1000`, `32x32`) up to {MOST_NODES}")
        })
}

/// Parses joules or watts.
fn amount(text: &str) -> Result<f64, String> {
    let found = text
        .parse()
        .ok()
        .filter(|it: &f64| it.is_finite() && *it >= 0.0);
    found.ok_or_else(|| format!("`{text}` is not an amount; give a number, 0 or more"))
}

impl Arguments {
    pub fn run(self) -> Outcome {
        if self.model {
            return savings::show(&self.machine(), self.json);
        }
        let Some(grid) = self.grid else {
            return Err(Failure::with_status(
                USAGE,
                "--grid: give the number of nodes",
            ));
        };
        let setting = self.setting(grid);
        let simulation = simulate(&setting, self.seeds, self.joules);
        if self.json {
            print_json(&simulation)?;
        } else {
            print(simulation.text())?;
        }
        if let Some(path) = &self.output {
            let series = series(&setting, self.seeds, self.joules);
            std::fs::write(path, simulation_figure(&series)).map_err(|error| {
                let path = path.display();
                Failure::with_status(
                    IMPOSSIBLE,
                    format_args!(
                        "the figure cannot be written to {path}: {error}. Name another \
                         file with -o."
                    ),
                )
            })?;
            print_message(format_args!("the figure is {}", path.display()));
        }
        Ok(verdict(true))
    }

    fn setting(&self, grid: Grid) -> Setting {
        let seconds = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64());
        Setting {
            grid,
            iterations: self.iterations,
            every: self.every,
            task: self.task.as_secs_f64(),
            node_mtbf: self.node_mtbf.as_secs_f64(),
            exchange: seconds(self.exchange),
            copy: seconds(self.copy),
            is_coordinated: !self.no_barrier,
        }
    }

    fn machine(&self) -> Machine {
        let of_grid = self.grid.map(|grid| grid.nodes() as f64);
        Machine {
            nodes: of_grid
                .or(self.nodes.map(|nodes| nodes as f64))
                .unwrap_or(1.0),
            node_mtbf: self.node_mtbf.as_secs_f64(),
            every: self.every,
            task: self.task.as_secs_f64(),
            watts_saved: self.watts_saved,
            is_chain: true,
        }
    }
}
