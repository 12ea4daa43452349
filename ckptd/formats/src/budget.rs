//! Memory that the processes of a node can still use.

use crate::cgroup::{Groups, Limit};
use crate::proc_file::ProcFile;
use std::fmt;

/// Free memory, and the limit that it is counted from.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The limit of a control group; `None` where the memory of the node leaves less.
    pub limit: Option<Limit>,
    /// Bytes that there are in all.
    pub bytes: u64,
    /// Bytes that can still be used.
    pub free: u64,
}

impl Budget {
    /// Returns the memory that is left now in these groups and on this node.
    ///
    /// `None` without proc(5). Groups may be counted roughly where more than `ample` bytes are
    /// left.
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

/// Reads how many bytes this node has, and how many are available (proc(5), meminfo).
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
