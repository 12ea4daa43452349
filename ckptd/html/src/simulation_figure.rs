//! Figure of `understudy simulate -o`: recomputed tasks, saved energy and run time.
//!
//! The horizontal axis is the number of nodes. The panels are figures 6a to 6c of the paper that
//! `understudy_simulator` names. The file is self-contained and includes its colours, so that any
//! program that displays SVG can show it.

use crate::chart::round_step;
use maud::{Markup, PreEscaped, html};
use understudy_simulator::{Simulation, Strategy, Values};

const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 300.0;
/// Left margin of a panel's plot, with the labels of the vertical axis.
const LEFT: f64 = 52.0;
/// Right margin.
const RIGHT: f64 = 18.0;
/// Margin above the plot, with the title.
const TOP: f64 = 34.0;
/// Margin below the plot, with the labels of the horizontal axis.
const BOTTOM: f64 = 44.0;

/// A curve: simulated means with deviations, and the values of the equations.
struct Curve {
    name: &'static str,
    points: Vec<Point>,
    equation: Vec<(f64, f64)>,
}

struct Point {
    nodes: f64,
    mean: f64,
    deviation: f64,
}

struct Panel {
    title: String,
    curves: Vec<Curve>,
    y: Axis,
    /// Message in place of missing data.
    note: Option<&'static str>,
}

/// Range of an axis.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    is_log: bool,
}

/// Draws the figure; `series` has one simulation for each number of nodes, smallest first.
pub fn simulation_figure(series: &[Simulation]) -> String {
    let panels = [recomputed(series), saved(series), time(series)];
    let most = series.iter().map(|it| it.nodes).max().unwrap_or(1) as f64;
    let names = ["global", "log", "dataflow"];
    let width = WIDTH * panels.len() as f64;
    let label = "Simulated recomputed tasks, energy saved and run time, by the number of nodes";
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(label)
            width=(width) height=(HEIGHT + 30.0) viewBox={"0 0 " (width) " " (HEIGHT + 30.0)} {
            title { (label) }
            style { (PreEscaped(include_str!("figure.css"))) }
            @for (index, panel) in panels.iter().enumerate() {
                g transform={"translate(" (WIDTH * index as f64) " 0)"} { (panel.draw(most)) }
            }
            g transform={"translate(" (LEFT) " " (HEIGHT + 14.0) ")"} {
                @for (index, name) in names.iter().enumerate() {
                    @let x = 110.0 * index as f64;
                    line class={"line " (name)} x1=(x) x2=(x + 28.0) y1="0" y2="0" {}
                    (mark(name, x + 14.0, 0.0))
                    text x=(x + 34.0) y="4" { (name) }
                }
                line class="equation log" x1="330" x2="358" y1="0" y2="0" {}
                text x="364" y="4" { "by the equations; bars are standard deviations" }
            }
        }
    };
    markup.into_string()
}

/// Returns figure 6a; its axis is logarithmic, because the curves differ by orders of magnitude.
fn recomputed(series: &[Simulation]) -> Panel {
    let curves = all(series, 1.0, |it| it.recomputed);
    let values = curves
        .iter()
        .flat_map(Curve::values)
        .filter(|value| *value > 0.0);
    let (least, most) = values.fold((f64::MAX, 1.0f64), |(least, most), it| {
        (least.min(it), most.max(it))
    });
    Panel {
        title: "(a) tasks computed again".into(),
        curves,
        y: Axis {
            from: 10f64.powf(least.min(most).log10().floor()),
            to: 10f64.powf(most.log10().ceil()).max(10.0),
            is_log: true,
        },
        note: None,
    }
}

/// Returns figure 6b: energy that local rollback saves compared with global rollback.
fn saved(series: &[Simulation]) -> Panel {
    let pairs = || {
        let both =
            |it| -> Option<(&Simulation, &Strategy)> { Some((it, it.strategies.global.as_ref()?)) };
        series.iter().filter_map(both)
    };
    let most = pairs()
        .map(|(_, global)| global.mean.energy_j)
        .fold(1.0, f64::max);
    let (unit, scale) = unit(
        most,
        &[
            (1.0, "J"),
            (1e3, "kJ"),
            (1e6, "MJ"),
            (1e9, "GJ"),
            (1e12, "TJ"),
        ],
    );
    let points = pairs().map(|(it, global)| Point {
        nodes: it.nodes as f64,
        mean: (global.mean.energy_j - it.strategies.dataflow.mean.energy_j) / scale,
        deviation: global.deviation.energy_j / scale,
    });
    let equation = pairs().filter_map(|(it, global)| {
        let saved = global.expected?.energy_j - it.strategies.dataflow.expected?.energy_j;
        Some((it.nodes as f64, saved / scale))
    });
    let curve = Curve {
        name: "dataflow",
        points: points.collect(),
        equation: equation.collect(),
    };
    Panel::linear(
        format!("(b) energy saved by dataflow, {unit}"),
        vec![curve],
        0.0,
    )
}

