//! Memory that libmpi frees while a transfer may still write into it.
//!
//! A blocking collective of Open MPI that fails frees its temporary buffers although requests that use them may be under
//! way. While the runtime says so, what its thread frees is kept here; it is freed for good when the collective has
//! succeeded, and never if it has failed.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn __libc_free(memory: *mut c_void);
    fn malloc_usable_size(memory: *mut c_void) -> usize;
}

/// Smaller blocks take no message that travels in pieces.
const LARGE: usize = 2048;
/// So many blocks are kept; further ones are never freed.
const ROOM: usize = 256;

struct Held {
    blocks: [*mut c_void; ROOM],
    count: usize,
}

/// Only the thread that holds uses it.
struct Cell(UnsafeCell<Held>);

// SAFETY: see above.
unsafe impl Sync for Cell {}

static HELD: Cell = Cell(UnsafeCell::new(Held {
    blocks: [core::ptr::null_mut(); ROOM],
    count: 0,
}));

/// The thread (its control block, fs:0x10) that holds back what it frees; 0: none.
static HOLDER: AtomicUsize = AtomicUsize::new(0);

fn thread() -> usize {
    let thread: usize;
    // SAFETY: glibc's thread control block points to itself at fs:0x10.
    unsafe { core::arch::asm!("mov {}, fs:[0x10]", out(reg) thread, options(nostack, readonly, preserves_flags)) };
    thread
}

/// From now on, what this thread frees is kept.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_hold_frees() {
    HOLDER.store(thread(), Ordering::Relaxed);
}

/// The end of that; `free`: nothing is under way, what was kept can be freed.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_release_frees(free: bool) {
    HOLDER.store(0, Ordering::Relaxed);
    // SAFETY: this is the thread that held; the blocks are the caller's of `free`.
    unsafe {
        let held = &mut *HELD.0.get();
        let count = core::mem::take(&mut held.count);
        for &block in held.blocks.iter().take(if free { count } else { 0 }) {
            __libc_free(block);
        }
    }
}

/// free(3)
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(memory: *mut c_void) {
    let holder = HOLDER.load(Ordering::Relaxed);
    // SAFETY: the caller's block; `HELD` is used by the holding thread alone.
    unsafe {
        if holder == 0 || holder != thread() || malloc_usable_size(memory) <= LARGE {
            return __libc_free(memory);
        }
        let held = &mut *HELD.0.get();
        if let Some(place) = held.blocks.get_mut(held.count) {
            *place = memory;
            held.count += 1;
        }
    }
}
