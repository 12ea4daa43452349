//! What each process did when, from its records.

use ckptd::events::{Kind, ProcessNumber, RecoveryStage, Role};
use ckptd::report::{Event, Report};
use std::collections::BTreeMap;

/// The stages of a recovery, in four parts that can be told apart in a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Stop,
    Agree,
    Restore,
    Rebuild,
}

impl Part {
    const ALL: [Self; 4] = [Self::Stop, Self::Agree, Self::Restore, Self::Rebuild];

    fn of(stage: RecoveryStage) -> Self {
        match stage {
            RecoveryStage::Detect | RecoveryStage::Reset | RecoveryStage::Drain => Self::Stop,
            RecoveryStage::Initialise | RecoveryStage::Agree | RecoveryStage::Replace => {
                Self::Agree
            }
            RecoveryStage::Fetch | RecoveryStage::Load => Self::Restore,
            RecoveryStage::Rebuild | RecoveryStage::Reprotect | RecoveryStage::Resume => {
                Self::Rebuild
            }
        }
    }
}

/// What a process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    Init,
    Compute,
    Wait,
    Ship,
    Cut,
    /// A recovery as a whole, where its parts could not be told apart.
    Recovering,
    Recovery(Part),
}

impl Doing {
    /// All, in the order of the legend; what comes later is drawn over what comes earlier.
    pub fn all() -> Vec<Self> {
        let plain = [
            Self::Init,
            Self::Compute,
            Self::Wait,
            Self::Ship,
            Self::Cut,
            Self::Recovering,
        ];
        plain
            .into_iter()
            .chain(Part::ALL.map(Self::Recovery))
            .collect()
    }

    /// Its name, and its class in the style sheet.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Compute => "compute",
            Self::Wait => "wait",
            Self::Ship => "ship",
            Self::Cut => "cut",
            Self::Recovering => "recovering",
            Self::Recovery(Part::Stop) => "stop",
            Self::Recovery(Part::Agree) => "agree",
            Self::Recovery(Part::Restore) => "restore",
            Self::Recovery(Part::Rebuild) => "rebuild",
        }
    }

    /// What stands on it in a drawing, so that colours need not be told apart.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Recovering => Some("R"),
            Self::Recovery(Part::Stop) => Some("1"),
            Self::Recovery(Part::Agree) => Some("2"),
            Self::Recovery(Part::Restore) => Some("3"),
            Self::Recovery(Part::Rebuild) => Some("4"),
            _ => None,
        }
    }

    /// What it means.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Init => "MPI_Init, with the first checkpoint",
            Self::Compute => "the program computes",
            Self::Wait => "a spare waits",
            Self::Ship => "copies are sent beside the program",
            Self::Cut => "the program stands still for a checkpoint",
            Self::Recovering => "recovery, enlarged below",
            Self::Recovery(Part::Stop) => "all stop: detect, reset, drain",
            Self::Recovery(Part::Agree) => "the living agree: initialise, agree, replace",
            Self::Recovery(Part::Restore) => "memory comes back: fetch, load",
            Self::Recovery(Part::Rebuild) => "communicators and copies: rebuild, reprotect, resume",
        }
    }
}

/// A stretch of time.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    pub doing: Doing,
    pub from: u64,
    pub to: u64,
}

/// A process through the job.
#[derive(Debug)]
pub struct Row {
    pub rank: ProcessNumber,
    /// Its parts, one after the other.
    pub parts: Vec<Role>,
    pub segments: Vec<Segment>,
    /// When it died, as far as that is known.
    pub died: Option<u64>,
}

/// All processes, by rank.
pub fn rows(report: &Report) -> Vec<Row> {
    let mut by_rank: BTreeMap<ProcessNumber, Vec<&Event>> = BTreeMap::new();
    for event in &report.timeline {
        by_rank.entry(event.rank).or_default().push(event);
    }
    let failed = report.recoveries.iter().flat_map(|recovery| {
        let detected = recovery.detected_ns;
        recovery.failed.iter().map(move |failed| {
            (
                failed.rank,
                failed.killed_ns.or(detected).or(failed.last_sign_ns),
            )
        })
    });
    let died: BTreeMap<ProcessNumber, Option<u64>> = failed.collect();
    by_rank
        .into_iter()
        .map(|(rank, events)| row(rank, &events, died.get(&rank).copied().flatten()))
        .collect()
}

