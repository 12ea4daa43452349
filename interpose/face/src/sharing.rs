//! Mappings of the user side that other processes may share: counted, so that the runtime looks for them only if there
//! have been any.
#![allow(unsafe_code)]

use crate::libc::next;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);

/// Where the runtime may read how many such mappings the user side has made.
pub fn made() -> *const u32 {
    MADE.as_ptr()
}

fn count_mmap(flags: c_int, fd: c_int) {
    const MAP_SHARED: c_int = 1;
    if flags & MAP_SHARED != 0 && fd >= 0 {
        MADE.fetch_add(1, Ordering::Relaxed);
    }
}

/// A function of libc's name that counts and calls the next definition.
macro_rules! counted {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) { $count:expr })*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> *mut c_void {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            const NAME: &core::ffi::CStr = crate::libc::c_name(concat!(stringify!($name), "\0"));
            $count;
            // SAFETY: libc's function has this type; the rest is handed on to the caller.
            unsafe {
                let real: unsafe extern "C" fn($($kind),*) -> *mut c_void = core::mem::transmute(next(&REAL, NAME));
                real($($argument),*)
            }
        }
    )*};
}

counted! {
    fn mmap(at: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) {
        count_mmap(flags, fd)
    }
    fn mmap64(at: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) {
        count_mmap(flags, fd)
    }
    fn shmat(id: c_int, at: *const c_void, flags: c_int) { MADE.fetch_add(1, Ordering::Relaxed) }
}
