//! Memory that the processes of a node can still use.

use crate::cgroup::{ControlGroups, MemoryLimit};
use crate::proc_file::ProcFile;
use std::fmt;

/// Available memory, and the limit that determines it.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    /// Limit of the control group that determines `free`; `None` if the node's memory does.
    pub limit: Option<MemoryLimit>,
    /// Total bytes of the control group or of the node.
    pub bytes: u64,
    /// Available bytes.
    pub free: u64,
}

impl MemoryBudget {
    /// Returns the memory that is available now in these groups and on this node.
    ///
    /// `None` without proc(5). [`ControlGroups::limit_within`] describes `ample`.
    pub fn within(groups: Option<&ControlGroups>, ample: u64) -> Option<MemoryBudget> {
        let limit = groups.and_then(|groups| groups.limit_within(ample));
        let node = NodeMemory::read()?;
        Some(match limit {
            Some(limit) if limit.free < node.available => MemoryBudget {
                bytes: limit.bytes,
                free: limit.free,
                limit: Some(limit),
            },
            _ => MemoryBudget {
                limit: None,
                bytes: node.total,
                free: node.available,
            },
        })
    }
}

impl fmt::Display for MemoryBudget {
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

/// Bytes of memory of this node.
struct NodeMemory {
    total: u64,
    available: u64,
}

impl NodeMemory {
    /// Reads `/proc/meminfo` (proc_meminfo(5)).
    fn read() -> Option<NodeMemory> {
        static MEMINFO: ProcFile = ProcFile::new("/proc/meminfo");
        let text = MEMINFO.read()?;
        let bytes_of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
            Some(kib << 10)
        };
        Some(NodeMemory {
            total: bytes_of("MemTotal:")?,
            available: bytes_of("MemAvailable:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_node_is_read() {
        let budget = MemoryBudget::within(None, 0).expect("proc(5)");
        assert!(0 < budget.free && budget.free < budget.bytes);
        assert!(budget.to_string().starts_with("this node, which has "));
    }
}
