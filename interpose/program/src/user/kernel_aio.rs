//! Contexts of kernel AIO (io_setup(2)) without pending requests.
//!
//! The identifier of a context is the address of its ring (`struct aio_ring` of `fs/aio.c`). The
//! kernel does not report how many requests of a context are pending, but the ring shows it: each
//! completed request adds one event at the ring's tail, and fewer requests can be outstanding than
//! the ring has events. So the number of pending requests is the number of submitted requests
//! ([`understudy_abi::kernel_aio`]) minus the tail, modulo the number of events. Example: a ring of
//! 128 events, 300 submitted requests, tail 40: (300 − 40) mod 128 = 4 requests are pending.
//!
//! Before a recovery restores files and memory, it destroys all contexts, and thereby waits for
//! their requests. Then it creates the contexts of the checkpoint, and mremap(2) moves their rings
//! to the former addresses. The kernel uses a separate copy of the tail, which does not change with
//! the ring's memory; requests that read nothing advance the tail to its former value.
#![allow(unsafe_code)]

use super::kernel_calls::kernel_calls;
use super::{UserError, sharing, zones};
use crate::kernel_state::attributes::{REQUESTS, UNCOUNTED};
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;
use understudy_abi::kernel_aio::{AioContext, AioContexts, AioRequest};
use understudy_formats::proc_file::ProcFile;
use understudy_image::procmap;
use understudy_image::remap::memory_file;
use understudy_image::vmas::Vma;

/// Prefix of the kernel's name of a ring.
const RING_NAME_PREFIX: &[u8] = b"/[aio]";
const MAGIC: u32 = 0xa10a_10a1;
const PAGE: u64 = 4096;

/// `struct aio_ring`, before its events.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    number: u32,
    events: u32,
    head: u32,
    tail: u32,
    magic: u32,
    features: [u32; 2],
    length: u32,
}

const HEADER: u64 = size_of::<Header>() as u64;

/// `struct io_event`.
type Event = [u64; 4];

const EVENT: u64 = size_of::<Event>() as u64;

/// Number of requests that one call submits.
const BATCH: usize = 64;

/// Context at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct SavedContext {
    address: u64,
    /// Length of the ring in bytes.
    length: u64,
    requests: u32,
    head: u32,
    tail: u32,
    /// Events of the ring, without trailing zeros.
    events: Vec<u8>,
}

/// Contexts at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct AioContextsAtCut(Vec<SavedContext>);

fn contexts() -> &'static AioContexts {
    &kernel_calls().contexts
}

/// True if contexts may exist.
fn may_exist() -> bool {
    static CONTEXTS: ProcFile = ProcFile::new("/proc/sys/fs/aio-nr");
    CONTEXTS.read().is_none_or(|count| count.trim() != "0")
}

/// True if mappings of devices, or rings, may exist.
pub(super) fn may_have_rings() -> bool {
    sharing::count() > 0 || may_exist()
}

/// True for the ring of a context.
pub(super) fn is_ring(vma: &Vma) -> bool {
    vma.path.starts_with(RING_NAME_PREFIX)
}

fn rings() -> std::result::Result<Vec<Vma>, UserError> {
    let mut all = procmap::read_outside(zones())?;
    all.retain(is_ring);
    Ok(all)
}

/// Returns the number of events that fit into a ring of this length.
fn events_in(length: u64) -> u64 {
    (length - HEADER) / EVENT
}

/// Reads the header of a ring.
///
/// # Safety
/// The ring must be mapped for reading.
unsafe fn header(address: u64) -> Header {
    // SAFETY: the caller guarantees that the ring is mapped for reading. The read is volatile,
    // because the kernel writes to the ring while requests are pending.
    unsafe { (address as *const Header).read_volatile() }
}

/// Returns the context of a ring and its header.
///
/// `None` if the ring differs from those that the kernel creates, or if its requests are not
/// counted.
fn counted(ring: &Vma) -> Option<(AioContext, Header)> {
    let known = contexts().find(ring.range.start as usize)?;
    if !(ring.shared && ring.prot.read && ring.prot.write && ring.offset == 0) {
        return None;
    }
    // SAFETY: the ring is mapped for reading, as checked above.
    let header = unsafe { header(ring.range.start) };
    let count = events_in(ring.range.len());
    let is_whole = header.magic == MAGIC
        && u64::from(header.length) == HEADER
        && u64::from(header.events) == count
        && u64::from(header.head) < count
        && u64::from(header.tail) < count;
    is_whole.then_some((known, header))
}

/// Returns the number of pending requests.
fn pending_requests(known: &AioContext, header: &Header) -> u64 {
    let count = u64::from(header.events);
    (known.submitted % count + count - u64::from(header.tail)) % count
}

