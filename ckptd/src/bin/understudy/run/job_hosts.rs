//! Hosts of a job, which the user names or a batch system has granted.

use super::failures::{cannot, usage};
use super::slots::{self, SlotRequest};
use crate::outcome::Failure;
use ckptd::host_options::HostOptions;
use std::path::Path;
use understudy_catalogue::message;
use understudy_formats::host::host_name;
use understudy_launch::print_message;
use understudy_launch::starter::{BatchSystem, Host, is_this_host, total_slots};
use understudy_report::count;

/// Hosts of a job.
pub struct JobHosts {
    /// Hosts for understudy's own launcher; empty if it starts all ranks here.
    pub for_ckptd: Vec<Host>,
    /// Names of all hosts; empty if the job has this host alone.
    ///
    /// The only name is that of this host if the hosts are not known, because a batch system tells
    /// them to mpirun only.
    pub names: Vec<String>,
}

impl JobHosts {
    /// Returns the hosts for understudy's own launcher.
    ///
    /// # Errors
    /// Fails if hosts cannot be read or have too few slots.
    pub fn for_ckptd(
        options: &HostOptions,
        request: &SlotRequest<'_>,
    ) -> Result<JobHosts, Failure> {
        // Only errors matter: without a list of hosts, the starter has enough slots.
        slots::must_oversubscribe(request, &[])?;
        let hosts = match options.is_empty() {
            true => granted_hosts(request)?,
            false => options.hosts().map_err(usage)?,
        };
        Ok(JobHosts {
            names: without_this_host_alone(hosts.iter().map(|host| host.name.clone())),
            for_ckptd: with_room(hosts, request),
        })
    }

    /// Returns the hosts of a job that mpirun starts.
    pub fn for_mpirun(options: &HostOptions) -> JobHosts {
        let is_granted = options.is_empty() && BatchSystem::detect().is_some();
        JobHosts {
            names: match is_granted {
                true => vec![host_name()],
                false => without_this_host_alone(
                    names(&options.host, options.hostfile.as_deref()).into_iter(),
                ),
            },
            for_ckptd: Vec::new(),
        }
    }

    /// True if the job may have other hosts than this one.
    pub fn are_several(&self) -> bool {
        !self.names.is_empty()
    }
}

/// Returns the names, or none if all are names of this host.
fn without_this_host_alone(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: Vec<String> = names.collect();
    match names.iter().all(|name| is_this_host(name)) {
        true => Vec::new(),
        false => names,
    }
}

/// Returns the hosts that a batch system has granted.
///
/// The result is empty if that is this host alone.
///
/// # Errors
/// Fails if the list of hosts cannot be read, or if several hosts have fewer slots than the job
/// needs. Too few slots of this host alone are only reported.
fn granted_hosts(request: &SlotRequest<'_>) -> Result<Vec<Host>, Failure> {
    let Some(system) = BatchSystem::detect() else {
        return Ok(Vec::new());
    };
    let hosts = system.hosts().map_err(|error| cannot(error.to_string()))?;
    let slots = total_slots(&hosts);
    let is_alone = hosts.iter().all(|host| is_this_host(&host.name));
    let has_room = hosts.is_empty() || slots >= request.ranks || request.oversubscribe;
    if !has_room && is_alone {
        print_message(message::few_granted_slots(
            system.name(),
            slots,
            request.ranks,
        ));
    } else if !has_room {
        return Err(cannot(format!(
            "{} and {} need {} slots, and {} has granted {slots}. Request more tasks, or add \
             --oversubscribe.",
            count(request.workers, "worker", "workers"),
            count(request.ranks - request.workers, "spare", "spares"),
            request.ranks,
            system.name(),
        )));
    }
    Ok(if is_alone { Vec::new() } else { hosts })
}

/// Multiplies the slots of hosts if the job may have more ranks than slots.
fn with_room(mut hosts: Vec<Host>, request: &SlotRequest<'_>) -> Vec<Host> {
    let slots = total_slots(&hosts).max(1);
    if request.oversubscribe {
        let times = request.ranks.div_ceil(slots).max(1);
        for host in &mut hosts {
            host.slots = host.slots.saturating_mul(times);
        }
    }
    hosts
}

/// Returns the hosts of lists and of a host file, without numbers of slots.
fn names(hosts: &[String], file: Option<&Path>) -> Vec<String> {
    let text = file
        .and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default();
    let of_file = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let given = hosts.iter().flat_map(|hosts| hosts.split(','));
    let bare = |host: &str| host.split(':').next().unwrap_or(host).to_owned();
    given
        .chain(of_file.filter(|name| !name.starts_with('#')))
        .map(bare)
        .filter(|host| !host.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "# those of today\nc slots=4\n\nd:2\n").expect("written");
        assert_eq!(
            names(&["a:2,b".into()], Some(file.path())),
            ["a", "b", "c", "d"]
        );
    }
}
