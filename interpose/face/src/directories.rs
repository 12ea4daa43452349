//! Directory listings without understudy's backups.
//!
//! Until the next checkpoint, a file that the program has changed has a backup: a hidden file in
//! the same directory (`.understudy-…`). The functions below hide backups from the program. Calls
//! within libc do not use these functions, so glob(3), nftw(3) and fts(3) list backups.
#![allow(unsafe_code)]

use crate::libc::{c_name, next};
use crate::{child_effects, recorded_process, sys};
use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use understudy_abi::descriptor_facts::BACKUP_PREFIX;

/// Offset of the name in `struct dirent` and `struct dirent64` of x86-64.
const NAME: usize = 19;

type Directory = *mut c_void;
type Entry = *mut c_char;
type Function = *const c_void;

unsafe extern "C" {
    fn free(memory: *mut c_void);
}

/// Returns true for the entry of a backup, in a rank and its descendants.
///
/// # Safety
/// `entry` must be an entry that libc has returned.
unsafe fn is_backup(entry: Entry) -> bool {
    // SAFETY: the caller guarantees that `entry` is an entry of libc, whose name is a C string.
    unsafe { sys::bytes(entry.add(NAME)) }.starts_with(BACKUP_PREFIX.as_bytes())
        && (recorded_process::is_protected() || child_effects::has_rank())
}

/// Defines libc's functions that list directories, each under its two names.
macro_rules! listings {
    ($($read:ident $read_into:ident $scan:ident;)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $read(directory: Directory) -> Entry {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            // SAFETY: libc's function has this type, and the caller meets its requirements.
            unsafe {
                let read = next(&REAL, c_name(concat!(stringify!($read), "\0")));
                let read: unsafe extern "C" fn(Directory) -> Entry = transmute(read);
                loop {
                    let entry = read(directory);
                    if entry.is_null() || !is_backup(entry) {
                        return entry;
                    }
                }
            }
        }

        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $read_into(
            directory: Directory,
            entry: Entry,
            result: *mut Entry,
        ) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            // SAFETY: libc's function has this type, and the caller meets its requirements.
            unsafe {
                let read = next(&REAL, c_name(concat!(stringify!($read_into), "\0")));
                let read: unsafe extern "C" fn(Directory, Entry, *mut Entry) -> c_int =
                    transmute(read);
                loop {
                    let error = read(directory, entry, result);
                    if error != 0 || (*result).is_null() || !is_backup(*result) {
                        return error;
                    }
                }
            }
        }

        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $scan(
            path: *const c_char,
            list: *mut *mut Entry,
            filter: Function,
            order: Function,
        ) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            // SAFETY: libc's function has this type, and the caller meets its requirements; libc
            // has allocated the list.
            unsafe {
                let scan = next(&REAL, c_name(concat!(stringify!($scan), "\0")));
                let scan: unsafe extern "C" fn(
                    *const c_char,
                    *mut *mut Entry,
                    Function,
                    Function,
                ) -> c_int = transmute(scan);
                match scan(path, list, filter, order) {
                    count @ 1.. => without_backups(*list, count as usize) as c_int,
                    other => other,
                }
            }
        }
    )*};
}

listings! {
    readdir readdir_r scandir;
    readdir64 readdir64_r scandir64;
}

/// Removes backups from a list of entries; returns the number of remaining entries.
///
/// # Safety
/// `list` must be a list of scandir(3).
unsafe fn without_backups(list: *mut Entry, count: usize) -> usize {
    let mut kept = 0;
    for at in 0..count {
        // SAFETY: the caller guarantees that `list` is a list of scandir(3); libc has allocated
        // the entry.
        unsafe {
            let entry = *list.add(at);
            if is_backup(entry) {
                free(entry.cast());
            } else {
                *list.add(kept) = entry;
                kept += 1;
            }
        }
    }
    kept
}
