//! `--model`: savings of idle nodes by equations 3 to 6, without a simulation.

use crate::outcome::{Outcome, print, print_json, verdict};
use serde::Serialize;
use understudy_simulator::model::{Machine, Savings, savings};

/// Values for one shape of machine, a chain or a grid.
#[derive(Debug, Serialize)]
struct Shape {
    neighbours: f64,
    idle: f64,
    watts: f64,
}

/// Values of the equations; times are in seconds.
#[derive(Debug, Serialize)]
struct Model {
    nodes: f64,
    every: u32,
    failures_per_s: f64,
    joules: f64,
    chain: Shape,
    grid: Shape,
}

/// Prints the equations' values for a machine, both as a chain and as a grid.
pub fn show(machine: &Machine, is_json: bool) -> Outcome {
    let model = Model::new(machine);
    if is_json {
        print_json(&model)?;
    } else {
        print(model.text())?;
    }
    Ok(verdict(true))
}

impl Model {
    fn new(machine: &Machine) -> Self {
        let savings_of = |is_chain| {
            savings(&Machine {
                is_chain,
                ..*machine
            })
        };
        let shape = |savings: &Savings| Shape {
            neighbours: savings.neighbours,
            idle: savings.idle,
            watts: savings.watts,
        };
        let (chain, grid) = (savings_of(true), savings_of(false));
        Self {
            nodes: machine.nodes,
            every: machine.every,
            failures_per_s: chain.failure_rate,
            joules: chain.joules,
            chain: shape(&chain),
            grid: shape(&grid),
        }
    }

    fn text(&self) -> String {
        let row = |label: &str, value: fn(&Shape) -> f64| {
            format!(
                "{label:<58} {:>14.3} {:>14.3}\n",
                value(&self.chain),
                value(&self.grid)
            )
        };
        format!(
            "{} nodes, a checkpoint after every {} iterations: {:.3e} failures per second, and \
             each idle node saves {:.1} J in a recovery.\n\n{:<58} {:>14} {:>14}\n{}{}{}",
            self.nodes,
            self.every,
            self.failures_per_s,
            self.joules,
            "",
            "chain",
            "grid",
            row(
                "neighbours that compute again, on average (equation 5)",
                |it| it.neighbours
            ),
            row("nodes that are idle meanwhile (equation 6)", |it| it.idle),
            row("energy saved per second, in watts (equation 3)", |it| it
                .watts),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 100,000 nodes saves about 1267 W, as chain or as grid.
    #[test]
    fn a_large_machine_saves_as_published() {
        let model = Model::new(&Machine {
            nodes: 1e5,
            node_mtbf: 50.0 * 365.25 * 86_400.0,
            every: 10,
            task: 4.0,
            watts_saved: 10.0,
            is_chain: true,
        });
        assert!((model.chain.watts - 1267.4).abs() < 0.5, "{model:?}");
        assert!((model.grid.watts - 1266.7).abs() < 0.5, "{model:?}");
        assert_eq!((model.chain.neighbours, model.grid.neighbours), (9.0, 66.0));
        let text = model.text();
        assert!(
            text.lines()
                .any(|line| line.ends_with("1267.397       1266.674")),
            "{text}"
        );
    }
}
