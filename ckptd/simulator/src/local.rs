//! Local rollback: only the lost partition is rolled back, with logs or duplicates of neighbours.
//!
//! Both variants take the same time, because the duplicates compute at the same time as the lost
//! partition. They differ in the number of tasks that are computed.

use crate::{Failures, Run, Setting, cone};

/// Results of both variants for the same failures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Local {
    pub log: Run,
    pub data_flow: Run,
}

/// Simulates one run with each variant, for the same failures.
pub fn local(setting: &Setting, failures: Failures) -> Local {
    let nodes = setting.grid.nodes();
    let state = LocalSimulation {
        setting,
        failures,
        ended: vec![0.0; nodes],
        before: vec![0.0; nodes],
        found: Local::default(),
    };
    state.run()
}

struct LocalSimulation<'a> {
    setting: &'a Setting,
    failures: Failures,
    /// End of each partition's last task.
    ended: Vec<f64>,
    /// End of each partition's last task but one.
    before: Vec<f64>,
    found: Local,
}

impl LocalSimulation<'_> {
    fn run(mut self) -> Local {
        let (mut done, mut time) = (0, 0.0);
        while done < self.setting.iterations {
            let (count, copy) = self.setting.section(done);
            let quiet_end = time + f64::from(count) * self.setting.iteration() + copy;
            if self.setting.is_coordinated && self.failures.earliest() >= quiet_end {
                self.ended.fill(quiet_end);
            } else {
                (1..=count).for_each(|iteration| self.iterate(iteration));
                self.checkpoint(copy);
            }
            time = latest(&self.ended);
            done += count;
        }
        self.found.log.time = time;
        self.found.data_flow.time = time;
        self.found
    }

    /// Simulates one iteration; `iteration` counts from the checkpoint.
    fn iterate(&mut self, iteration: u32) {
        std::mem::swap(&mut self.ended, &mut self.before);
        let grid = self.setting.grid;
        let (task, exchange) = (self.setting.task, self.setting.exchange);
        for row in 0..grid.height {
            for column in 0..grid.width {
                let node = row * grid.width + column;
                let mut needs = f64::NEG_INFINITY;
                let mut add_neighbour = |exists: bool, other: usize| {
                    if exists {
                        needs = needs.max(self.before[other]);
                    }
                };
                add_neighbour(column > 0, node.wrapping_sub(1));
                add_neighbour(column + 1 < grid.width, node + 1);
                add_neighbour(row > 0, node.wrapping_sub(grid.width));
                add_neighbour(row + 1 < grid.height, node + grid.width);
                let own = self.before[node];
                let end = own.max(needs + exchange) + task;
                self.ended[node] = if self.failures.next(node) < end {
                    self.survive(node, needs + exchange, task, iteration - 1, end)
                } else {
                    end
                };
            }
        }
    }

    /// Returns the end of a task whose node fails before `end`.
    ///
    /// The task begins anew when the `lost` iterations have been computed again and its inputs have
    /// arrived (`needs`).
    #[cold]
    fn survive(&mut self, node: usize, needs: f64, task: f64, lost: u32, mut end: f64) -> f64 {
        let step = self.setting.task;
        while self.failures.next(node) < end {
            let begun = self.failures.next(node);
            let again = begun + f64::from(lost) * step;
            self.failures.draw_next(node);
            let failed = self.failures.next(node).min(again);
            let done = if failed < again {
                ((failed - begun) / step).floor() as usize
            } else {
                lost as usize
            };
            let Local { log, data_flow } = &mut self.found;
            log.failures += 1;
            data_flow.failures += 1;
            log.recomputed += done as f64;
            data_flow.recomputed +=
                cone::tasks(self.setting.grid, node, lost as usize, done) as f64;
            end = again.max(needs) + task;
        }
        end
    }

    /// Takes a checkpoint after the last iteration of a section.
    ///
    /// The results of the section are safe: a node that fails while it waits for other nodes loses
    /// nothing.
    fn checkpoint(&mut self, copy: f64) {
        if !self.setting.is_coordinated {
            self.ended.iter_mut().for_each(|end| *end += copy);
            return;
        }
        let mut end = latest(&self.ended) + copy;
        while self.failures.earliest() < end {
            for node in 0..self.ended.len() {
                if self.failures.next(node) < end {
                    self.ended[node] = self.survive(node, 0.0, 0.0, 0, end);
                }
            }
            end = end.max(latest(&self.ended) + copy);
        }
        self.ended.fill(end);
    }
}

fn latest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}
