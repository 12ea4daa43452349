//! Description of failures that the job would not have survived.
//!
//! The description is based on the settings of the job and its state at the end.

use crate::facts::Facts;
use maud::{Markup, html};
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
        @if let Some(gap) = longest_gap(&report.checkpoints.points, facts.end_ns) {
            p { "A failure at the worst moment would have cost " (time(gap)) " of work, the \
                longest time without a checkpoint." }
        }
    }
}

fn lines(facts: &Facts) -> Vec<String> {
    let setting = |name: &str| facts.settings.get(name).map_or("", String::as_str);
    let disk = setting("UNDERSTUDY_DISK");
    let has_disk = !matches!(disk, "" | "none");
    let restart = match has_disk {
        true => format!("; it could have been started again from {disk}"),
        false => {
            "; no checkpoints are on disk (UNDERSTUDY_DISK), so it would have had to start from \
                  the beginning"
                .to_owned()
        }
    };
    let mut lines = vec![nodes(facts, setting("copies in their own domain")) + &restart];
    if facts.host_names().len() > 1 {
        lines.push(simultaneous_loss(setting("copies of each worker")));
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
/// `at_home`: replicas in the failure domain of their own worker, as `N of W`.
fn nodes(facts: &Facts, at_home: &str) -> String {
    let hosts = facts.host_names();
    match hosts.first() {
        Some(host) if hosts.len() == 1 => {
            format!("the loss of the node {host}: it stored all replicas")
        }
        _ if at_home.starts_with("0 ") || at_home.is_empty() => {
            "the loss of the launcher's node, or of any node if mpirun has started the job"
                .to_owned()
        }
        _ => format!(
            "the loss of a node: {at_home} replicas were in the failure domain of their own worker"
        ),
    }
}

/// Returns the longest time between successive committed checkpoints, or after the last one.
fn longest_gap(points: &[CheckpointPoint], end: u64) -> Option<u64> {
    let mut times: Vec<u64> = points
        .iter()
        .filter(|it| it.committed)
        .map(|it| it.at_ns)
        .collect();
    times.push(end);
    times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .max()
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
        assert!(nodes(&facts(&["a", "a"]), "2 of 2").contains("node a: it stored all replicas"));
        assert!(nodes(&facts(&["a", "b"]), "1 of 3").contains("1 of 3 replicas"));
        assert!(nodes(&facts(&["a", "b"]), "0 of 3").contains("launcher"));
        let lines = |hosts: &[&str]| lines(&facts(hosts)).len();
        assert_eq!((lines(&["a", "a"]), lines(&["a", "b"])), (1, 2));
    }

    #[test]
    fn the_longest_time_without_a_checkpoint_counts() {
        let point = |at_ns, committed| CheckpointPoint {
            at_ns,
            committed,
            ..CheckpointPoint::default()
        };
        assert_eq!(
            longest_gap(&[point(5, true), point(9, false), point(12, true)], 15),
            Some(7)
        );
        assert_eq!(longest_gap(&[], 15), None);
    }
}
