//! Memory limits of the control groups of this process (cgroups(7), versions 1 and 2).
//!
//! A limit applies to all processes of a group and of the groups below, so all levels up to the
//! mount point are evaluated. Sources: <https://docs.kernel.org/admin-guide/cgroup-v2.html>
//! (memory.max, memory.current, memory.events),
//! <https://docs.kernel.org/admin-guide/cgroup-v1/memory.html>.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names of the files of a group.
#[derive(Debug)]
struct GroupFiles {
    /// Files with limits, the lowest of which applies.
    ///
    /// `memory.high` counts as a limit, because the kernel slows down processes above it.
    limits: &'static [&'static str],
    usage: &'static str,
    /// Lines of memory.stat with memory that the kernel can reclaim at once.
    reclaimable: [&'static str; 2],
    events: &'static str,
}

const VERSION_1: GroupFiles = GroupFiles {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    reclaimable: ["total_inactive_file", "total_active_file"],
    events: "memory.oom_control",
};

const VERSION_2: GroupFiles = GroupFiles {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    reclaimable: ["inactive_file", "active_file"],
    events: "memory.events",
};

/// Smallest value that means "no limit".
///
/// Version 1 reports a huge number if a group has no limit, version 2 reports `max`.
const NO_LIMIT: u64 = 1 << 60;

/// Groups of a process in the memory controller, the innermost group first.
#[derive(Debug)]
pub struct ControlGroups {
    levels: Vec<PathBuf>,
    files: &'static GroupFiles,
}

/// Limit of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    pub group: PathBuf,
    pub bytes: u64,
    /// Bytes that the group can still use.
    pub free: u64,
}

impl MemoryLimit {
    /// Returns the inode of the group's directory; 0 if it cannot be read.
    ///
    /// All processes of a node read an equal number for one group.
    pub fn identity(&self) -> u64 {
        fs::metadata(&self.group).map_or(0, |metadata| metadata.ino())
    }
}

impl ControlGroups {
    /// Returns the groups of this process; `None` without a memory controller.
    pub fn own() -> Option<ControlGroups> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        ControlGroups::find(&groups, &mounts)
    }

    fn find(groups: &str, mounts: &str) -> Option<ControlGroups> {
        let version_1_path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers
                .split(',')
                .any(|controller| controller == "memory")
                .then_some(path)
        });
        let (path, file_system, files) = match version_1_path {
            Some(path) => (path, "cgroup", &VERSION_1),
            None => {
                let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
                (path, "cgroup2", &VERSION_2)
            }
        };
        let mount = mounts
            .lines()
            .find_map(|line| GroupMount::parse(line, file_system))?;
        // In a container the path may lead out of the mounted hierarchy, or name a group that this
        // hierarchy does not contain. Then the root of the mount is taken as the group. The second
        // case is recognised in version 1 only: the root group of version 2 has no usage file.
        let below = Path::new(path).strip_prefix(&mount.root);
        let innermost = below.map_or(mount.point.clone(), |below| mount.point.join(below));
        let innermost = match innermost.join(files.usage).exists() || files.is_version_2() {
            true => innermost,
            false => mount.point.clone(),
        };
        let levels = innermost
            .ancestors()
            .take_while(|level| level.starts_with(&mount.point))
            .map(Path::to_owned)
            .collect();
        Some(ControlGroups { levels, files })
    }

    /// Removes levels without a limit, which need not be read again.
    pub fn retain_limited(&mut self) {
        let files = self.files;
        self.levels.retain(|group| files.limit(group).is_some());
    }

    /// Returns the limit that leaves the least memory, if one exists.
    pub fn limit(&self) -> Option<MemoryLimit> {
        self.limit_within(u64::MAX)
    }

    /// Returns the limit that leaves the least memory, like [`ControlGroups::limit`].
    ///
    /// Reclaimable memory is not added if `ample` bytes or more are free without reclaimable
    /// memory: reading memory.stat takes longer than reading all other files.
    pub fn limit_within(&self, ample: u64) -> Option<MemoryLimit> {
        let limit_of = |group: &PathBuf| {
            let bytes = self.files.limit(group)?;
            let unused = bytes.saturating_sub(read_number(&group.join(self.files.usage))?);
            let free = match unused < ample {
                true => bytes.min(unused + self.files.reclaimable(group)),
                false => unused,
            };
            let group = group.clone();
            Some(MemoryLimit { group, bytes, free })
        };
        self.levels
            .iter()
            .filter_map(limit_of)
            .min_by_key(|limit| limit.free)
    }

    /// Returns the number of processes that the kernel has killed for lack of memory.
    ///
    /// The number is that of the innermost group; after [`retain_limited`](Self::retain_limited),
    /// that of the innermost group with a limit.
    pub fn kills(&self) -> u64 {
        let events = self
            .levels
            .first()
            .map(|group| group.join(self.files.events));
        let text = events.and_then(|path| fs::read_to_string(path).ok());
        text.and_then(|text| value(&text, "oom_kill")).unwrap_or(0)
    }
}

