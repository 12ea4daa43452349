//! Effects on files that cannot be undone.
//!
//! Such effects are those of threads other than the main thread while they do not hold the MPI
//! lock.
#![allow(unsafe_code)]

use super::output::stream_relay;
use crate::arch::turn;
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use understudy_abi::effect;
use understudy_formats::private::open_own;
use understudy_numbers::Epoch;

/// Words in which such effects are recorded.
///
/// The first is in the ledger, the second beside the checkpoints on disk. Null if the word is not
/// used.
static NOTES: [AtomicPtr<AtomicU64>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
/// Checkpoint at whose cut the current section of the program began.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Records that the program now continues from the cut of `epoch`.
///
/// All threads of the program must be stopped.
pub fn begin(epoch: Epoch) {
    EPOCH.store(epoch.0, Ordering::Relaxed);
    let note = stream_relay::effects().map_or(std::ptr::null_mut(), |note| {
        std::ptr::from_ref(note).cast_mut()
    });
    NOTES[0].store(note, Ordering::Relaxed);
}

/// Additionally records effects in a file.
///
/// Used if the job may restart from checkpoints on disk.
pub fn note_in(path: &Path) -> io::Result<()> {
    const LENGTH: usize = size_of::<u64>();
    let file = open_own(path, libc::O_RDWR | libc::O_CREAT)?;
    file.set_len(LENGTH as u64)?;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping, which is never unmapped. The caller's stack is in the reserved range,
    // so the mapping is placed there as well.
    let note = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            LENGTH,
            protection,
            flags,
            file.as_raw_fd(),
            0,
        )
    };
    if note == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NOTES[1].store(note.cast(), Ordering::Relaxed);
    Ok(())
}

/// Records that a thread other than the main thread changes files.
///
/// The change will not be undone. `entry::file_effect` calls this in that thread, on its stack and
/// with its thread-local data.
///
/// # Safety
/// The string must be valid or null.
pub unsafe extern "C" fn effect_of_others(kind: u32, _: c_int, path: *const c_char) {
    if matches!(
        kind,
        effect::OPEN_LIBRARY | effect::CLOSE_LIBRARY | effect::MADE
    ) {
        return;
    }
    // SAFETY: guaranteed by the caller; the words are never unmapped.
    unsafe {
        let starts_with =
            |top: &[u8]| !path.is_null() && CStr::from_ptr(path).to_bytes().starts_with(top);
        // Paths of no regular files.
        if starts_with(b"/proc/")
            || starts_with(b"/sys/")
            || starts_with(b"/dev/") && !starts_with(b"/dev/shm/")
        {
            return;
        }
        // From the next cut on the change would be recorded and undone.
        turn::want();
        for note in &NOTES {
            if let Some(note) = note.load(Ordering::Relaxed).as_ref() {
                note.fetch_max(EPOCH.load(Ordering::Relaxed) + 1, Ordering::SeqCst);
            }
        }
    }
}
