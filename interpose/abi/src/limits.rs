//! Minimum resource limits (setrlimit(2)) with which a process can be protected.

use crate::address_map::MPI_FD_BASE;

/// A resource of setrlimit(2) and its minimum soft limit.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    /// Number of the resource.
    pub resource: u32,
    /// Name of the resource.
    pub name: &'static str,
    /// Minimum value of the soft limit.
    pub limit: u64,
}

/// Data in bytes: two heaps of ld.so occupy 1 GiB each.
pub const DATA: Least = Least {
    resource: 2,
    name: "RLIMIT_DATA",
    limit: 3 << 30,
};

/// Open files: the runtime and MPI sides use descriptors above the program's.
pub const FILES: Least = Least {
    resource: 7,
    name: "RLIMIT_NOFILE",
    limit: MPI_FD_BASE as u64 + 64,
};

/// Address space in bytes: 1 TiB for copies of pages, 16 GiB for everything else.
pub const ADDRESSES: Least = Least {
    resource: 9,
    name: "RLIMIT_AS",
    limit: (1 << 40) + (16 << 30),
};
