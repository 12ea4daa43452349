//! What is expected on average, without a simulation.
//!
//! The formulas hold where failures are rare against checkpoints, transfers cost nothing and no
//! border is near.

use crate::{Setting, cone};

/// Expected values of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    pub failures: f64,
    /// Seconds, of all three.
    pub time: f64,
    /// Tasks that are computed again.
    pub global: f64,
    pub log: f64,
    pub data_flow: f64,
}

/// T = Iτ / (1 − (C/2)τ n/M): a failure costs half a section on average. `None` if that is nothing
/// or less.
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
    /// Seconds between two failures of one node, on average.
    pub node_mtbf: f64,
    /// Iterations from one checkpoint to the next.
    pub every: u32,
    /// Seconds of a task.
    pub task: f64,
    /// What a node that waits takes less than one that computes, in watts.
    pub watts_saved: f64,
    pub is_chain: bool,
}

/// What idle nodes save.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Savings {
    /// Failures per second of the whole machine.
    pub failure_rate: f64,
    /// Neighbours that take part in a recovery, on average (equation 5).
    pub neighbours: f64,
    /// Nodes that do not (equation 6).
    pub idle: f64,
    /// Joules that each of them saves in a recovery.
    pub joules: f64,
    /// Joules per second (equation 3).
    pub watts: f64,
}

/// S = λ · N_idle · E (equation 3), with the neighbours of equation 4 averaged over the iterations
/// that are lost (equation 5).
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
