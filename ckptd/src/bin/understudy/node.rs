//! Properties of this node.

use std::collections::BTreeSet;
use std::path::Path;
use understudy_settings::Config;

/// Returns the number of cores that this process may use.
///
/// Processors that share a core count once, as in the launcher's slots.
pub fn cores() -> u32 {
    let allowed = allowed_processors();
    let core_of = |processor: &u32| {
        let read = |name| {
            let path = Path::new("/sys/devices/system/cpu")
                .join(format!("cpu{processor}/topology/{name}"));
            std::fs::read_to_string(path)
                .ok()
                .map(|text| text.trim().to_owned())
        };
        (
            read("physical_package_id"),
            read("core_id").unwrap_or_else(|| processor.to_string()),
        )
    };
    allowed
        .iter()
        .map(core_of)
        .collect::<BTreeSet<_>>()
        .len()
        .max(1) as u32
}

/// Returns the largest number of simultaneous processes (proc(5), `pid_max`).
pub fn most_processes() -> u64 {
    let limit = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok();
    limit
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(u64::MAX)
}

/// Checks that files can be created in the checkpoint directory.
///
/// The nearest existing ancestor of a missing directory is checked in its place.
///
/// Leaves no file in the directory.
pub fn check_disk(config: &Config) -> Result<(), String> {
    let Some(disk) = &config.disk else {
        return Ok(());
    };
    let path = std::path::absolute(disk).unwrap_or_else(|_| disk.clone());
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(&path);
    let tried = tempfile::tempfile_in(existing);
    tried
        .map(drop)
        .map_err(|error| format!("UNDERSTUDY_DISK: {}: {error}", existing.display()))
}

/// Parses `Cpus_allowed_list` (proc(5)): `0-3,7`.
fn allowed_processors() -> Vec<u32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap_or("0");
    parse_list(list)
}

fn parse_list(list: &str) -> Vec<u32> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list("\t0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list("3"), [3]);
        assert!(cores() >= 1);
    }
}
