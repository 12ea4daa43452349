//! NUMA policies of the main thread, and of ranges of memory (mbind(2)).
//!
//! Policies of ranges are read only if the program has called mbind(2), or a checkpoint with such
//! policies was loaded. For private memory the kernel stores the policy in the mapping, and splits
//! the mapping where policies differ. For shared memory and files in memory the policy belongs to
//! the object, and no list of mappings shows it: no checkpoint is taken at a cut where an object
//! has a policy.
#![allow(unsafe_code)]

use super::kernel_calls::kernel_calls;
use super::{UserError, zones};
use crate::kernel_state::attributes::{HOME_NODES, SHARED_POLICIES};
use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering;
use understudy_catalogue::message;
use understudy_image::PAGE_SIZE;
use understudy_image::layout::{Backing, Layout};
use understudy_image::pages::{self, AddrRange, PageRun};
use understudy_image::procmap;
use understudy_image::vmas::{Owner, Vma};

/// Policy with its flags, then the mask of nodes up to the last set bit.
///
/// Empty if the kernel does not support policies.
pub(super) type Policy = Vec<u8>;

/// Size of the largest mask of nodes that is read, in bytes.
const MASK_BYTES: usize = 1024;

/// Policies of ranges at a cut, each with its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct RangePolicies(Vec<(Policy, Vec<PageRun>)>);

/// Returns the policy of the calling thread.
pub(super) fn of_thread() -> Policy {
    read(0, 0)
}

/// Returns the policy of the memory at an address.
///
/// The result for memory without a policy is MPOL_DEFAULT, not the thread's policy.
fn policy_at(address: u64) -> Policy {
    const MPOL_F_ADDR: usize = 2;
    read(address, MPOL_F_ADDR)
}

/// Calls get_mempolicy(2).
fn read(address: u64, flags: usize) -> Policy {
    let mut policy = [0u8; 4];
    let mut mask = [0u8; MASK_BYTES];
    // SAFETY: get_mempolicy(2) writes an int, and at most the passed number of bits.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            policy.as_mut_ptr(),
            mask.as_mut_ptr(),
            8 * mask.len(),
            address,
            flags,
        )
    };
    let end = mask
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    match rc {
        0 => [&policy[..], &mask[..end]].concat(),
        _ => Vec::new(),
    }
}

/// True for a policy other than MPOL_DEFAULT.
fn is_set(policy: &Policy) -> bool {
    policy.iter().any(|byte| *byte != 0)
}

/// Returns policy, mask and number of bits for a call; `None` for an empty value.
///
/// The kernel uses one bit less than the passed number (set_mempolicy(2), BUGS), so zero is
/// invalid.
fn arguments(value: &[u8]) -> Option<(i32, [u8; MASK_BYTES], usize)> {
    let (policy, nodes) = value.split_first_chunk::<4>()?;
    let mut mask = [0u8; MASK_BYTES];
    let length = nodes.len().min(MASK_BYTES);
    mask[..length].copy_from_slice(&nodes[..length]);
    let bits = if nodes.is_empty() {
        1
    } else {
        8 * MASK_BYTES + 1
    };
    Some((i32::from_ne_bytes(*policy), mask, bits))
}

/// Sets the policy of the calling thread.
pub(super) fn set_of_thread(value: &[u8]) -> bool {
    // SAFETY: set_mempolicy(2) with a mask of this number of bits.
    arguments(value).is_some_and(|(policy, mask, bits)| unsafe {
        libc::syscall(libc::SYS_set_mempolicy, policy, mask.as_ptr(), bits) == 0
    })
}

/// Sets the policy of a range.
///
/// Moves the pages to the nodes of the policy.
fn set_range_policy(range: AddrRange, value: &[u8]) -> bool {
    const MPOL_MF_MOVE: usize = 2;
    // SAFETY: mbind(2) with a mask of this number of bits; the content of pages is unchanged.
    arguments(value).is_some_and(|(policy, mask, bits)| unsafe {
        libc::syscall(
            libc::SYS_mbind,
            range.start,
            range.len(),
            policy,
            mask.as_ptr(),
            bits,
            MPOL_MF_MOVE,
        ) == 0
    })
}

fn has_calls() -> bool {
    kernel_calls().policies.load(Ordering::Relaxed) > 0
}

/// Reads the policies of private memory.
///
/// `has_loaded` is true if a loaded checkpoint contains policies, which another process has set.
pub(super) fn capture(has_loaded: bool, layout: &Layout) -> RangePolicies {
    if !has_calls() && !has_loaded {
        return RangePolicies::default();
    }
    let is_private = |backing: &Backing| matches!(backing, Backing::Anonymous | Backing::Heap);
    let areas = layout.areas().iter();
    let own = areas.filter(|area| is_private(&area.backing));
    let own = pages::normalise(own.map(|area| area.pages()).collect());
    let mut saved = RangePolicies::default();
    for vma in procmap::read_outside(zones()).unwrap_or_default() {
        let pages = pages::intersect(&[vma.range.pages()], &own);
        let Some(first) = pages.first() else {
            continue;
        };
        let policy = policy_at(first.range().start);
        if is_set(&policy) {
            saved.add(policy, pages);
        }
    }
    saved
}