impl GroupFiles {
    fn is_version_2(&self) -> bool {
        self.usage == VERSION_2.usage
    }

    /// Reads the limit of a group; `None` if the group has no limit.
    fn limit(&self, group: &Path) -> Option<u64> {
        let limits = self.limits.iter();
        let lowest = limits
            .filter_map(|name| read_number(&group.join(name)))
            .min()?;
        (lowest < NO_LIMIT).then_some(lowest)
    }

    /// Reads the number of bytes that the kernel can reclaim from a group at once.
    fn reclaimable(&self, group: &Path) -> u64 {
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let lines = self.reclaimable.iter();
        lines.filter_map(|line| value(&stat, line)).sum()
    }
}

/// Mounted hierarchy (proc(5), `mountinfo`).
struct GroupMount {
    root: PathBuf,
    point: PathBuf,
}

impl GroupMount {
    /// Parses the line of a mount of the memory controller; `None` for other lines.
    ///
    /// `file_system` is `cgroup` (version 1, one mount for each controller) or `cgroup2`.
    fn parse(line: &str, file_system: &str) -> Option<GroupMount> {
        let (mount, type_and_options) = line.split_once(" - ")?;
        let mut words = type_and_options.split(' ');
        let has_type = words.next()? == file_system;
        let mut options = words.nth(1).unwrap_or_default().split(',');
        let has_memory = file_system == "cgroup2" || options.any(|option| option == "memory");
        let mut words = mount.split(' ').skip(3);
        let (root, point) = (words.next()?, words.next()?);
        (has_type && has_memory).then(|| GroupMount {
            root: root.into(),
            point: point.into(),
        })
    }
}

/// Reads a file of one number; `None` for `max`.
fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the value of a line `name value`.
fn value(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .find(|(line_name, _)| *line_name == name)?
        .1
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates two levels below the mount point, the outer one with the first limit.
    fn hierarchy(point: &Path, files: &GroupFiles, limits: [&str; 2]) {
        let outer = point.join("job");
        for (level, limit) in [&outer, &outer.join("step")].into_iter().zip(limits) {
            fs::create_dir(level).expect("room");
            let write = |name: &str, text: &str| fs::write(level.join(name), text).expect("room");
            write(files.limits[0], limit);
            write(files.usage, "400\n");
            write(
                "memory.stat",
                &format!(
                    "anon 1\n{} 60\n{} 40\n",
                    files.reclaimable[0], files.reclaimable[1]
                ),
            );
            write(files.events, "low 0\noom_kill 3\n");
        }
    }

    #[test]
    fn the_level_that_leaves_the_least_counts_in_both_versions() {
        for (files, groups, options) in [
            (
                &VERSION_1,
                "4:cpu:/\n3:memory:/job/step\n",
                "cgroup x rw,memory",
            ),
            (&VERSION_2, "0::/job/step\n", "cgroup2 x rw"),
        ] {
            let point = tempfile::tempdir().expect("room");
            hierarchy(point.path(), files, ["1000\n", "1200\n"]);
            let mounts = format!(
                "30 20 0:26 / /other rw - tmpfs x rw\n31 20 0:27 / {} rw shared:9 - {options}\n",
                point.path().display()
            );
            let found = ControlGroups::find(groups, &mounts).expect("mounted");
            let limit = found.limit().expect("limited");
            assert_eq!((limit.bytes, limit.free), (1000, 700));
            assert!(limit.group.ends_with("job"));
            let without_stat = found.limit_within(600).expect("limited");
            assert_eq!(without_stat.free, 600, "memory.stat is not read");
            assert_eq!(found.kills(), 3);
        }
    }

    #[test]
    fn the_limit_from_which_on_processes_are_slowed_down_counts() {
        let point = tempfile::tempdir().expect("room");
        hierarchy(point.path(), &VERSION_2, ["2000\n", "max\n"]);
        let group = point.path().join("job");
        fs::write(group.join("memory.high"), "1500\n").expect("room");
        let groups = ControlGroups {
            levels: vec![group],
            files: &VERSION_2,
        };
        assert_eq!(groups.limit().expect("limited").bytes, 1500);
    }

    #[test]
    fn no_limit_is_none() {
        for (files, limit) in [(&VERSION_1, "9223372036854771712\n"), (&VERSION_2, "max\n")] {
            let point = tempfile::tempdir().expect("room");
            hierarchy(point.path(), files, [limit; 2]);
            let mut groups = ControlGroups {
                levels: vec![point.path().join("job")],
                files,
            };
            assert_eq!(groups.limit(), None);
            groups.retain_limited();
            assert!(groups.levels.is_empty());
        }
    }
}
