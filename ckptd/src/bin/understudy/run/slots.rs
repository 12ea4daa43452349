//! Slots for the ranks: hosts, cores and the maximum number of processes.

use super::failures::{cannot, usage};
use crate::node;
use crate::outcome::Failure;
use std::ffi::OsString;
use std::path::Path;
use understudy_launch::starter::{BatchSystem, hosts_of_list, total_slots};
use understudy_report::count;

/// A request for slots.
pub struct SlotRequest<'a> {
    pub workers: u32,
    /// Number of workers and spares.
    pub ranks: u32,
    /// Values of `--host`, each a list of hosts.
    pub hosts: &'a [String],
    pub hostfile: Option<&'a Path>,
    /// True if more ranks than slots are allowed.
    pub oversubscribe: bool,
}

/// Returns true if `--oversubscribe` must be added to the launcher's command `line`.
///
/// The option is added if the request contains it, or if more ranks than cores run on this node
/// alone (neither the user nor a batch system names hosts). The option is not added if `line`
/// already has an option of this kind.
///
/// # Errors
/// Fails if `--host` is invalid or its hosts have too few slots, or if ranks that run on this node
/// alone need more processes than the node permits. Nothing is tested if the request or `line` has
/// the option.
pub fn must_oversubscribe(request: &SlotRequest<'_>, line: &[OsString]) -> Result<bool, Failure> {
    let ranks = request.ranks;
    let is_permission = |word: &OsString| {
        word.to_string_lossy()
            .to_lowercase()
            .contains("oversubscribe")
    };
    if line.iter().any(is_permission) {
        return Ok(false);
    }
    if request.oversubscribe {
        return Ok(true);
    }
    if !request.hosts.is_empty() {
        let slots = request
            .hosts
            .iter()
            .map(|hosts| slots(hosts))
            .sum::<Result<u32, _>>()?;
        if slots < ranks {
            return Err(cannot(format!(
                "{} and {} need {ranks} slots, and --host {} has {slots}. Give a host more \
                 (`name:N`), name another one, or add --oversubscribe.",
                count(request.workers, "worker", "workers"),
                count(ranks - request.workers, "spare", "spares"),
                request.hosts.join(",")
            )));
        }
    }
    let max_processes = node::most_processes();
    if !request.hosts.is_empty() || request.hostfile.is_some() || BatchSystem::detect().is_some() {
        return Ok(false);
    }
    // Each rank has a guardian and a relay.
    if u64::from(ranks) * 3 > max_processes {
        return Err(cannot(format!(
            "{ranks} ranks are more than this node can have: it has {max_processes} processes at \
             most, and each rank needs 3. Use fewer ranks, or more hosts."
        )));
    }
    Ok(node::cores() < ranks)
}

/// Returns the number of slots of a list of hosts, as the launcher counts them.
///
/// A host without a number has one slot for each occurrence.
fn slots(hosts: &str) -> Result<u32, Failure> {
    let hosts = hosts_of_list(hosts).map_err(|error| usage(format_args!("--host: {error}")))?;
    Ok(total_slots(&hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_counted_as_the_launcher_does() {
        for (hosts, number) in [
            ("a", Some(1)),
            ("a,a,b", Some(3)),
            ("a:2,b:3", Some(5)),
            ("a:x", None),
        ] {
            assert_eq!(slots(hosts).ok(), number, "{hosts}");
        }
    }
}
