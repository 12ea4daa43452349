//! Description of failures that the job would not have survived.
//!
//! The description is based on the settings of the job and its state at the end.

use crate::facts::Facts;
use maud::{Markup, html};
use understudy_formats::events::{COPIES, COPIES_IN_OWN_DOMAIN};
use understudy_report::{CheckpointPoint, Report, time};

/// Returns the list of failures that would have ended the job.
///
/// Returns the reason instead if the job was not protected.
pub fn survival(report: &Report, facts: &Facts) -> Markup {
    if let Some(why) = &report.outcome.unprotected {
        return html! { p.problem { "Any failure: the job was not protected (" (why) ")." } };
    }
    html! {
        p { "With these settings and hosts, the following would have ended the job:" }
        ul { @for line in lines(facts) { li { (line) } } }
        p {
            "A failure at the worst moment would have cost "
            (time(longest_repetition(&report.checkpoints.points, facts.end_ns)))
            " of work: the longest time from a checkpoint, or from the start of the job, to the \
                commit of the next checkpoint or the end of the job."
        }
    }
}

fn lines(facts: &Facts) -> Vec<String> {
    let entry = |name: &str| facts.settings.get(name).map_or("", String::as_str);
    let disk = entry("UNDERSTUDY_DISK");
    let restart = if matches!(disk, "" | "none") {
        "; no checkpoints are on disk (UNDERSTUDY_DISK), so it would have had to start from the \
            beginning"
            .to_owned()
    } else {
        format!("; it could have been started again from {disk}")
    };
    let mut lines = vec![loss_of_one_node(facts, entry(COPIES_IN_OWN_DOMAIN)) + &restart];
    if facts.host_names().len() > 1 {
        lines.push(simultaneous_loss(entry(COPIES)));
    }
    lines
}

/// Describes the nodes whose simultaneous loss would have ended the job.
fn simultaneous_loss(copies: &str) -> String {
    match copies.strip_prefix("xor:") {
        Some(size) => format!(
            "the loss of the nodes of two workers of one parity group of {size} at the same time"
        ),
        None if copies == "2" => {
            "the loss of the nodes of a worker and of both its buddies, at the same time".to_owned()
        }
        None => "the loss of the nodes of a worker and of its buddy, at the same time".to_owned(),
    }
}

/// Describes the effect of the loss of a node.
///
/// `unsafe_copies` is `N of W`: N of W workers have replicas in their own failure domain only.
fn loss_of_one_node(facts: &Facts, unsafe_copies: &str) -> String {
    let hosts = facts.host_names();
    match hosts.first() {
        Some(host) if hosts.len() == 1 => {
            format!("the loss of the node {host}: it stored all replicas")
        }
        _ if unsafe_copies.starts_with("0 ") || unsafe_copies.is_empty() => {
            "the loss of the launcher's node, or of any node if mpirun has started the job"
                .to_owned()
        }
        _ => format!(
            "the loss of a node: {unsafe_copies} replicas were in the failure domain of their own worker"
        ),
    }
}

/// Returns the longest time of work that a failure would have made the job repeat.
///
/// A failure makes the job repeat the work since the capture of the last committed checkpoint. The
/// repeated time is thus longest immediately before the next commit, or at the end of the job.
/// Before the first commit, the job repeats everything since its start.
fn longest_repetition(points: &[CheckpointPoint], end: u64) -> u64 {
    let mut resumed_at = 0;
    let mut longest = 0;
    for point in points {
        if let Some(committed_ns) = point.committed_ns {
            longest = longest.max(committed_ns.saturating_sub(resumed_at));
            resumed_at = point.at_ns;
        }
    }
    longest.max(end.saturating_sub(resumed_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_formats::events::ProcessNumber;

    fn facts(hosts: &[&str]) -> Facts {
        let hosts = hosts.iter().enumerate();
        Facts {
            hosts: hosts
                .map(|(rank, host)| (ProcessNumber(rank as u32), (*host).to_owned()))
                .collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn copies_on_one_node_are_lost_with_it() {
        assert!(
            loss_of_one_node(&facts(&["a", "a"]), "2 of 2")
                .contains("node a: it stored all replicas")
        );
        assert!(loss_of_one_node(&facts(&["a", "b"]), "1 of 3").contains("1 of 3 replicas"));
        assert!(loss_of_one_node(&facts(&["a", "b"]), "0 of 3").contains("launcher"));
        let lines = |hosts: &[&str]| lines(&facts(hosts)).len();
        assert_eq!((lines(&["a", "a"]), lines(&["a", "b"])), (1, 2));
    }

    #[test]
    fn the_longest_time_without_a_checkpoint_counts() {
        let point = |at_ns, committed_ns| CheckpointPoint {
            at_ns,
            committed_ns,
            ..CheckpointPoint::default()
        };
        let abandoned = point(9, None);
        // From the capture of the first checkpoint to the commit of the next one.
        let points = [point(5, Some(6)), abandoned, point(12, Some(14))];
        assert_eq!(longest_repetition(&points, 15), 9);
        // From the start of the job to the first commit.
        assert_eq!(longest_repetition(&[point(5, Some(10)), abandoned], 14), 10);
        // From the last capture to the end of the job.
        assert_eq!(longest_repetition(&points, 30), 18);
        assert_eq!(longest_repetition(&[abandoned], 15), 15);
    }
}
