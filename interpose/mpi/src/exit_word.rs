//! Word of glibc's `struct pthread` that the kernel clears when the thread exits.
//!
//! pthread_join(3) waits until the kernel has cleared the word. The word is the member `tid` up to
//! glibc 2.42, and `joinstate` from 2.43 on (nptl/descr.h).
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::OnceLock;
use understudy_abi::control_block;

/// Last minor release of glibc 2 in which the word is the thread's number.
const LAST_WITH_NUMBER: u32 = 42;

/// Returns the offset of the word in `struct pthread`; `None` if it cannot be determined.
///
/// `number` is the offset of the thread's number, `size` the size of the structure in bytes. The
/// kernel reports the address of the calling thread's word (prctl(2), PR_GET_TID_ADDRESS), so the
/// first call must be made by a thread that glibc has started. A kernel without
/// CONFIG_CHECKPOINT_RESTORE does not report the address; the offset then depends on the version of
/// glibc.
pub fn exit_word(number: usize, size: usize) -> Option<usize> {
    static WORD: OnceLock<Option<usize>> = OnceLock::new();
    *WORD.get_or_init(|| match offset_from_kernel() {
        Some(offset) => (offset < size).then_some(offset),
        None => is_number().then_some(number),
    })
}

fn offset_from_kernel() -> Option<usize> {
    let mut address = 0usize;
    // SAFETY: prctl(2) writes one word.
    let failed = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut address) } != 0;
    let offset = address.wrapping_sub(control_block::address());
    (!failed).then_some(offset)
}

/// True if the word is the thread's number in this version of glibc.
fn is_number() -> bool {
    // SAFETY: gnu_get_libc_version(3) returns a constant string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    let minor = version.to_str().ok().and_then(minor_release);
    minor.is_some_and(|minor| minor <= LAST_WITH_NUMBER)
}

/// Returns the minor release of a version of glibc 2, such as 36 of `2.36`.
fn minor_release(version: &str) -> Option<u32> {
    version.strip_prefix("2.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_releases_are_read() {
        assert_eq!(minor_release("2.36"), Some(36));
        assert_eq!(minor_release("2.42.9000"), Some(42));
        assert_eq!(minor_release("3.1"), None);
        assert_eq!(minor_release("2.x"), None);
    }

    #[test]
    fn the_kernel_clears_the_number_in_old_versions_only() {
        // SAFETY: libc's descriptor for debuggers has three 32-bit words: size, count, offset.
        let number = unsafe {
            let descriptor = libc::dlsym(libc::RTLD_DEFAULT, c"_thread_db_pthread_tid".as_ptr());
            assert!(!descriptor.is_null());
            descriptor.cast::<u32>().add(2).read() as usize
        };
        let thread = std::thread::spawn(offset_from_kernel);
        if let Some(offset) = thread.join().expect("no panic") {
            assert_eq!(offset == number, is_number());
        }
    }
}
