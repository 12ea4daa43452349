//! Activities of each process over time, from its records.

use std::collections::BTreeMap;
use understudy_formats::events::{Kind, ProcessNumber, RecoveryStage, Role};
use understudy_report::{Event, Report};

/// Stages of a recovery, in four groups that can be distinguished in a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageGroup {
    Stop,
    Agree,
    Restore,
    Rebuild,
}

impl StageGroup {
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

/// Activity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    Init,
    Compute,
    Wait,
    Ship,
    Cut,
    /// A recovery as a whole, where its stages cannot be distinguished.
    Recovering,
    Recovery(StageGroup),
}

impl Activity {
    /// Returns all activities in the order of the legend.
    ///
    /// Later activities are drawn over earlier activities.
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
            .chain(StageGroup::ALL.map(Self::Recovery))
            .collect()
    }

    /// Returns the name, which is also the class in the style sheet.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Compute => "compute",
            Self::Wait => "wait",
            Self::Ship => "ship",
            Self::Cut => "cut",
            Self::Recovering => "recovering",
            Self::Recovery(StageGroup::Stop) => "stop",
            Self::Recovery(StageGroup::Agree) => "agree",
            Self::Recovery(StageGroup::Restore) => "restore",
            Self::Recovery(StageGroup::Rebuild) => "rebuild",
        }
    }

    /// True if the activity is short and frequent.
    ///
    /// Ranges of such an activity that are shorter than a column are added up. The drawing then
    /// shows which share of the column's time they take.
    pub fn is_frequent(self) -> bool {
        matches!(self, Self::Ship | Self::Cut)
    }

    /// Returns the label in a drawing, so that colours need not be distinguished.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Recovering => Some("R"),
            Self::Recovery(StageGroup::Stop) => Some("1"),
            Self::Recovery(StageGroup::Agree) => Some("2"),
            Self::Recovery(StageGroup::Restore) => Some("3"),
            Self::Recovery(StageGroup::Rebuild) => Some("4"),
            _ => None,
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            Self::Init => "MPI_Init, with the first checkpoint",
            Self::Compute => "the program computes",
            Self::Wait => "a spare waits",
            Self::Ship => "replicas are sent while the program runs",
            Self::Cut => "the program pauses for a checkpoint",
            Self::Recovering => "recovery, enlarged below",
            Self::Recovery(StageGroup::Stop) => "all stop: detect, reset, drain",
            Self::Recovery(StageGroup::Agree) => {
                "the remaining processes agree: initialise, agree, replace"
            }
            Self::Recovery(StageGroup::Restore) => "memory is restored: fetch, load",
            Self::Recovery(StageGroup::Rebuild) => {
                "communicators and replicas: rebuild, reprotect, resume"
            }
        }
    }
}

/// A time range with one activity.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    pub activity: Activity,
    pub from: u64,
    pub to: u64,
}

/// Row of a process in a drawing.
#[derive(Debug)]
pub struct Row {
    pub rank: ProcessNumber,
    /// Roles of the process in order of time.
    pub roles: Vec<Role>,
    /// Time when the process died, if known.
    pub died: Option<u64>,
}

/// Draws each process on all canvases in one pass; returns the processes by rank.
pub fn draw(report: &Report, canvases: &mut [Canvas]) -> Vec<Row> {
    let failed = report.recoveries.iter().flat_map(|recovery| {
        let detected = recovery.failed_ns.or(recovery.detected_ns);
        recovery.failed.iter().map(move |failed| {
            (
                failed.rank,
                failed.killed_ns.or(detected).or(failed.last_sign_ns),
            )
        })
    });
    let died: BTreeMap<ProcessNumber, Option<u64>> = failed.collect();
    let mut tracks: BTreeMap<ProcessNumber, Track> = BTreeMap::new();
    for event in report.timeline.iter() {
        let rank = event.rank;
        let track = tracks.entry(rank).or_insert_with(|| Track::new(&event));
        track.follow(&event, |segment| {
            canvases.iter_mut().for_each(|it| it.add(rank, segment));
        });
    }
    let mut rows = Vec::new();
    for (rank, track) in tracks {
        let died = died.get(&rank).copied().flatten();
        let last = Segment {
            activity: track.base,
            from: track.since,
            to: died.unwrap_or(track.last).max(track.since),
        };
        canvases.iter_mut().for_each(|it| it.add(rank, last));
        rows.push(Row {
            rank,
            roles: track.roles,
            died,
        });
    }
    rows
}

