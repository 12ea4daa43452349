//! Classes of ranks in the same place, for jobs that hang.

use super::stack_names::StackNames;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use understudy_formats::events::ProcessNumber;
use understudy_launch::{Activity, JobActivities, StackFrame};

/// Ranks in one place.
#[derive(Default)]
struct Class<'a> {
    ranks: Vec<u32>,
    /// Longest time for which a rank of the class has not moved.
    inactive_for: Duration,
    /// Stack of the first rank of the class whose stack is known.
    stack: &'a [StackFrame],
}

/// Returns one line for each place, with its ranks, and the stack of one rank.
///
/// Idle spares are left out.
pub fn text(activities: &JobActivities, is_idle_spare: impl Fn(ProcessNumber) -> bool) -> String {
    let mut classes: BTreeMap<&Activity, Class<'_>> = BTreeMap::new();
    for rank in activities
        .ranks
        .iter()
        .filter(|rank| !is_idle_spare(rank.number))
    {
        let class = classes.entry(&rank.activity).or_default();
        class.ranks.push(rank.number.0);
        class.inactive_for = class.inactive_for.max(rank.inactive_for);
        if class.stack.is_empty() {
            class.stack = &rank.stack;
        }
    }
    let mut classes: Vec<_> = classes.into_iter().collect();
    classes.sort_by_key(|(_, class)| std::cmp::Reverse(class.ranks.len()));
    let (mut out, mut names) = (String::new(), StackNames::default());
    for (activity, class) in classes {
        let _ = write!(out, "  {:<18} {activity}", in_ranges(&class.ranks));
        match class.inactive_for.as_secs() {
            0 => {}
            seconds => {
                let _ = write!(out, ", no movement for {seconds} s");
            }
        }
        out.push('\n');
        // The libraries of understudy are no part of the program.
        let frames = class.stack.iter();
        for frame in frames.filter(|frame| !frame.path.contains("/libunderstudy")) {
            let _ = writeln!(out, "  {:<18}   {}", "", names.name(frame));
        }
    }
    for guardian in &activities.silent_guardians {
        let _ = writeln!(out, "  guardian {guardian:<9} does not answer");
    }
    out
}

/// Writes ranks as `rank 3` or `ranks 0-2, 5`.
fn in_ranges(ranks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let range = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let text: Vec<String> = ranges.iter().map(range).collect();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", text.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_launch::{CallPlace, ProcessActivity};

    #[test]
    fn ranks_in_one_place_are_one_line() {
        let waits = || {
            Activity::InCall(CallPlace {
                procedure: "MPI_Barrier".to_owned(),
                address: "solver+0x4f2c".to_owned(),
            })
        };
        let rank = |number, activity| ProcessActivity {
            number: ProcessNumber(number),
            activity,
            inactive_for: Duration::from_secs(40),
            stack: vec![StackFrame {
                path: "/nonexistent/solver".to_owned(),
                offset: 0x4f2c,
            }],
        };
        let ranks = vec![
            rank(0, waits()),
            rank(1, Activity::Stopped),
            rank(2, waits()),
            rank(3, waits()),
            rank(4, waits()),
        ];
        let activities = JobActivities {
            ranks,
            silent_guardians: vec![5],
        };
        assert_eq!(
            text(&activities, |number| number == ProcessNumber(4)),
            "  ranks 0, 2-3       in MPI_Barrier at solver+0x4f2c, no movement for 40 s\n  \
             \x20                    solver+0x4f2c\n  \
             rank 1             stopped (SIGSTOP), no movement for 40 s\n  \
             \x20                    solver+0x4f2c\n  \
             guardian 5         does not answer\n"
        );
    }
}
