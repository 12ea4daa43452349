//! Effects on files that cannot be undone.
//!
//! The undo log is part of the runtime's state, which only a thread with the MPI lock may use.
//! Threads other than the main thread may change files without the MPI lock. Of such a change only
//! the fact is recorded, so that a recovery that would have to undo the change ends the job.
#![allow(unsafe_code)]

use super::output::stream_relay;
use crate::arch::mpi_lock;
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use understudy_abi::effect;
use understudy_formats::private_directories::open_own;
use understudy_numbers::Epoch;

/// Addresses of the words that record effects which cannot be undone.
///
/// The first word is in the ledger, the second one in a file beside the checkpoints on disk. The
/// address is null if the word is not used. A word contains the number of the last section with
/// such an effect, plus one; zero if no section had such an effect.
static EFFECT_WORDS: [AtomicPtr<AtomicU64>; 2] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
/// Number of the current section: the checkpoint at whose cut the section began.
static CURRENT_SECTION: AtomicU64 = AtomicU64::new(0);

/// Records that the program now continues from the cut of `epoch`.
///
/// All threads of the program must be stopped.
pub fn begin_section(epoch: Epoch) {
    CURRENT_SECTION.store(epoch.0, Ordering::Relaxed);
    let word = stream_relay::effect_word().map_or(std::ptr::null_mut(), |word| {
        std::ptr::from_ref(word).cast_mut()
    });
    EFFECT_WORDS[0].store(word, Ordering::Relaxed);
}

/// Additionally records effects in a file.
///
/// Used if the job may restart from checkpoints on disk.
pub fn record_in_file(path: &Path) -> io::Result<()> {
    const LENGTH: usize = size_of::<u64>();
    let file = open_own(path, libc::O_RDWR | libc::O_CREAT)?;
    file.set_len(LENGTH as u64)?;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: the call creates a new mapping, which is never unmapped. The caller's stack is in
    // the reserved range, so the mapping is also placed in the reserved range.
    let word = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            LENGTH,
            protection,
            flags,
            file.as_raw_fd(),
            0,
        )
    };
    if word == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    EFFECT_WORDS[1].store(word.cast(), Ordering::Relaxed);
    Ok(())
}

/// Records that a thread other than the main thread changes files.
///
/// The change will not be undone. `entry::file_effect` calls this function in that thread, on the
/// thread's stack and with its thread-local data.
///
/// # Safety
/// The string must be valid or null.
pub unsafe extern "C" fn record_unlocked_effect(kind: u32, _: c_int, path: *const c_char) {
    if matches!(
        kind,
        effect::OPEN_LIBRARY | effect::CLOSE_LIBRARY | effect::NAME_CREATED
    ) {
        return;
    }
    // SAFETY: the caller passes a valid string or null, and the words are never unmapped.
    unsafe {
        let starts_with =
            |top: &[u8]| !path.is_null() && CStr::from_ptr(path).to_bytes().starts_with(top);
        // These paths do not lead to regular files.
        if starts_with(b"/proc/")
            || starts_with(b"/sys/")
            || starts_with(b"/dev/") && !starts_with(b"/dev/shm/")
        {
            return;
        }
        // From the next cut on, threads get the MPI lock, and their changes are recorded.
        mpi_lock::request_sharing();
        for word in &EFFECT_WORDS {
            if let Some(word) = word.load(Ordering::Relaxed).as_ref() {
                word.fetch_max(
                    CURRENT_SECTION.load(Ordering::Relaxed) + 1,
                    Ordering::SeqCst,
                );
            }
        }
    }
}
