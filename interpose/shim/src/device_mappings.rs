//! mmap(2), which keeps mappings of devices from children.
//!
//! Each mapping and each descriptor of a device keeps the kernel's context of the device alive. A
//! child with a copy would let the device write into this process's memory after a reset of the
//! MPI side has released both (`docs/design/networks.md`, "No late writes").
#![allow(unsafe_code)]

use crate::descriptors;
use crate::raw::syscall;
use crate::threads::libc_function;
use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::AtomicUsize;
use understudy_abi::device_files::is_device;

const FSTAT: c_long = 5;
const MADVISE: c_long = 28;
const MADV_DONTFORK: usize = 10;
const MAP_ANONYMOUS: c_int = 0x20;
const MAP_FAILED: isize = -1;
const F_SETFD: c_int = 2;
const FD_CLOEXEC: usize = 1;

type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;

/// Returns true if a descriptor is that of a device.
fn is_device_descriptor(fd: c_int) -> bool {
    let mut stat = [0u64; 18];
    // SAFETY: fstat(2) writes 144 bytes; st_mode is the 32-bit word at offset 24, and st_rdev is at
    // offset 40.
    let result = unsafe { syscall(FSTAT, fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0) };
    result == 0 && is_device(stat[3] as u32, stat[5])
}

/// Defines mmap(2) and its other name.
macro_rules! mappings {
    ($($name:ident)*) => {$(
        /// mmap(2), which keeps mappings and descriptors of devices from children.
        ///
        /// # Safety
        /// The requirements of mmap(2) apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            address: *mut c_void,
            length: usize,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: i64,
        ) -> *mut c_void {
            static REAL: AtomicUsize = AtomicUsize::new(0);
            // SAFETY: libc's function has this type, and the caller meets its requirements. The
            // advice concerns the new mapping only.
            unsafe {
                let real: Map = core::mem::transmute(libc_function(&REAL, c"mmap"));
                let mapping = real(address, length, protection, flags, fd, offset);
                let is_of_file = flags & MAP_ANONYMOUS == 0 && mapping as isize != MAP_FAILED;
                if is_of_file && is_device_descriptor(fd) {
                    syscall(MADVISE, mapping as usize, length, MADV_DONTFORK, 0, 0, 0);
                    descriptors::fcntl(fd, F_SETFD, FD_CLOEXEC);
                }
                mapping
            }
        }
    )*};
}

mappings! { mmap mmap64 }
