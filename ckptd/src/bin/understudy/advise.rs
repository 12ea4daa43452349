//! `understudy advise`: the best checkpoint interval for a job.

mod annotations;

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, print_json, verdict};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use understudy_formats::checkpoint_interval;
use understudy_formats::duration::parse_duration;
use understudy_launch::print_message;
use understudy_report::{Costs, Job, MarkSavings, Report};

/// Recommend the time between checkpoints, from the costs of checkpoints and of failures.
#[derive(clap::Args)]
#[command(
    after_help = "Exit status:\n  0  advice was given\n  1  advice was given, but an event \
    file is damaged or foreign, so that something is not counted\n  2  wrong usage\n  3  the \
    event files do not contain the cost of a checkpoint\n\nThe cost of a checkpoint is the \
    pause, in which pages are copied; the time that the program loses while they are sent is not \
    counted.\n\nExample: understudy advise events --node-mtbf 5y --nodes 100 --time 48h"
)]
pub struct Arguments {
    /// Event files of a run of the job (UNDERSTUDY_EVENTS), from which costs are taken.
    #[arg(required_unless_present = "cost")]
    dir: Option<PathBuf>,
    /// Mean time between failures of the whole job.
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present = "node_mtbf")]
    mtbf: Option<Duration>,
    /// Mean time between failures of one node.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "nodes", conflicts_with = "mtbf")]
    node_mtbf: Option<Duration>,
    /// Number of nodes of the job.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Computing time of the job without failures.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "24h")]
    time: Duration,
    /// Cost of a checkpoint, instead of the measured one.
    #[arg(long, value_name = "TIME", value_parser = time)]
    cost: Option<Duration>,
    /// Time of a recovery, instead of the measured one.
    #[arg(long, value_name = "TIME", value_parser = time)]
    recovery: Option<Duration>,
    /// Print one JSON object; times are in seconds.
    #[arg(long)]
    json: bool,
}

/// Parses a time on the command line.
pub fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .ok_or_else(|| format!("`{text}` is not a time (`500ms`, `10s`, `5m`, `6h`, `30d`, `5y`)"))
}

/// Recommendation for a job; all times are in seconds.
#[derive(Debug, Serialize)]
struct Advice {
    mtbf: f64,
    cost: f64,
    recovery: f64,
    /// Number of checkpoints in which the cost was measured; 0 with `--cost`.
    measured: u64,
    work: f64,
    young: f64,
    daly: f64,
    /// Best interval including the checkpoint itself.
    liu: f64,
    /// Number of checkpoints with which the job ends soonest.
    count: f64,
    /// Probability that the job has no failure.
    undisturbed: f64,
    expected_without: f64,
    expected_with: f64,
    /// Lower bound with localised rollback.
    expected_local: f64,
    /// Relative extra time of global rollback: `expected_with` compared with `expected_local`.
    penalty: f64,
    /// The penalty by the formula for the best number of checkpoints (Liu, 4.15).
    penalty_of_cost: f64,
    /// The penalty by the formula for short checkpoints (Liu, 4.16).
    penalty_of_short_cost: f64,
    /// Data that annotations of the program have elided from checkpoints, if there are any.
    marks: Option<MarkSavings>,
}

