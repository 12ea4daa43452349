//! Checks of the allocation in which the doctor runs.

use super::Check;
use crate::allocation::{self, DOMAIN, Switches};
use understudy_catalogue::message;
use understudy_launch::starter::{BatchSystem, Host, total_slots};
use understudy_report::count;
use understudy_settings::Config;

const NAME: &str = "allocation";

/// Returns checks of the allocation, and the names of its hosts.
///
/// Both are empty outside of a batch system.
/// `workers` is the number of workers of a job that is to run here, if that is known.
pub fn checks(workers: Option<u32>) -> (Vec<Check>, Vec<String>) {
    let Some(system) = BatchSystem::detect() else {
        return (Vec::new(), Vec::new());
    };
    let hosts = match system.hosts() {
        Ok(hosts) => hosts,
        Err(error) => {
            let remedy = "name the hosts with --host";
            let check = Check::failure(NAME, error.to_string(), remedy);
            return (vec![check], Vec::new());
        }
    };
    // Wrong settings are another check.
    let Ok(config) = Config::read(|name| std::env::var(name).ok()) else {
        return (Vec::new(), Vec::new());
    };
    let ranks = workers.map(|workers| workers.saturating_add(config.spares));
    let switches = match (std::env::var_os(DOMAIN), workers) {
        (None, Some(workers)) => Switches::of(&hosts, (workers, config.spares)),
        _ => None,
    };
    let hazards = allocation::hazards(hosts.len() > 1, switches.as_ref(), &config);
    let mut checks = vec![check_slots(system, &hosts, ranks)];
    checks.extend(
        hazards
            .into_iter()
            .map(|why| Check::explained_warning(NAME, why)),
    );
    (checks, hosts.into_iter().map(|host| host.name).collect())
}

fn check_slots(system: BatchSystem, hosts: &[Host], ranks: Option<u32>) -> Check {
    let slots = total_slots(hosts);
    match ranks {
        Some(ranks) if ranks > slots => {
            let why = message::few_granted_slots(system.name(), slots, ranks);
            Check::explained_warning(NAME, why.to_string())
        }
        _ => Check::ok(
            NAME,
            format!(
                "{} has granted {} with {}",
                system.name(),
                count(hosts.len(), "host", "hosts"),
                count(slots, "slot", "slots")
            ),
        ),
    }
}
