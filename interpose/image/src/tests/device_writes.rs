//! Writes of a device into pinned memory, which the kernel's write tracking does not report.
//!
//! Buffers that are registered with io_uring (io_uring_register(2)) are pinned with the flags that
//! a driver of an RDMA network uses (FOLL_WRITE and FOLL_LONGTERM, ib_umem_get of Linux), and
//! `IORING_OP_READ_FIXED` writes to the pinned pages through the kernel's own mapping, as a device
//! does. No network device is necessary.

#![allow(unsafe_code)]

use super::support::*;
use crate::kernel::{Pagemap, Uffd, category as cat};
use crate::pages::AddrRange;
use std::fs::File;
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use understudy_formats::pages::Tracking;

const PAGES: u64 = 16;

const IORING_OFF_SQ_RING: i64 = 0;
const IORING_OFF_CQ_RING: i64 = 0x800_0000;
const IORING_OFF_SQES: i64 = 0x1000_0000;
const IORING_ENTER_GETEVENTS: u32 = 1;
const IORING_REGISTER_BUFFERS: u32 = 0;
const IORING_OP_READ_FIXED: u8 = 4;

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct RingParameters {
    entries_flags_and_reserved: [u32; 10],
    submissions: SubmissionOffsets,
    completions: CompletionOffsets,
}

/// `struct io_sqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask_entries_flags_and_dropped: [u32; 4],
    array: u32,
    reserved: [u32; 3],
}

/// `struct io_cqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    entries: u32,
    reserved: [u32; 4],
}

/// `struct io_uring_sqe`.
#[repr(C)]
#[derive(Default)]
struct Submission {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    address: u64,
    length: u32,
    others: [u32; 9],
}

/// `struct io_uring_cqe`.
#[repr(C)]
struct Completion {
    user_data: u64,
    /// Number of bytes, or a negative error number.
    result: i32,
    flags: u32,
}

const _: () = assert!(size_of::<RingParameters>() == 120);
const _: () = assert!(size_of::<Submission>() == 64 && size_of::<Completion>() == 16);

/// Ring of results, which the kernel fills.
struct CompletionQueue {
    head: *const AtomicU32,
    tail: *const AtomicU32,
    mask: u32,
    entries: *const Completion,
}

impl CompletionQueue {
    fn map(ring: &OwnedFd, offsets: &CompletionOffsets) -> io::Result<CompletionQueue> {
        let queue = map_ring(ring, IORING_OFF_CQ_RING)?;
        // SAFETY: the kernel states these offsets in the mapped queue.
        unsafe {
            let at = |offset: u32| queue.add(offset as usize);
            Ok(CompletionQueue {
                head: at(offsets.head).cast(),
                tail: at(offsets.tail).cast(),
                mask: at(offsets.ring_mask).cast::<u32>().read(),
                entries: at(offsets.entries).cast(),
            })
        }
    }

    /// Removes the next result; `None` if the kernel has not reported any.
    fn next(&self) -> Option<i32> {
        // SAFETY: the queue is mapped; the kernel writes an entry before it raises the tail.
        unsafe {
            let head = (*self.head).load(Ordering::Relaxed);
            if head == (*self.tail).load(Ordering::Acquire) {
                return None;
            }
            let entry = self.entries.add((head & self.mask) as usize);
            let result = (*entry).result;
            (*self.head).store(head.wrapping_add(1), Ordering::Release);
            Some(result)
        }
    }
}

/// Stand-in for a network device that has registered a range of memory.
struct Device {
    ring: OwnedFd,
    tail: *const AtomicU32,
    array: *mut u32,
    submission: *mut Submission,
    completions: CompletionQueue,
    range: AddrRange,
}

impl Device {
    /// Registers a range, which pins its pages; `None`, and a skipped test, without io_uring.
    fn register(range: AddrRange) -> Option<Device> {
        let device = Device::try_register(range);
        let reason = |error: &io::Error| skip(&format!("io_uring is not available: {error}"));
        device.inspect_err(reason).ok()
    }

    fn try_register(range: AddrRange) -> io::Result<Device> {
        let mut parameters = RingParameters::default();
        // SAFETY: io_uring_setup(2) fills the parameters; the new descriptor has no other owner.
        let ring = unsafe {
            let fd = libc::syscall(libc::SYS_io_uring_setup, 2, &raw mut parameters);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd as i32)
        };
        let queue = map_ring(&ring, IORING_OFF_SQ_RING)?;
        let submission = map_ring(&ring, IORING_OFF_SQES)?.cast();
        let buffer = libc::iovec {
            iov_base: range.start as *mut _,
            iov_len: range.len() as usize,
        };
        // SAFETY: io_uring_register(2) with one buffer, which is mapped.
        let result = unsafe {
            let (fd, operation) = (ring.as_raw_fd(), IORING_REGISTER_BUFFERS);
            libc::syscall(libc::SYS_io_uring_register, fd, operation, &buffer, 1)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel states these offsets in the mapped queue.
        let (tail, array) = unsafe {
            let at = |offset: u32| queue.add(offset as usize);
            let offsets = &parameters.submissions;
            (at(offsets.tail).cast(), at(offsets.array).cast())
        };
        let completions = CompletionQueue::map(&ring, &parameters.completions)?;
        Ok(Device {
            ring,
            completions,
            tail,
            array,
            submission,
            range,
        })
    }