/// The same with recoveries in one piece.
pub fn in_short(rows: &[Row]) -> Vec<Row> {
    let short = |segment: &Segment| Segment {
        doing: match segment.doing {
            Doing::Recovery(_) => Doing::Recovering,
            other => other,
        },
        ..*segment
    };
    let row = |row: &Row| {
        let mut segments: Vec<_> = row.segments.iter().map(short).collect();
        segments.sort_by_key(|segment| (segment.doing, segment.from));
        Row {
            rank: row.rank,
            parts: row.parts.clone(),
            segments,
            died: row.died,
        }
    };
    rows.iter().map(row).collect()
}

fn row(rank: ProcessNumber, events: &[&Event], died: Option<u64>) -> Row {
    let last = events.last().map_or(0, |event| event.at_ns);
    let mut row = Row {
        rank,
        parts: Vec::new(),
        segments: Vec::new(),
        died,
    };
    // Where the stages of a recovery begin: they are recorded together, at its end.
    let mut stage_at = 0;
    let (mut base, mut since) = (Doing::Init, events.first().map_or(0, |event| event.at_ns));
    let mut segments = Vec::new();
    for event in events {
        let (at, is_init) = (event.at_ns, base == Doing::Init);
        let mut turn = |doing: Doing, at: u64| {
            segments.push(Segment {
                doing: base,
                from: since,
                to: at,
            });
            (base, since) = (doing, at);
        };
        match event.kind {
            Kind::Start { role, .. } => {
                row.parts.push(role);
                if matches!(role, Role::Spare(_)) {
                    turn(Doing::Wait, at);
                }
            }
            Kind::Commit { .. } if is_init => turn(Doing::Compute, at),
            Kind::Takeover { as_worker, .. } => {
                row.parts.push(Role::Worker(as_worker));
                turn(Doing::Compute, at);
            }
            Kind::Capture {
                scan_ns, copy_ns, ..
            } => {
                let from = at.saturating_sub(scan_ns.saturating_add(copy_ns));
                row.segments.push(Segment {
                    doing: Doing::Cut,
                    from,
                    to: at,
                });
            }
            Kind::Ship { ns, .. } => {
                let from = at.saturating_sub(ns);
                row.segments.push(Segment {
                    doing: Doing::Ship,
                    from,
                    to: at,
                });
            }
            Kind::FailureDetected { .. } => stage_at = at,
            Kind::Stage { stage, ns, .. } => {
                // No stage ends after the record that tells of it.
                let (from, to) = (stage_at, stage_at.saturating_add(ns).min(at.max(stage_at)));
                row.segments.push(Segment {
                    doing: Doing::Recovery(Part::of(stage)),
                    from,
                    to,
                });
                stage_at = to;
            }
            _ => {}
        }
    }
    segments.push(Segment {
        doing: base,
        from: since,
        to: died.unwrap_or(last).max(since),
    });
    row.segments.extend(segments);
    row.segments
        .sort_by_key(|segment| (segment.doing, segment.from));
    row
}

/// What is to be drawn between two times: cut to them, and joined where `gap` separates nothing that can be seen.
pub fn visible(segments: &[Segment], from: u64, to: u64, gap: u64) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::new();
    for segment in segments
        .iter()
        .filter(|segment| segment.to >= from && segment.from <= to)
    {
        let (begin, end) = (segment.from.max(from), segment.to.min(to));
        match out.last_mut() {
            Some(last) if last.doing == segment.doing && begin <= last.to + gap => {
                last.to = last.to.max(end)
            }
            _ => out.push(Segment {
                doing: segment.doing,
                from: begin,
                to: end,
            }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_apart_is_joined() {
        let cut = |from, to| Segment {
            doing: Doing::Cut,
            from,
            to,
        };
        let seen = visible(
            &[cut(0, 5), cut(10, 12), cut(13, 14), cut(90, 99)],
            4,
            95,
            2,
        );
        let found: Vec<_> = seen
            .iter()
            .map(|segment| (segment.from, segment.to))
            .collect();
        assert_eq!(found, [(4, 5), (10, 14), (90, 95)]);
    }
}