/// Returns figure 6c: the run time.
fn time(series: &[Simulation]) -> Panel {
    let most = series
        .iter()
        .map(|it| it.strategies.log.mean.time_s)
        .fold(1.0, f64::max);
    let (unit, scale) = unit(
        most,
        &[(1.0, "s"), (60.0, "min"), (3600.0, "h"), (86_400.0, "d")],
    );
    let least = series
        .iter()
        .map(|it| it.undisturbed_s)
        .fold(f64::MAX, f64::min)
        / scale;
    Panel::linear(
        format!("(c) run time, {unit} (log as dataflow)"),
        all(series, scale, |it| it.time_s),
        least,
    )
}

/// Returns a curve for each kind of rollback.
fn all(series: &[Simulation], scale: f64, value: fn(&Values) -> f64) -> Vec<Curve> {
    let curve = |name, strategy_of: fn(&Simulation) -> Option<&Strategy>| {
        let known = || {
            series
                .iter()
                .filter_map(|it| Some((it.nodes as f64, strategy_of(it)?)))
        };
        let point = |(nodes, it): (f64, &Strategy)| Point {
            nodes,
            mean: value(&it.mean) / scale,
            deviation: value(&it.deviation) / scale,
        };
        let expected =
            |(nodes, it): (f64, &Strategy)| Some((nodes, value(it.expected.as_ref()?) / scale));
        Curve {
            name,
            points: known().map(point).collect(),
            equation: known().filter_map(expected).collect(),
        }
    };
    vec![
        curve("global", |it| it.strategies.global.as_ref()),
        curve("log", |it| Some(&it.strategies.log)),
        curve("dataflow", |it| Some(&it.strategies.dataflow)),
    ]
}

