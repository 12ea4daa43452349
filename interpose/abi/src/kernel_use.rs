//! Calls of the program that leave state in the kernel.
//!
//! The runtime reads such state only if [`KernelUse`] has counted a call.

use crate::kernel_aio::AioContexts;
use crate::system_v::SystemVObjects;
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Counters and identifiers, written by the preload library.
#[derive(Debug)]
pub struct KernelUse {
    /// Calls that set attributes of mappings: mlock(2), and madvise(2) except as below.
    pub advice: AtomicU32,
    /// Calls of madvise(2) with `MADV_HUGEPAGE` or `MADV_NOHUGEPAGE`.
    pub huge_pages: AtomicU32,
    /// Calls of madvise(2) with `MADV_GUARD_INSTALL`.
    pub guards: AtomicU32,
    /// Calls that set NUMA policies of ranges: mbind(2).
    pub policies: AtomicU32,
    /// Lowest address of the ranges with NUMA policies.
    pub policy_start: AtomicUsize,
    /// First address past the ranges with NUMA policies.
    pub policy_end: AtomicUsize,
    /// Calls that set home nodes of ranges: set_mempolicy_home_node(2).
    pub home_nodes: AtomicU32,
    /// Calls that set resource limits.
    pub limits: AtomicU32,
    /// System V semaphore sets and message queues.
    pub objects: SystemVObjects,
    /// Contexts of kernel AIO.
    pub contexts: AioContexts,
}

impl KernelUse {
    #[expect(clippy::new_without_default, reason = "a constant is needed")]
    pub const fn new() -> KernelUse {
        KernelUse {
            advice: AtomicU32::new(0),
            huge_pages: AtomicU32::new(0),
            guards: AtomicU32::new(0),
            policies: AtomicU32::new(0),
            policy_start: AtomicUsize::new(usize::MAX),
            policy_end: AtomicUsize::new(0),
            home_nodes: AtomicU32::new(0),
            limits: AtomicU32::new(0),
            objects: SystemVObjects::new(),
            contexts: AioContexts::new(),
        }
    }
}
