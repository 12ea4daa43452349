//! The two kernel interfaces that report written pages.
//!
//! * `PAGEMAP_SCAN`: <https://docs.kernel.org/admin-guide/mm/pagemap.html>
//! * `userfaultfd` with asynchronous write protection:
//!   <https://docs.kernel.org/admin-guide/mm/userfaultfd.html>
//!
//! The ABI is defined here, because the headers of distributions are older than the kernel.

#![allow(unsafe_code)]

use super::pages::{AddrRange, PageRun};
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use understudy_abi::RUNTIME_FD_BASE;

/// Page properties that `PAGEMAP_SCAN` reports.
pub mod category {
    /// The mapping can be write-protected asynchronously.
    pub const WPALLOWED: u64 = 1 << 0;
    /// Written since it was protected, or never protected.
    pub const WRITTEN: u64 = 1 << 1;
    /// A page of the page cache, not an anonymous one.
    pub const FILE: u64 = 1 << 2;
    pub const PRESENT: u64 = 1 << 3;
    /// Page that is swapped out or being migrated, or a marker without a page.
    pub const SWAPPED: u64 = 1 << 4;
    /// Shared zero page.
    pub const PFNZERO: u64 = 1 << 5;
    /// Guard page (`MADV_GUARD_INSTALL`), reported from Linux 6.15 on.
    pub const GUARD: u64 = 1 << 8;
}

const PM_SCAN_WP_MATCHING: u64 = 1 << 0;
const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const UFFD_FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;

#[repr(C)]
struct PmScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Pages with equal categories (`struct page_region`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Address behind the last page.
    pub end: u64,
    /// Bits of [`category`], limited to the requested ones.
    pub categories: u64,
}

impl Region {
    pub fn pages(&self) -> PageRun {
        AddrRange::new(self.start, self.end).pages()
    }
}

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioRegister {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `_IOWR(kind, number, T)` of `asm-generic/ioctl.h`.
const fn iowr<T>(kind: u8, number: u8) -> u64 {
    (3 << 30) | ((size_of::<T>() as u64) << 16) | ((kind as u64) << 8) | number as u64
}

const PAGEMAP_SCAN: u64 = iowr::<PmScanArg>(b'f', 16);
const UFFDIO_API: u64 = iowr::<UffdioApi>(0xaa, 0x3f);
const UFFDIO_REGISTER: u64 = iowr::<UffdioRegister>(0xaa, 0x00);

const _: () = assert!(size_of::<PmScanArg>() == 96 && size_of::<Region>() == 24);
const _: () = assert!(PAGEMAP_SCAN == 0xc060_6610);
const _: () = assert!(UFFDIO_API == 0xc018_aa3f);
const _: () = assert!(UFFDIO_REGISTER == 0xc020_aa00);

/// Selection of the pages in a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanFilter {
    /// Categories that a page must all have.
    pub all: u64,
    /// Categories of which a page must have at least one; 0 for no condition.
    pub any: u64,
    /// Categories that are reported.
    pub report: u64,
}

/// Regions per ioctl.
///
/// A larger buffer would save little, because the kernel collects the regions in a small buffer of
/// its own and copies them from there.
const REGIONS_PER_SCAN: usize = 2048;

/// Open page map of this process.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    batch: Vec<Region>,
}