/// Returns the reason why a context cannot be restored; `None` if it can be restored.
fn objection(ring: &Vma) -> Option<&'static str> {
    match counted(ring) {
        None => Some(UNCOUNTED),
        Some((known, header)) => (pending_requests(&known, &header) > 0).then_some(REQUESTS),
    }
}

/// Refuses contexts that cannot be restored.
///
/// All threads of the program must be stopped.
pub(super) fn check(rings: &[&Vma]) -> std::result::Result<(), UserError> {
    let has_ring = |known: &AioContext| {
        let is_ring_of = |ring: &&Vma| ring.range.start as usize == known.address;
        rings.iter().any(is_ring_of)
    };
    let lost = || (!contexts().all().all(|known| has_ring(&known))).then_some(UNCOUNTED);
    let objections = rings.iter().find_map(|ring| objection(ring));
    objections.or_else(lost).map_or(Ok(()), |why| {
        let what = "a context of kernel AIO (io_setup)".into();
        Err(UserError::KernelState { what, why })
    })
}

/// Returns the contexts at a cut.
pub(super) fn capture() -> std::result::Result<AioContextsAtCut, UserError> {
    if contexts().all().next().is_none() {
        return Ok(AioContextsAtCut::default());
    }
    let saved = |ring: &Vma| counted(ring).map(|(known, header)| save(ring, &known, &header));
    Ok(AioContextsAtCut(
        rings()?.iter().filter_map(saved).collect(),
    ))
}

fn save(ring: &Vma, known: &AioContext, header: &Header) -> SavedContext {
    let (first, length) = (ring.range.start + HEADER, ring.range.len() - HEADER);
    // SAFETY: the slice lies in a mapped ring, which the kernel does not change, because no
    // request is pending.
    let events = unsafe { std::slice::from_raw_parts(first as *const u8, length as usize) };
    let used = events.iter().rposition(|&byte| byte != 0);
    SavedContext {
        address: ring.range.start,
        length: ring.range.len(),
        requests: known.requests,
        head: header.head,
        tail: header.tail,
        events: events[..used.map_or(0, |last| last + 1)].to_vec(),
    }
}

/// Destroys all contexts, and waits until their requests have completed.
///
/// A pending request may change files and memory until it has completed.
pub(super) fn destroy_all() -> std::result::Result<(), UserError> {
    contexts().clear();
    if !may_exist() {
        return Ok(());
    }
    for ring in rings()? {
        let (start, length) = (ring.range.start, ring.range.len());
        // SAFETY: no request uses the ring after io_destroy(2), and the program's threads are
        // stopped. The call fails for a ring without a context, for example a parent's, which is
        // then unmapped.
        unsafe {
            if libc::syscall(libc::SYS_io_destroy, start) != 0 {
                libc::munmap(start as *mut _, length as usize);
            }
        }
    }
    Ok(())
}

/// Creates the contexts of the checkpoint.
///
/// The process must have no context, and the program's mappings must be those of the checkpoint.
pub(super) fn restore(saved: &AioContextsAtCut) -> std::result::Result<(), UserError> {
    let result = reserve(&saved.0).and_then(|()| saved.0.iter().try_for_each(SavedContext::create));
    result.map_err(|error| UserError::File {
        path: "a context of kernel AIO".into(),
        why: error.to_string(),
    })
}