/// State of a process while its records are read.
struct Track {
    roles: Vec<Role>,
    base: Activity,
    since: u64,
    last: u64,
    /// Beginning of the next stage.
    ///
    /// The stages of a recovery are recorded together, at its end.
    stage_at: u64,
}

impl Track {
    fn new(first: &Event) -> Self {
        Self {
            roles: Vec::new(),
            base: Activity::Init,
            since: first.at_ns,
            last: first.at_ns,
            stage_at: 0,
        }
    }

    fn follow(&mut self, event: &Event, mut draw: impl FnMut(Segment)) {
        let at = event.at_ns;
        self.last = at;
        let mut draw_until_now = |activity, ns: u64| {
            let from = at.saturating_sub(ns);
            draw(Segment {
                activity,
                from,
                to: at,
            });
        };
        match event.kind {
            Kind::Start { role, .. } => {
                self.roles.push(role);
                if matches!(role, Role::Spare(_)) {
                    draw(self.change_activity(Activity::Wait, at));
                }
            }
            Kind::Commit { .. } if self.base == Activity::Init => {
                draw(self.change_activity(Activity::Compute, at));
            }
            Kind::Takeover { as_worker, .. } => {
                self.roles.push(Role::Worker(as_worker));
                draw(self.change_activity(Activity::Compute, at));
            }
            Kind::Capture {
                scan_ns, copy_ns, ..
            } => draw_until_now(Activity::Cut, scan_ns.saturating_add(copy_ns)),
            Kind::Ship { ns, .. } => draw_until_now(Activity::Ship, ns),
            Kind::FailureDetected { .. } => self.stage_at = at,
            Kind::Stage { stage, ns, .. } => {
                // A stage is recorded after its end, so the end is at most the record's time.
                let from = self.stage_at;
                self.stage_at = from.saturating_add(ns).min(at.max(from));
                draw(Segment {
                    activity: Activity::Recovery(StageGroup::of(stage)),
                    from,
                    to: self.stage_at,
                });
            }
            _ => {}
        }
    }

    /// Ends the current activity and returns its segment.
    fn change_activity(&mut self, activity: Activity, at: u64) -> Segment {
        let segment = Segment {
            activity: self.base,
            from: self.since,
            to: at.max(self.since),
        };
        (self.base, self.since) = (activity, at);
        segment
    }
}

/// Number of columns of a drawing, for frequent activities that are shorter than a column.
pub const COLUMNS: u64 = 500;

/// A drawing of all processes between two times.
///
/// The size of a drawing does not depend on the length of the job.
#[derive(Debug)]
pub struct Canvas {
    pub from: u64,
    pub to: u64,
    /// True if recoveries are drawn as a whole.
    is_overview: bool,
    pub lanes: BTreeMap<ProcessNumber, Lane>,
}

/// The drawing of a process.
#[derive(Debug, Default)]
pub struct Lane {
    /// Time ranges of each activity in order, joined where gaps would be invisible.
    pub spans: BTreeMap<Activity, Vec<(u64, u64)>>,
    /// Nanoseconds of each activity in each column, for ranges shorter than a column.
    pub columns: BTreeMap<Activity, BTreeMap<u64, u64>>,
    /// Number and total duration of the ranges of each activity in `columns`.
    pub sums: BTreeMap<Activity, (u64, u64)>,
}

impl Canvas {
    /// Returns a canvas of the whole job, with recoveries as a whole.
    pub fn overview(to: u64) -> Self {
        Self {
            is_overview: true,
            ..Self::new(0, to)
        }
    }

    pub fn new(from: u64, to: u64) -> Self {
        Self {
            from,
            to,
            is_overview: false,
            lanes: BTreeMap::new(),
        }
    }

