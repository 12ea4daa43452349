//! Effects on files of other threads than the main one that have no turn, which cannot be undone.
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

/// Where it is noted that other threads than the main one change files: in the ledger, and beside
/// the epochs on disk; null: nobody looks.
static NOTES: [AtomicPtr<AtomicU64>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
/// The epoch after whose cut the program is.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// The program is behind the cut of this epoch. All its threads stand still.
pub fn begin(epoch: Epoch) {
    EPOCH.store(epoch.0, Ordering::Relaxed);
    let note = stream_relay::effects().map_or(std::ptr::null_mut(), |note| {
        std::ptr::from_ref(note).cast_mut()
    });
    NOTES[0].store(note, Ordering::Relaxed);
}

/// The job may be started again from epochs on disk: it is noted in this file, too.
pub fn note_in(path: &Path) -> io::Result<()> {
    const LENGTH: usize = size_of::<u64>();
    let file = open_own(path, libc::O_RDWR | libc::O_CREAT)?;
    file.set_len(LENGTH as u64)?;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping, which stays; the caller is on a stack in the zone, so that is where it
    // lies.
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

/// Records that another thread than the main one changes files, which will not be undone.
///
/// `entry::file_effect` calls this in that thread, on its stack and with its thread-local data.
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
    // SAFETY: as the caller promises; the notes are never unmapped.
    unsafe {
        let starts_with =
            |top: &[u8]| !path.is_null() && CStr::from_ptr(path).to_bytes().starts_with(top);
        // No files.
        if starts_with(b"/proc/")
            || starts_with(b"/sys/")
            || starts_with(b"/dev/") && !starts_with(b"/dev/shm/")
        {
            return;
        }
        // From the next cut on it will be.
        turn::want();
        for note in &NOTES {
            if let Some(note) = note.load(Ordering::Relaxed).as_ref() {
                note.fetch_max(EPOCH.load(Ordering::Relaxed) + 1, Ordering::SeqCst);
            }
        }
    }
}
