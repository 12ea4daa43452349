//! Draws the README's picture from the event files of a run: `make picture`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use understudy_formats::events::{Kind, ProcessNumber, Role};
use understudy_report::{Event, Job, Recovery, Report};

const WIDTH: f64 = 860.0;
/// Right edge of the names of the ranks.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 46.0;
const BAND: f64 = 26.0;
const STEP: f64 = 38.0;

/// Style sheet with light bars and dark words in them.
///
/// Words beside the bars have other colours in a light and in a dark environment.
const STYLE: &str = "text{font:13px \
    system-ui,sans-serif;fill:#57606a}.in{fill:#14181d}.dead{fill:#cf222e;font-weight:bold}.end{text-anchor:end}.compute{fill:#9fd08c}.cut{fill:#5aa9e6}.recovery{fill:#f2a65a}.wait{fill:#c4ccd4}.line{stroke:#8b949e;stroke-dasharray:4 \
    3}.back{stroke:#cf222e;fill:none;stroke-width:1.5}@media(prefers-color-scheme:dark){text{fill:#c9d1d9}.in{fill:#14181d}.dead{fill:#ff7b72}.back{stroke:#ff7b72}}";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [events, picture] = arguments.as_slice() else {
        panic!("usage: picture EVENTS PICTURE.svg");
    };
    let report = Report::new(Job::load(Path::new(events)).expect("a run was recorded there"));
    let recovery = report.recoveries.first().expect("the run has a recovery");
    std::fs::write(
        picture,
        Drawing::new(&report.timeline.iter().collect::<Vec<_>>(), recovery).svg(recovery),
    )
    .expect("the picture can be written");
}

/// Events and points in time of a drawing.
struct Drawing<'a> {
    events: &'a [Event],
    ranks: BTreeMap<ProcessNumber, Role>,
    from: u64,
    to: u64,
    killed: u64,
    noticed: u64,
    resumed: u64,
    /// Time of the cut of the restored checkpoint.
    cut: u64,
}

impl<'a> Drawing<'a> {
    fn new(events: &'a [Event], recovery: &Recovery) -> Self {
        let killed = recovery
            .failed
            .iter()
            .find_map(|failed| failed.killed_ns)
            .expect("an injected fault has killed the rank");
        let noticed = recovery
            .detected_ns
            .expect("the failure was detected")
            .max(killed);
        let resumed = recovery.resumed_ns.expect("the program has resumed");
        let is_cut = |event: &&Event| match event.kind {
            Kind::Capture { epoch, .. } => Some(epoch) == recovery.epoch,
            _ => false,
        };
        let captured = events.iter().filter(is_cut).map(|event| event.at_ns);
        let cut = captured
            .filter(|at| *at < killed)
            .max()
            .expect("the restored checkpoint was captured");
        let margin = (resumed - cut) / 4;
        let ranks = events.iter().filter_map(|event| match event.kind {
            Kind::Start { role, .. } => Some((event.rank, role)),
            _ => None,
        });
        Self {
            events,
            ranks: ranks.collect(),
            from: cut - margin,
            to: resumed + 2 * margin,
            killed,
            noticed,
            resumed,
            cut,
        }
    }