    /// Returns the beginning of column `index`.
    pub fn column_at(&self, index: u64) -> u64 {
        let span = u128::from(self.to.saturating_sub(self.from));
        self.from + (span * u128::from(index) / u128::from(COLUMNS)) as u64
    }

    fn column_of(&self, at: u64) -> u64 {
        let span = u128::from(self.to.saturating_sub(self.from)).max(1);
        let index = u128::from(at - self.from) * u128::from(COLUMNS) / span;
        (index as u64).min(COLUMNS - 1)
    }

    fn add(&mut self, rank: ProcessNumber, segment: Segment) {
        if segment.to < self.from || segment.from > self.to {
            return;
        }
        let activity = match segment.activity {
            Activity::Recovery(_) if self.is_overview => Activity::Recovering,
            other => other,
        };
        let (from, to) = (segment.from.max(self.from), segment.to.min(self.to));
        let span = self.to - self.from;
        if activity.is_frequent() && (to - from).saturating_mul(COLUMNS) < span {
            self.add_short(rank, activity, from, to);
            return;
        }
        let gap = if activity.is_frequent() {
            0
        } else {
            span / 1000
        };
        let lane = self.lanes.entry(rank).or_default();
        let spans = lane.spans.entry(activity).or_default();
        match spans.last_mut() {
            Some(last) if from <= last.1.saturating_add(gap) => last.1 = last.1.max(to),
            _ => spans.push((from, to)),
        }
    }

    /// Adds a range that is shorter than a column, to at most two columns.
    fn add_short(&mut self, rank: ProcessNumber, activity: Activity, from: u64, to: u64) {
        let (first, last) = (self.column_of(from), self.column_of(to));
        let border = self.column_at(last).clamp(from, to);
        let lane = self.lanes.entry(rank).or_default();
        let columns = lane.columns.entry(activity).or_default();
        *columns.entry(first).or_default() += border - from;
        *columns.entry(last).or_default() += to - border;
        let (number, sum) = lane.sums.entry(activity).or_default();
        *number += 1;
        *sum = sum.saturating_add(to - from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANK: ProcessNumber = ProcessNumber(0);

    fn add_ranges(activity: Activity, canvas: &mut Canvas, ranges: &[(u64, u64)]) {
        for &(from, to) in ranges {
            canvas.add(RANK, Segment { activity, from, to });
        }
    }

    #[test]
    fn indistinguishable_ranges_are_joined() {
        let mut canvas = Canvas::new(4000, 6000);
        let ranges = [(0, 4005), (4010, 4012), (4013, 4014), (5990, 6990)];
        add_ranges(Activity::Compute, &mut canvas, &ranges);
        let found = &canvas.lanes[&RANK].spans[&Activity::Compute];
        assert_eq!(found[..], [(4000, 4005), (4010, 4014), (5990, 6000)]);
    }

    /// 40,000 pauses take 0.1 % of the time: low columns are drawn, not a solid bar.
    #[test]
    fn short_checkpoints_are_drawn_by_their_share() {
        let end = 40_000_000;
        let mut canvas = Canvas::overview(end);
        let ranges: Vec<_> = (0..40_000).map(|at| (at * 1000, at * 1000 + 1)).collect();
        add_ranges(Activity::Cut, &mut canvas, &ranges);
        let lane = &canvas.lanes[&RANK];
        assert!(lane.spans.is_empty());
        let columns = &lane.columns[&Activity::Cut];
        assert_eq!(columns.len(), COLUMNS as usize);
        assert_eq!(columns.values().sum::<u64>(), 40_000);
        assert!(columns.values().all(|ns| ns * 900 < end / COLUMNS));
        assert_eq!(lane.sums[&Activity::Cut], (40_000, 40_000));
    }

    #[test]
    fn a_checkpoint_that_can_be_seen_is_drawn_in_its_place() {
        let mut canvas = Canvas::overview(1000);
        add_ranges(Activity::Cut, &mut canvas, &[(10, 20), (20, 30), (35, 40)]);
        let lane = &canvas.lanes[&RANK];
        assert_eq!(lane.spans[&Activity::Cut][..], [(10, 30), (35, 40)]);
        assert!(lane.columns.is_empty());
    }
}
