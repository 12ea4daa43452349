//! Functions that several drawings share.
//!
//! Horizontal positions and widths are in percent, and everything else is in pixels, so that text
//! keeps its size on any screen.

use maud::{Markup, html};

/// Draws a time axis below a drawing.
pub fn time_axis(from: u64, to: u64, y: u32) -> Markup {
    let ticks = ticks(from, to);
    html! {
        @for (index, (at, label)) in ticks.iter().enumerate() {
            @let x = percent(*at, from, to);
            // `style.css` hides labels of class `minor` on narrow screens.
            @let class = if index % 2 == 0 { "tick" } else { "tick minor" };
            @let is_at_edge = *at - from < to.saturating_sub(from) / 20;
            line.axis x1=(x) x2=(x) y1="0" y2=(y) {}
            text class=(class) x=(x) y=(y + 14) text-anchor=[is_at_edge.then_some("start")] {
                (label)
            }
        }
    }
}

/// Returns round times for ticks with their labels, at most five.
fn ticks(from: u64, to: u64) -> Vec<(u64, String)> {
    let span = to.saturating_sub(from).max(1);
    let step = round_step(span as f64).max(1.0) as u64;
    let label = |at: u64| match step {
        1_000_000_000.. => format!("{} s", at / 1_000_000_000),
        100_000_000.. => format!("{:.1} s", at as f64 / 1e9),
        1_000_000.. => format!("{:.3} s", at as f64 / 1e9),
        1_000.. => format!("{:.6} s", at as f64 / 1e9),
        _ => format!("{at} ns"),
    };
    let first = from.checked_next_multiple_of(step);
    std::iter::successors(first, |at| at.checked_add(step))
        .take_while(|at| *at <= to.saturating_sub(span / 12))
        .map(|at| (at, label(at)))
        .collect()
}

/// Returns the distance of ticks: 1, 2 or 5 times a power of ten.
///
/// The distance is more than a fifth of the span, so that few ticks are drawn.
pub fn round_step(span: f64) -> f64 {
    let power = 10f64.powf((span / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    steps
        .into_iter()
        .find(|step| span / step < 5.0)
        .unwrap_or(10.0 * power)
}

/// Returns the horizontal position of a time, in percent.
pub fn percent(at: u64, from: u64, to: u64) -> String {
    let span = to.saturating_sub(from).max(1) as f64;
    format!("{:.3}%", at.saturating_sub(from) as f64 / span * 100.0)
}

/// Returns the width of a time range in percent, always wide enough to be visible.
pub fn width(from: u64, to: u64, span: u64) -> String {
    format!(
        "{:.3}%",
        (to.saturating_sub(from) as f64 / span.max(1) as f64 * 100.0).max(0.15)
    )
}

/// Returns the data of a drawing as a table, for readers who need the numbers.
pub fn table(caption: &str, head: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        details {
            summary { (caption) }
            div.wide {
                table {
                    thead { tr { @for name in head { th scope="col" { (name) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |from, to| {
            ticks(from, to)
                .into_iter()
                .map(|(_, label)| label)
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(0, 10_000_000_000), ["0 s", "5 s"]);
        assert_eq!(
            labels(1_500_000_000, 1_540_000_000),
            ["1.500 s", "1.510 s", "1.520 s", "1.530 s"]
        );
        assert!(labels(0, 0).len() <= 5);
        assert_eq!(labels(0, 1_000), ["0 ns", "500 ns"]);
        assert_eq!(
            labels(2_000, 2_400),
            ["2000 ns", "2100 ns", "2200 ns", "2300 ns"]
        );
        for exponent in 0..19 {
            let labels = labels(0, 10u64.pow(exponent));
            let distinct: std::collections::BTreeSet<_> = labels.iter().collect();
            assert_eq!(distinct.len(), labels.len(), "{labels:?}");
        }
        assert!(labels(u64::MAX - 1, u64::MAX).len() <= 5);
        let steps = [
            (4.0, 1.0),
            (5.0, 2.0),
            (9.9, 2.0),
            (10.0, 5.0),
            (0.3, 0.1),
            (35.0, 10.0),
        ];
        for (span, step) in steps {
            assert!((round_step(span) / step - 1.0).abs() < 1e-9, "{span}");
        }
        assert_eq!(percent(5, 0, 20), "25.000%");
    }

    #[test]
    fn a_reversed_range_is_drawn() {
        assert_eq!(width(7, 5, 20), "0.150%");
        assert_eq!(time_axis(7, 5, 10).into_string(), "");
    }
}