    fn x(&self, at: u64) -> f64 {
        let share = at.clamp(self.from, self.to).saturating_sub(self.from) as f64
            / (self.to - self.from) as f64;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn svg(&self, recovery: &Recovery) -> String {
        let bottom = TOP + STEP * self.ranks.len() as f64;
        let failed = recovery.failed[0].rank;
        let takeover = recovery.takeovers.first().expect("a spare took over");
        let title = format!(
            "Rank {failed} is killed; all workers return to checkpoint {}, and rank {}, a spare, \
             continues as worker {}",
            recovery.epoch.expect("a checkpoint"),
            takeover.rank,
            takeover.as_worker.0
        );
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
             aria-label=\"{title}\"><title>{title}</title><style>{STYLE}</style>\n",
            bottom + 64.0
        );
        for (row, (rank, role)) in self.ranks.iter().enumerate() {
            let y = TOP + STEP * row as f64;
            let name = match role {
                Role::Worker(worker) => format!("rank {rank}: worker {}", worker.0),
                Role::Spare(_) => format!("rank {rank}: a spare"),
            };
            text(&mut out, 0.0, y + 17.0, "", &name);
            if *rank == failed {
                self.bar(&mut out, y, "compute", self.from, self.killed);
                text(
                    &mut out,
                    self.x(self.killed) + 6.0,
                    y + 17.0,
                    "dead",
                    "✕ killed",
                );
            } else if *rank == takeover.rank {
                self.bar(&mut out, y, "wait", self.from, self.noticed);
                self.bar(&mut out, y, "recovery", self.noticed, self.resumed);
                self.bar(&mut out, y, "compute", self.resumed, self.to);
            } else {
                self.bar(&mut out, y, "compute", self.from, self.noticed);
                self.bar(&mut out, y, "recovery", self.noticed, self.resumed);
                self.bar(&mut out, y, "compute", self.resumed, self.to);
            }
            self.cuts(&mut out, y, *rank);
            if *rank == takeover.rank {
                text(&mut out, LEFT + 8.0, y + 17.0, "in", "sleeps");
                let now = format!("is worker {} now", takeover.as_worker.0);
                text(&mut out, self.x(self.resumed) + 8.0, y + 17.0, "in", &now);
            }
        }
        self.remarks(&mut out, recovery, bottom);
        out.push_str("</svg>\n");
        out
    }

    /// Draws the lines and words above and below the bars, and the legend.
    fn remarks(&self, out: &mut String, recovery: &Recovery, bottom: f64) {
        let (cut, resumed) = (self.x(self.cut), self.x(self.resumed));
        let epoch = recovery.epoch.expect("a checkpoint");
        let _ = writeln!(
            out,
            "<path class=\"line\" d=\"M{cut:.1} {} V{bottom:.1}\"/><path class=\"back\" \
             d=\"M{resumed:.1} {y} H{:.1} m7 -4 l-7 4 l7 4\"/>",
            TOP - 22.0,
            cut + 2.0,
            y = TOP - 10.0
        );
        let label = format!("checkpoint {}", epoch);
        text(out, cut - 6.0, TOP - 18.0, "end", &label);
        text(out, cut + 6.0, TOP - 18.0, "", "all return");
        let took = format!(
            "{:.0} ms from the kill to the next step",
            (self.resumed - self.killed) as f64 / 1e6
        );
        let killed = self.x(self.killed);
        let _ = writeln!(
            out,
            "<path class=\"back\" d=\"M{killed:.1} {bottom} v8 H{resumed:.1} v-8\"/>"
        );
        text(out, killed, bottom + 24.0, "dead", &took);
        let mut x = LEFT;
        for (class, words) in [
            ("compute", "computes"),
            ("cut", "pauses for a checkpoint"),
            ("recovery", "recovery"),
            ("wait", "idle spare"),
        ] {
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"14\" height=\"14\"/>",
                bottom + 42.0
            );
            text(out, x + 20.0, bottom + 54.0, "", words);
            x += 50.0 + 7.0 * words.len() as f64;
        }
    }

    fn bar(&self, out: &mut String, y: f64, class: &str, from: u64, to: u64) {
        let (x, width) = (self.x(from), self.x(to) - self.x(from));
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{BAND}\"/>"
        );
    }

    /// Draws the checkpoints of a rank.
    fn cuts(&self, out: &mut String, y: f64, rank: ProcessNumber) {
        for event in self.events.iter().filter(|event| event.rank == rank) {
            let Kind::Capture {
                scan_ns, copy_ns, ..
            } = event.kind
            else {
                continue;
            };
            let from = event.at_ns.saturating_sub(scan_ns + copy_ns);
            if (self.from..self.to).contains(&from) {
                let to = event.at_ns.max(from + (self.to - self.from) / 250);
                self.bar(out, y, "cut", from, to);
            }
        }
    }
}

fn text(out: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let class = if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    };
    let _ = writeln!(out, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>");
}
