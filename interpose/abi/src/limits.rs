//! Least resource limits (setrlimit(2)) with which a process can be protected.

use crate::address_map::MPI_FD_BASE;

/// A resource of setrlimit(2), and the least soft limit.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    /// Number of the resource.
    pub resource: u32,
    /// Name of the resource.
    pub name: &'static str,
    /// Least value of the soft limit.
    pub limit: u64,
}

/// Data in bytes: two heaps of ld.so take 1 GiB each.
pub const DATA: Least = Least {
    resource: 2,
    name: "RLIMIT_DATA",
    limit: 3 << 30,
};

/// Open files: descriptors of the runtime and of the MPI library lie above the program's.
pub const FILES: Least = Least {
    resource: 7,
    name: "RLIMIT_NOFILE",
    limit: MPI_FD_BASE as u64 + 64,
};

/// Address space in bytes: 1 TiB for copies of pages, and the rest.
pub const ADDRESSES: Least = Least {
    resource: 9,
    name: "RLIMIT_AS",
    limit: (1 << 40) + (16 << 30),
};