impl Pagemap {
    /// Opens the page map of this process.
    ///
    /// # Errors
    /// Errors of open(2).
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            file: File::open("/proc/self/pagemap")?,
            batch: vec![Region::default(); REGIONS_PER_SCAN],
        })
    }

    /// Returns the file, from which page map entries can be read.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Appends the matching regions of `range`, in order.
    ///
    /// # Errors
    /// Errors of the ioctl; `ENOTTY` before Linux 6.7.
    pub fn scan(
        &mut self,
        range: AddrRange,
        want: ScanFilter,
        out: &mut Vec<Region>,
    ) -> io::Result<()> {
        self.walk(range, want, 0, |regions| out.extend_from_slice(regions))
    }

    /// Scans like [`Pagemap::scan`] and write-protects the returned pages in one walk.
    ///
    /// Mappings that cannot be protected are skipped.
    ///
    /// # Errors
    /// Errors of the ioctl; any number of pages may have been protected by then.
    pub fn scan_and_protect(
        &mut self,
        range: AddrRange,
        want: ScanFilter,
        out: &mut Vec<Region>,
    ) -> io::Result<()> {
        let each = |regions: &[Region]| out.extend_from_slice(regions);
        self.walk(range, want, PM_SCAN_WP_MATCHING, each)
    }

    /// Write-protects every unprotected page of `range` that is present or swapped out.
    ///
    /// The scan gets a buffer although its result is not used. Without a buffer the kernel also
    /// puts markers on pages that do not exist, and these markers later look like swapped pages.
    ///
    /// # Errors
    /// Errors of the ioctl.
    pub fn protect(&mut self, range: AddrRange) -> io::Result<()> {
        use category::{PRESENT, SWAPPED, WRITTEN};
        let want = ScanFilter {
            all: WRITTEN,
            any: PRESENT | SWAPPED,
            report: WRITTEN,
        };
        self.walk(range, want, PM_SCAN_WP_MATCHING, |_| ())
    }

    fn walk(
        &mut self,
        range: AddrRange,
        want: ScanFilter,
        flags: u64,
        mut each: impl FnMut(&[Region]),
    ) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let mut arg = PmScanArg {
                size: size_of::<PmScanArg>() as u64,
                flags,
                start: at,
                end: range.end,
                walk_end: 0,
                vec: self.batch.as_mut_ptr() as u64,
                vec_len: self.batch.len() as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: want.all,
                category_anyof_mask: want.any,
                return_mask: want.report,
            };
            // SAFETY: the argument and the vector in it live across the call, and have the layout
            // and length that the kernel receives.
            let n = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &mut arg) };
            if n < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            let found = &self.batch[..n as usize];
            each(found);
            // With a full vector and no write protection, the walk can stop before the end of the
            // last returned region. That region must not be returned twice.
            let seen = found.last().map_or(0, |region| region.end);
            let next = arg.walk_end.max(seen);
            if next <= at {
                return Err(io::Error::other("PAGEMAP_SCAN does not advance"));
            }
            at = next;
        }
        Ok(())
    }
}

/// Moves a descriptor to the runtime's range.
///
/// The program's next file must get the lowest number. If the move fails, the descriptor stays.
fn move_to_runtime_range(fd: OwnedFd) -> OwnedFd {
    // SAFETY: fcntl(2) on a descriptor that this function owns.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, RUNTIME_FD_BASE) };
    if moved < 0 {
        return fd;
    }
    // SAFETY: the descriptor is new, and only the returned value owns it.
    unsafe { OwnedFd::from_raw_fd(moved) }
}

/// Userfaultfd for write protection, whose faults the kernel resolves.
#[derive(Debug)]
pub struct Uffd(OwnedFd);

impl Uffd {
    /// Opens a userfaultfd for user-mode faults only, which needs no privilege.
    ///
    /// # Errors
    /// Errors of userfaultfd(2): `EPERM` from a seccomp filter, `ENOSYS`, or `EINVAL` if the kernel
    /// has no asynchronous write protection (before Linux 6.7).
    pub fn open() -> io::Result<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
        // SAFETY: the call takes only flags and returns a new descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let fd = move_to_runtime_range(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        let mut api = UffdioApi {
            api: UFFD_API,
            features: UFFD_FEATURE_PAGEFAULT_FLAG_WP
                | UFFD_FEATURE_WP_UNPOPULATED
                | UFFD_FEATURE_WP_ASYNC,
            ioctls: 0,
        };
        // SAFETY: the argument has the layout and the size that the request encodes.
        let rc = unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, &mut api) };
        if rc < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(fd))
    }

    /// Registers a range of mapped pages; repeated registration is cheap and no error.
    ///
    /// # Errors
    /// Errors of the ioctl; `EBUSY` if another userfaultfd covers a part of the range.
    pub fn register(&self, range: AddrRange) -> io::Result<()> {
        let mut arg = UffdioRegister {
            start: range.start,
            len: range.len(),
            mode: UFFDIO_REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: the argument has the layout and the size that the request encodes. Write
        // protection that the kernel resolves does not change the content that the program sees.
        let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), UFFDIO_REGISTER, &mut arg) };
        if rc < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
