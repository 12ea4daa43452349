//! Memory that the processes of a node can still use.

use crate::cgroup::{Groups, Limit};
use crate::proc_file::ProcFile;
use std::fmt;

/// Available memory, and the limit that determines it.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Limit of a control group; `None` if the memory of the node leaves less.
    pub limit: Option<Limit>,
    /// Total bytes.
    pub bytes: u64,
    /// Available bytes.
    pub free: u64,
}

impl Budget {
    /// Returns the memory that is available now in these groups and on this node.
    ///
    /// `None` without proc(5). The groups may be estimated roughly if more than `ample` bytes are
    /// available.
    pub fn within(groups: Option<&Groups>, ample: u64) -> Option<Budget> {
        let limit = groups.and_then(|groups| groups.limit_within(ample));
        let [bytes, free] = memory_of_node()?;
        Some(match limit {
            Some(limit) if limit.free < free => Budget {
                bytes: limit.bytes,
                free: limit.free,
                limit: Some(limit),
            },
            _ => Budget {
                limit: None,
                bytes,
                free,
            },
        })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.bytes >> 20;
        match &self.limit {
            Some(limit) => write!(
                f,
                "control group {}, which is limited to {mib} MiB",
                limit.group.display()
            ),
            None => write!(f, "this node, which has {mib} MiB of memory"),
        }
    }
}

/// Returns the total and the available bytes of this node (proc(5), meminfo).
fn memory_of_node() -> Option<[u64; 2]> {
    static MEMORY: ProcFile = ProcFile::new("/proc/meminfo");
    let text = MEMORY.read()?;
    let read = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib << 10)
    };
    Some([read("MemTotal:")?, read("MemAvailable:")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_node_is_read() {
        let budget = Budget::within(None, 0).expect("proc(5)");
        assert!(0 < budget.free && budget.free < budget.bytes);
        assert!(budget.to_string().starts_with("this node, which has "));
    }
}
