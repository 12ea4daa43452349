//! Counts calls of the program that leave state in the kernel.
//!
//! The runtime reads such state only if [`KERNEL_USE`] has counted a call.
#![allow(unsafe_code)]

use crate::effect_reports::reporting_functions;
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::Ordering;
use understudy_abi::kernel_use::KernelUse;

/// Counters for the runtime.
pub static KERNEL_USE: KernelUse = KernelUse::new();

/// Advice that the kernel stores with a mapping (madvise(2)): fork(2), merging, core dumps.
const LASTING_ADVICE: [c_int; 8] = [10, 11, 12, 13, 16, 17, 18, 19];
/// `MADV_HUGEPAGE` and `MADV_NOHUGEPAGE`.
const HUGE_PAGES: [c_int; 2] = [14, 15];
const MADV_GUARD_INSTALL: c_int = 102;

// The functions below return false, because stops of the calling thread are not blocked
// ([`reporting_functions`]).

fn count_advice(advice: c_int) -> bool {
    if LASTING_ADVICE.contains(&advice) {
        KERNEL_USE.advice.fetch_add(1, Ordering::Relaxed);
    }
    if HUGE_PAGES.contains(&advice) {
        KERNEL_USE.huge_pages.fetch_add(1, Ordering::Relaxed);
    }
    if advice == MADV_GUARD_INSTALL {
        KERNEL_USE.guards.fetch_add(1, Ordering::Relaxed);
    }
    false
}

fn count_lock() -> bool {
    KERNEL_USE.advice.fetch_add(1, Ordering::Relaxed);
    false
}

fn count_limit() -> bool {
    KERNEL_USE.limits.fetch_add(1, Ordering::Relaxed);
    false
}

/// Number of mbind(2), which libnuma calls by syscall(2).
pub const MBIND: usize = 237;
/// Number of set_mempolicy_home_node(2).
pub const SET_MEMPOLICY_HOME_NODE: usize = 450;

/// Counts a call that sets the NUMA policy, or the home node, of a range.
pub extern "C" fn count_policy(call: usize, start: usize, length: usize) {
    if call == SET_MEMPOLICY_HOME_NODE {
        KERNEL_USE.home_nodes.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let end = start.saturating_add(length);
    KERNEL_USE.policy_start.fetch_min(start, Ordering::Relaxed);
    KERNEL_USE.policy_end.fetch_max(end, Ordering::Relaxed);
    KERNEL_USE.policies.fetch_add(1, Ordering::Release);
}

reporting_functions! {
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int { count_advice(advice) }
    fn mlock(address: *const c_void, length: usize) -> c_int { count_lock() }
    fn mlock2(address: *const c_void, length: usize, flags: c_int) -> c_int { count_lock() }
    fn mlockall(flags: c_int) -> c_int { count_lock() }
    fn setrlimit(resource: c_uint, limit: *const c_void) -> c_int { count_limit() }
    fn setrlimit64(resource: c_uint, limit: *const c_void) -> c_int { count_limit() }
    fn prlimit(process: c_int, resource: c_uint, new: *const c_void, old: *mut c_void) -> c_int {
        count_limit()
    }
    fn prlimit64(process: c_int, resource: c_uint, new: *const c_void, old: *mut c_void) -> c_int {
        count_limit()
    }
}