/// Sets the policies of the cut; called after the pages have been loaded.
pub(super) fn restore(has_loaded: &Cell<bool>, saved: &RangePolicies, layout: &Layout) {
    if !saved.0.is_empty() {
        has_loaded.set(true);
    }
    let now = capture(has_loaded.get(), layout);
    let default = 0i32.to_ne_bytes();
    let all = saved
        .0
        .iter()
        .fold(Vec::new(), |all, (_, pages)| pages::union(&all, pages));
    for (_, pages) in &now.0 {
        apply(&pages::subtract(pages, &all), &default);
    }
    for (policy, pages) in &saved.0 {
        apply(&pages::subtract(pages, now.pages(policy)), policy);
    }
}

fn apply(pages: &[PageRun], policy: &[u8]) {
    for run in pages {
        if !set_range_policy(run.range(), policy) {
            log::warn!(
                "{}",
                message::memory_policy_not_restored(run.range(), io::Error::last_os_error())
            );
        }
    }
}

impl RangePolicies {
    fn add(&mut self, policy: Policy, pages: Vec<PageRun>) {
        match self.0.iter_mut().find(|(known, _)| *known == policy) {
            Some((_, known)) => *known = pages::union(known, &pages),
            None => self.0.push((policy, pages)),
        }
    }

    fn pages(&self, policy: &Policy) -> &[PageRun] {
        let found = self.0.iter().find(|(known, _)| known == policy);
        found.map_or(&[], |(_, pages)| pages)
    }
}

/// Refuses policies that cannot be read, or cannot be set in another process.
pub(super) fn check() -> Result<(), UserError> {
    let calls = kernel_calls();
    let refused = |what: String, why| Err(UserError::KernelState { what, why });
    if calls.home_nodes.load(Ordering::Relaxed) > 0 {
        return refused("a home node of memory".into(), HOME_NODES);
    }
    if !has_calls() {
        return Ok(());
    }
    let [start, end] = [&calls.policy_start, &calls.policy_end];
    let [start, end] = [start, end].map(|place| place.load(Ordering::Relaxed) as u64);
    let named = AddrRange::new(start & !(PAGE_SIZE as u64 - 1), end.max(start));
    let all = procmap::read_outside(zones())?;
    match all.iter().find(|vma| has_policy_of_object(vma, named)) {
        Some(vma) => {
            let path = String::from_utf8_lossy(&vma.path);
            refused(format!("a NUMA policy for {path}"), SHARED_POLICIES)
        }
        None => Ok(()),
    }
}

/// True if a mapping that is not private memory has a policy within `named`.
///
/// Such mappings are those of files and of shared memory, and the stack.
fn has_policy_of_object(vma: &Vma, named: AddrRange) -> bool {
    let owner = zones().owner_at(vma, vma.range.start);
    let is_private = vma.inode == 0 && !vma.shared;
    if owner != Owner::Stack && (owner != Owner::User || is_private) {
        return false;
    }
    vma.range.intersect(named).is_some_and(|part| {
        let mut pages = (part.start..part.end).step_by(PAGE_SIZE);
        pages.any(|address| is_set(&policy_at(address)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIND_TO_NODE_0: [u8; 5] = [2, 0, 0, 0, 1];

    #[test]
    fn policies_of_ranges_are_read_as_they_are_set() {
        let length = 4 * PAGE_SIZE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) } as u64;
        let page = |number: u64| AddrRange::new(at + number * 4096, at + (number + 1) * 4096);
        assert!(!is_set(&policy_at(at)));
        if !set_range_policy(page(1), &BIND_TO_NODE_0) {
            eprintln!("mbind is not permitted here");
            return;
        }
        assert_eq!(policy_at(at + 4096), BIND_TO_NODE_0);
        assert!(!is_set(&policy_at(at)) && !is_set(&policy_at(at + 2 * 4096)));
        assert!(set_range_policy(page(1), &0i32.to_ne_bytes()));
        assert!(!is_set(&policy_at(at + 4096)));
    }

    #[test]
    fn pages_are_kept_by_policy() {
        let run = |start, end| AddrRange::new(start, end).pages();
        let mut saved = RangePolicies::default();
        saved.add(vec![1], vec![run(0x1000, 0x2000)]);
        saved.add(vec![2], vec![run(0x2000, 0x3000)]);
        saved.add(vec![1], vec![run(0x3000, 0x4000)]);
        assert_eq!(
            saved.pages(&vec![1]),
            [run(0x1000, 0x2000), run(0x3000, 0x4000)]
        );
        assert_eq!(saved.pages(&vec![2]), [run(0x2000, 0x3000)]);
        assert!(saved.pages(&vec![3]).is_empty());
    }
}