    /// Writes the content of a file to the registered range.
    fn write(&self, file: &File) {
        let length = self.range.len() as u32;
        // SAFETY: the queue and its entry are mapped; the kernel reads them in io_uring_enter(2),
        // and writes to the registered range, to which no reference exists.
        let submitted = unsafe {
            self.submission.write(Submission {
                opcode: IORING_OP_READ_FIXED,
                fd: file.as_raw_fd(),
                address: self.range.start,
                length,
                ..Submission::default()
            });
            let tail = (*self.tail).load(Ordering::Relaxed);
            self.array.add(tail as usize % 2).write(0);
            (*self.tail).store(tail + 1, Ordering::Release);
            let fd = self.ring.as_raw_fd();
            libc::syscall(
                libc::SYS_io_uring_enter,
                fd,
                1,
                1,
                IORING_ENTER_GETEVENTS,
                0,
                0,
            )
        };
        assert_eq!(submitted, 1, "{}", io::Error::last_os_error());
        let result = self.completions.next();
        assert_eq!(
            result,
            Some(length as i32),
            "result of IORING_OP_READ_FIXED"
        );
    }
}

fn map_ring(ring: &OwnedFd, offset: i64) -> io::Result<*mut u8> {
    let (access, flags) = (RW, libc::MAP_SHARED | libc::MAP_POPULATE);
    // SAFETY: a new mapping, which lives as long as the test's process.
    let at = unsafe {
        let fd = ring.as_raw_fd();
        libc::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            access,
            flags,
            fd,
            offset,
        )
    };
    match at {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at.cast()),
    }
}

/// Memory of a test, and the kernel's tracking of writes to the memory.
struct Tracked {
    user: TestProgram,
    pagemap: Pagemap,
    _uffd: Uffd,
}

impl Tracked {
    /// Maps, fills and protects the pages.
    ///
    /// Returns `None`, and skips the test, if writes are not tracked.
    fn new() -> Option<Tracked> {
        let user = TestProgram::new();
        user.map(0, PAGES, RW);
        user.advise(0, PAGES, libc::MADV_NOHUGEPAGE);
        user.fill(0, PAGES, 1);
        let (uffd, mut pagemap) = kernel_tracking()?;
        uffd.register(range(&user)).unwrap();
        pagemap.protect(range(&user)).unwrap();
        Some(Tracked {
            user,
            pagemap,
            _uffd: uffd,
        })
    }

    /// Returns the number of pages that count as written, and protects them again.
    fn written(&mut self) -> u64 {
        let filter = crate::kernel::ScanFilter {
            all: cat::WRITTEN,
            any: cat::PRESENT | cat::SWAPPED,
            report: cat::WRITTEN,
        };
        let (range, mut found) = (range(&self.user), Vec::new());
        self.pagemap
            .scan_and_protect(range, filter, &mut found)
            .unwrap();
        found.iter().map(|region| region.pages().pages).sum()
    }
}

fn range(user: &TestProgram) -> AddrRange {
    AddrRange::new(user.addr(0), user.addr(PAGES))
}

#[test]
fn writes_to_pages_that_were_pinned_before_they_were_protected_do_not_count() {
    let Some(mut tracked) = Tracked::new() else {
        return;
    };
    let Some(device) = Device::register(range(&tracked.user)) else {
        return;
    };
    assert_eq!(
        tracked.written(),
        PAGES,
        "the registration itself is a write access"
    );
    let source = TempFile::new("message", PAGES, 7);
    device.write(&source.open());
    assert_eq!(tracked.written(), 0, "tracking reports the device's writes");
    assert_eq!((tracked.user.read(0), tracked.user.read(PAGES - 1)), (7, 7));
}

#[test]
fn writes_by_read_and_process_vm_writev_to_pinned_pages_count() {
    let Some(mut tracked) = Tracked::new() else {
        return;
    };
    let Some(_device) = Device::register(range(&tracked.user)) else {
        return;
    };
    tracked.written();
    let length = (PAGES * PAGE) as usize;
    let source = TempFile::new("message", PAGES, 7);
    // SAFETY: mapped, writable pages of the test, to which no other reference exists.
    let memory = unsafe { std::slice::from_raw_parts_mut(tracked.user.addr(0) as *mut u8, length) };
    source.open().read_exact(memory).unwrap();
    assert_eq!(tracked.written(), PAGES);
    let bytes = vec![9_u8; length];
    let [from, to] =
        [bytes.as_ptr().cast_mut(), tracked.user.addr(0) as *mut u8].map(|base| libc::iovec {
            iov_base: base.cast(),
            iov_len: length,
        });
    // SAFETY: process_vm_writev(2) from a vector to the same pages of this process.
    let copied = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
    assert_eq!(copied, length as isize, "{}", io::Error::last_os_error());
    assert_eq!((tracked.written(), tracked.user.read(3)), (PAGES, 9));
}

/// Captures and rollbacks miss what a device has written, unless pages are compared.
#[test]
fn exposed_pages_are_captured_and_rolled_back_after_a_device_has_written() {
    let user = TestProgram::new();
    user.map(0, PAGES, RW);
    user.advise(0, PAGES, libc::MADV_NOHUGEPAGE);
    user.fill(0, PAGES, 1);
    if kernel_tracking().is_none() {
        return;
    }
    let Some(device) = Device::register(range(&user)) else {
        return;
    };
    let mut rank = TestRank::new(Tracking::PagemapScan);
    let message = |value| TempFile::new("message", PAGES, value);
    rank.commit(&user);
    device.write(&message(101).open());
    assert_eq!(
        rank.commit(&user).page_count(),
        0,
        "nothing was to be found"
    );
    device.write(&message(102).open());
    rank.tracker.expose(&[range(&user).pages()]);
    assert_eq!(rank.commit(&user).page_count(), PAGES);
    device.write(&message(103).open());
    rank.rollback(&user);
    assert_eq!((user.read(0), user.read(PAGES - 1)), (102, 102));
    rank.tracker.expose_only(Vec::new());
    device.write(&message(103).open());
    rank.rollback(&user);
    assert_eq!(user.read(0), 103, "nothing was to be found");
}