/// Costs and savings according to the event files; none without a directory of event files.
#[derive(Default)]
struct MeasuredCosts {
    costs: Option<Costs>,
    marks: Option<MarkSavings>,
    /// Damage of the files, and changes while they were read.
    problems: Vec<String>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let MeasuredCosts {
            costs,
            marks,
            problems,
        } = self.measured()?;
        let measured =
            |ns: fn(&Costs) -> u64| costs.as_ref().map_or(0.0, |costs| ns(costs) as f64 / 1e9);
        let cost = self
            .cost
            .map_or_else(|| measured(|costs| costs.pause_ns), |it| it.as_secs_f64());
        let recovery = self.recovery.map_or_else(
            || measured(|costs| costs.recovery_ns),
            |it| it.as_secs_f64(),
        );
        let mtbf_of_nodes = self
            .node_mtbf
            .map(|mtbf| mtbf.as_secs_f64() / f64::from(self.nodes.unwrap_or(1)));
        let mtbf = self
            .mtbf
            .map(|mtbf| mtbf.as_secs_f64())
            .or(mtbf_of_nodes)
            .unwrap_or(f64::INFINITY);
        let work = self.time.as_secs_f64();
        let count = checkpoint_interval::optimal_checkpoint_count(work, cost, mtbf).max(1.0);
        let expected_with = checkpoint_interval::expected_time(work, cost, recovery, mtbf, count);
        let expected_local = checkpoint_interval::localised_rollback_limit(work, recovery, mtbf);
        let advice = Advice {
            mtbf,
            cost,
            recovery,
            measured: costs.map_or(0, |costs| {
                if self.cost.is_some() {
                    0
                } else {
                    costs.checkpoints
                }
            }),
            work,
            young: checkpoint_interval::young_interval(cost, mtbf),
            daly: checkpoint_interval::daly_interval(cost, mtbf),
            liu: checkpoint_interval::optimal_period(cost, mtbf),
            count,
            undisturbed: (-work / mtbf).exp(),
            expected_without: checkpoint_interval::expected_time_without_checkpoints(work, mtbf),
            expected_with,
            expected_local,
            penalty: checkpoint_interval::rollback_penalty(expected_with, expected_local),
            penalty_of_cost: checkpoint_interval::rollback_penalty_by_cost(cost, mtbf),
            penalty_of_short_cost: checkpoint_interval::rollback_penalty_by_short_cost(cost, mtbf),
            marks,
        };
        if self.json {
            print_json(&advice)?;
        } else {
            print(advice.text())?;
        }
        problems.iter().for_each(print_message);
        Ok(verdict(problems.is_empty()))
    }

    fn measured(&self) -> Result<MeasuredCosts, Failure> {
        let Some(dir) = &self.dir else {
            return Ok(MeasuredCosts::default());
        };
        let mut report = Report::new(Job::load(dir)?);
        report.check_unchanged();
        let costs = report.costs;
        if costs.is_none() && self.cost.is_none() {
            return Err(Failure::with_status(
                IMPOSSIBLE,
                format_args!(
                    "{}: no checkpoint after the one at the end of MPI_Init, so the cost of a \
                     checkpoint is not known. Let the job run longer, with a shorter \
                     --interval, or give --cost.",
                    dir.display()
                ),
            ));
        }
        let marks = report.marks;
        Ok(MeasuredCosts {
            costs,
            marks,
            problems: report.problems,
        })
    }
}

impl Advice {
    fn text(&self) -> String {
        let from = match self.measured {
            0 => "as given".to_owned(),
            1 => "the pause, measured in 1 checkpoint, its slowest worker".to_owned(),
            count => {
                format!("the pause, measured in {count} checkpoints, the slowest worker of each")
            }
        };
        format!(
            "A checkpoint costs       {} ({from})\nA recovery takes         {}\nTime between \
             failures    {}\nBest interval            {} by Daly's formula, {} by Young's; {} by \
             Liu's, with the checkpoint\n\x20 --interval {}   or   --interval auto --mtbf {}\nTo \
             compute for {} ({:.1}% of such runs see no failure):\n\x20 without protection      \
             {} expected, as each failure restarts it\n\x20 with {:>8.0} intervals {} \
             expected, {:.3}% more than without any failure\n\x20 with localised rollback {} at \
             best: without checkpoints, and no work repeated\nSo rollback costs at most {} \
             ({} by the formula for the best number of checkpoints, {} if they are short).\n{}",
            seconds(self.cost),
            if self.recovery > 0.0 {
                seconds(self.recovery)
            } else {
                "nothing was measured, so no time is counted".to_owned()
            },
            seconds(self.mtbf),
            seconds(self.daly),
            seconds(self.young),
            seconds(self.liu),
            setting(self.daly),
            setting(self.mtbf),
            seconds(self.work),
            self.undisturbed * 100.0,
            seconds(self.expected_without),
            self.count,
            seconds(self.expected_with),
            (self.expected_with / self.work - 1.0) * 100.0,
            seconds(self.expected_local),
            percent(self.penalty),
            percent(self.penalty_of_cost),
            percent(self.penalty_of_short_cost),
            self.marks
                .as_ref()
                .map(annotations::text)
                .unwrap_or_default()
        )
    }
}

fn seconds(time: f64) -> String {
    match time {
        _ if time < 1.0 => format!("{:.3} ms", time * 1e3),
        _ if time < 120.0 => format!("{time:.1} s"),
        _ if time < 7200.0 => format!("{:.1} min", time / 60.0),
        _ if time < 1e8 => format!("{:.1} h", time / 3600.0),
        _ => format!("{:.3e} h", time / 3600.0),
    }
}

fn percent(fraction: f64) -> String {
    format!("{:.3}%", fraction * 100.0)
}

/// Writes a time in the syntax of a setting.
fn setting(time: f64) -> String {
    if time < 10.0 {
        format!("{:.0}ms", time * 1e3)
    } else {
        format!("{time:.0}s")
    }
}
