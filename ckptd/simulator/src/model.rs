//! Expected values by formulas, without a simulation.
//!
//! The formulas hold if failures are rare compared with checkpoints, transfers cost nothing, and no
//! border is near.

use crate::{Setting, cone};

/// Expected values of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    pub failures: f64,
    /// Time in seconds, equal for all three kinds of rollback.
    pub time: f64,
    /// Number of tasks that are computed again with global rollback.
    pub global: f64,
    /// Number of tasks that are computed again with logs.
    pub log: f64,
    /// Number of tasks that are computed again with data flow rollback.
    pub data_flow: f64,
}

/// Returns the expected values; `None` if the run never ends.
///
/// T = Iτ / (1 − (C/2)τ n/M), with I iterations of duration τ, sections of C iterations, n nodes,
/// and the mean time M between failures of one node: a failure costs half a section on average. The
/// run never ends if the denominator is not positive.
pub fn expected(setting: &Setting) -> Option<Expected> {
    let nodes = setting.grid.nodes() as f64;
    let section = f64::from(setting.every) * setting.task;
    let rest = 1.0 - section / 2.0 * nodes / setting.node_mtbf;
    if rest <= 0.0 {
        return None;
    }
    let time = f64::from(setting.iterations) * setting.task / rest;
    let failures = nodes * time / setting.node_mtbf;
    let is_chain = setting.grid.is_chain();
    let cones: f64 = (0..setting.every)
        .map(|lost| cone::inner_tasks(f64::from(lost), is_chain))
        .sum();
    let lost = f64::from(setting.every - 1) / 2.0;
    Some(Expected {
        failures,
        time,
        global: failures * nodes * lost,
        log: failures * lost,
        data_flow: failures * cones / f64::from(setting.every),
    })
}

/// A machine for [`savings`].
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub nodes: f64,
    /// Mean time between two failures of one node, in seconds.
    pub node_mtbf: f64,
    /// Number of iterations between two checkpoints.
    pub every: u32,
    /// Duration of a task, in seconds.
    pub task: f64,
    /// Difference in power between a computing and a waiting node, in watts.
    pub watts_saved: f64,
    pub is_chain: bool,
}

/// Energy that idle nodes save.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Savings {
    /// Failures per second of the whole machine.
    pub failure_rate: f64,
    /// Mean number of neighbours that take part in a recovery (equation 5).
    pub neighbours: f64,
    /// Number of nodes that do not take part (equation 6).
    pub idle: f64,
    /// Energy that each idle node saves in a recovery, in joules.
    pub joules: f64,
    /// Power saved by the whole machine, in watts (equation 3).
    pub watts: f64,
}

/// Returns the savings S = λ · N_idle · E (equation 3).
///
/// The neighbours of equation 4 are averaged over the iterations that are lost (equation 5).
pub fn savings(machine: &Machine) -> Savings {
    let every = f64::from(machine.every);
    let sum: f64 = (0..machine.every)
        .map(|lost| cone::neighbours(f64::from(lost), machine.is_chain))
        .sum();
    let neighbours = sum / every;
    let failure_rate = machine.nodes / machine.node_mtbf;
    let idle = (machine.nodes - 1.0 - neighbours).max(0.0);
    let joules = machine.watts_saved * machine.task * every / 2.0;
    Savings {
        failure_rate,
        neighbours,
        idle,
        joules,
        watts: failure_rate * idle * joules,
    }
}