/// Returns the largest unit in which the greatest value is at least 2.
///
/// Returns the first unit if the value is less than 2 in each.
fn unit(most: f64, units: &[(f64, &'static str)]) -> (&'static str, f64) {
    let fits = units.iter().rev().find(|(scale, _)| most >= 2.0 * scale);
    fits.map_or((units[0].1, units[0].0), |(scale, name)| (name, *scale))
}

impl Curve {
    fn values(&self) -> impl Iterator<Item = f64> {
        let ends = self
            .points
            .iter()
            .flat_map(|it| [it.mean, it.mean + it.deviation]);
        ends.chain(self.equation.iter().map(|(_, value)| *value))
    }
}

impl Panel {
    fn linear(title: String, curves: Vec<Curve>, from: f64) -> Self {
        let most = curves.iter().flat_map(Curve::values).fold(from, f64::max);
        let to = if most > from { most } else { from + 1.0 };
        let y = Axis {
            from,
            to,
            is_log: false,
        };
        let is_empty = curves.iter().all(|it| it.points.is_empty());
        let note = is_empty.then_some("With global rollback, no run ends.");
        Self {
            title,
            curves,
            y,
            note,
        }
    }

    fn draw(&self, most: f64) -> Markup {
        let nodes = Axis {
            from: 0.0,
            to: most,
            is_log: false,
        };
        let x = |value: f64| round(LEFT + nodes.share(value) * (WIDTH - LEFT - RIGHT));
        let y = |value: f64| round(HEIGHT - BOTTOM - self.y.share(value) * (HEIGHT - TOP - BOTTOM));
        let path = |points: &mut dyn Iterator<Item = (f64, f64)>| {
            let places: Vec<String> = points
                .map(|(nodes, value)| format!("{},{}", x(nodes), y(value)))
                .collect();
            places.join(" ")
        };
        html! {
            text.head x=(LEFT) y="16" { (self.title) }
            @for tick in self.y.ticks() {
                line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y(tick)) y2=(y(tick)) {}
                text class="tick end" x=(LEFT - 6.0) y=(y(tick) + 4.0) { (show(tick)) }
            }
            @for tick in nodes.ticks() {
                line.axis x1=(x(tick)) x2=(x(tick)) y1=(HEIGHT - BOTTOM) y2=(HEIGHT - BOTTOM + 4.0) {}
                text class="tick middle" x=(x(tick)) y=(HEIGHT - BOTTOM + 18.0) { (show(tick)) }
            }
            @let middle = (LEFT + WIDTH - RIGHT) / 2.0;
            text class="tick middle" x=(middle) y=(HEIGHT - 8.0) { "nodes" }
            @if let Some(note) = self.note {
                text.middle x=(middle) y=(HEIGHT * 0.4) { (note) }
            }
            @for curve in &self.curves {
                polyline class={"equation " (curve.name)} points=(path(&mut curve.equation.iter().copied())) {}
                polyline class={"line " (curve.name)} points=(path(&mut curve.points.iter().map(|it| (it.nodes, it.mean)))) {}
                @for it in &curve.points {
                    line class=(curve.name) x1=(x(it.nodes)) x2=(x(it.nodes)) y1=(y(it.mean - it.deviation)) y2=(y(it.mean + it.deviation)) {}
                    (mark(curve.name, x(it.nodes), y(it.mean)))
                }
            }
        }
    }
}

/// Draws a symbol; shapes distinguish curves where colours do not.
fn mark(name: &str, x: f64, y: f64) -> Markup {
    let class = format!("mark {name}");
    html! {
        @match name {
            "global" => rect class=(class) x=(x - 3.0) y=(y - 3.0) width="6" height="6" {},
            "log" => circle class=(class) cx=(x) cy=(y) r="3.2" {},
            _ => path class=(class) d={"M" (x) " " (y - 4.5) "l4.5 4.5l-4.5 4.5l-4.5 -4.5z"} {},
        }
    }
}

impl Axis {
    /// Returns the relative position of a value on the axis, limited to 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let at = |value: f64| {
            if self.is_log {
                value.max(self.from).log10()
            } else {
                value
            }
        };
        ((at(value) - at(self.from)) / (at(self.to) - at(self.from))).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let exponents = self.from.log10().round() as i32..=self.to.log10().round() as i32;
            return exponents.map(|exponent| 10f64.powi(exponent)).collect();
        }
        let step = round_step(self.to - self.from);
        let ticks = (self.from / step).ceil() as i64..=(self.to / step).floor() as i64;
        ticks.map(|index| index as f64 * step).collect()
    }
}

/// Rounds a position to tenths of a pixel.
fn round(position: f64) -> f64 {
    (position * 10.0).round() / 10.0
}

/// Formats the round number of a tick.
fn show(value: f64) -> String {
    match value {
        _ if value >= 1e15 => format!("{value:.0e}"),
        _ if value >= 1e6 => format!("{}M", value / 1e6),
        _ if value >= 1e4 => format!("{}k", value / 1e3),
        _ => {
            let text = format!("{value:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_easily() {
        let shown = [0.0, 0.5, 2.75, 200.0, 9000.0, 5e5, 1e6, 2.5e6].map(show);
        assert_eq!(
            shown,
            ["0", "0.5", "2.75", "200", "9000", "500k", "1M", "2.5M"]
        );
        let ticks = |from, to, is_log| Axis { from, to, is_log }.ticks();
        assert_eq!(ticks(10.0, 1e4, true), [10.0, 100.0, 1e3, 1e4]);
        assert_eq!(ticks(2.7, 7.1, false), [3.0, 4.0, 5.0, 6.0, 7.0]);
    }

    #[test]
    fn values_are_drawn_at_their_height() {
        let y = Axis {
            from: 1.0,
            to: 1e4,
            is_log: true,
        };
        assert_eq!(
            [0.0, 1.0, 100.0, 1e4, 1e9].map(|it| y.share(it)),
            [0.0, 0.0, 0.5, 1.0, 1.0]
        );
        assert_eq!(
            unit(71_000.0 * 500.0, &[(1.0, "J"), (1e6, "MJ")]),
            ("MJ", 1e6)
        );
        assert_eq!(unit(0.5, &[(1.0, "J"), (1e6, "MJ")]), ("J", 1.0));
    }
}