/// Reserves the address ranges of all rings.
///
/// Without the reservation, the kernel could place another new ring at such an address.
fn reserve(saved: &[SavedContext]) -> Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    for context in saved {
        let (place, length) = (context.address as *mut _, context.length as usize);
        // SAFETY: MAP_FIXED_NOREPLACE never replaces an existing mapping.
        let at = unsafe { libc::mmap(place, length, libc::PROT_NONE, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
    }
    Ok(())
}

/// Returns the smallest number of requests that leads to a ring of this length.
///
/// The kernel makes room for twice that number, plus two events (`ioctx_alloc`).
fn min_requests(length: u64) -> u32 {
    let beyond = events_in(length - PAGE.min(length - HEADER)) + 1;
    (beyond.saturating_sub(2).div_ceil(2)).max(1) as u32
}

/// Creates a context with a ring of `length` bytes at any address.
///
/// The kernel raises a low number of requests to a minimum, which depends on the number of
/// processors. So the saved number is tried first, and then the number that this length itself
/// implies.
fn set_up(length: u64, requests: u32) -> Result<u64> {
    for requests in [requests, min_requests(length)] {
        let mut address = 0u64;
        // SAFETY: io_setup(2) writes an identifier; the ring is mapped.
        unsafe {
            if libc::syscall(libc::SYS_io_setup, requests, &raw mut address) != 0 {
                return Err(Error::last_os_error());
            }
            if u64::from(header(address).events) == events_in(length) {
                return Ok(address);
            }
            libc::syscall(libc::SYS_io_destroy, address);
        }
    }
    Err(Error::other(
        "this host has more processors, for which the kernel makes a longer ring",
    ))
}

impl SavedContext {
    /// Creates the context, with its ring at the former address.
    fn create(&self) -> Result<()> {
        let (length, target) = (self.length as usize, self.address as *mut libc::c_void);
        let ring = set_up(self.length, self.requests)?;
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: a new ring is moved to the range that was reserved for it.
        if unsafe { libc::mremap(ring as *mut _, length, length, flags, target) } != target {
            return Err(Error::last_os_error());
        }
        self.move_tail()?;
        // SAFETY: the ring, whose length is that of the saved ring.
        unsafe {
            let to = (self.address + HEADER) as *mut u8;
            self.events.as_ptr().copy_to(to, self.events.len());
            to.add(self.events.len())
                .write_bytes(0, length - HEADER as usize - self.events.len());
        }
        contexts().insert(AioContext {
            address: self.address as usize,
            requests: self.requests,
            submitted: u64::from(self.tail),
        });
        Ok(())
    }

    /// Moves head and tail of a new ring to their former values.
    fn move_tail(&self) -> Result<()> {
        if (self.head, self.tail) == (0, 0) {
            return Ok(());
        }
        let empty = memory_file(0)?;
        let count = events_in(self.length) as u32;
        self.submit(&empty, self.head, true)?;
        self.submit(&empty, (self.tail + count - self.head) % count, false)?;
        // SAFETY: the ring has been moved to this address and is mapped.
        let now = unsafe { header(self.address) };
        match (now.head, now.tail) == (self.head, self.tail) {
            true => Ok(()),
            false => Err(Error::other("head and tail of its ring cannot be restored")),
        }
    }

    /// Submits requests that read nothing and complete at once; optionally removes their events.
    fn submit(&self, empty: &OwnedFd, mut count: u32, removes_events: bool) -> Result<()> {
        let request = AioRequest {
            fd: empty.as_raw_fd(),
            ..AioRequest::default()
        };
        let all = [&raw const request; BATCH];
        let mut events = [Event::default(); BATCH];
        while count > 0 {
            let batch = BATCH.min(count as usize);
            // SAFETY: requests of this function, and room for the events.
            let done = unsafe {
                let done = libc::syscall(libc::SYS_io_submit, self.address, batch, all.as_ptr());
                if done > 0 && removes_events {
                    let (call, events) = (libc::SYS_io_getevents, events.as_mut_ptr());
                    libc::syscall(call, self.address, done, done, events, null_mut::<u8>());
                }
                done
            };
            if done <= 0 {
                return Err(Error::last_os_error());
            }
            count -= done as u32;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_of_requests_gives_a_ring_of_the_length() {
        assert_eq!(events_in(PAGE), 127);
        assert_eq!(min_requests(PAGE), 1);
        // 63 requests: 128 events; 127 requests: 256 events.
        assert_eq!(min_requests(2 * PAGE), 63);
        assert_eq!(min_requests(3 * PAGE), 127);
    }

    /// Reads the ring of a context.
    fn ring_of(address: u64) -> Vma {
        let all = rings().expect("mappings");
        let is_it = |ring: &Vma| ring.range.start == address;
        all.into_iter().find(is_it).expect("the ring")
    }

    #[test]
    fn head_and_tail_of_a_ring_are_restored() {
        for (head, tail) in [(0, 0), (5, 100), (200, 30), (254, 0)] {
            // The range is reserved as in `reserve`. Other tests map memory concurrently, so the
            // range stays mapped.
            let (access, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let length = 2 * PAGE as usize;
            // SAFETY: mmap(2) of new memory.
            let place = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
            assert_ne!(place, libc::MAP_FAILED);
            let context = SavedContext {
                address: place as u64,
                length: 2 * PAGE,
                requests: 63,
                head,
                tail,
                events: vec![7; 100],
            };
            let made = set_up(context.length, context.requests).expect("io_setup(2)");
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: a new ring, and a range that was reserved for it.
            let moved = unsafe { libc::mremap(made as *mut _, length, length, flags, place) };
            assert_eq!(moved, place);
            context.move_tail().expect("requests that read nothing");
            let known = AioContext {
                address: context.address as usize,
                requests: context.requests,
                submitted: u64::from(tail) + 255 * 3,
            };
            let ring = ring_of(context.address);
            // SAFETY: the ring is mapped.
            let header = unsafe { header(ring.range.start) };
            assert_eq!((header.head, header.tail), (head, tail));
            assert_eq!(pending_requests(&known, &header), 0);
            let later = AioContext {
                submitted: known.submitted + 4,
                ..known
            };
            assert_eq!(pending_requests(&later, &header), 4);
            // SAFETY: the context that this test has created.
            assert_eq!(unsafe { libc::syscall(libc::SYS_io_destroy, place) }, 0);
        }
    }
}
