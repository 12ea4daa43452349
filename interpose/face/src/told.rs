//! How the runtime is told of what the program does to files, before it happens.
#![allow(unsafe_code)]

use crate::{child_effects, noted, threads, turns};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::effect::Hook;

/// The runtime's hook; null: this process is not protected.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// openat(2): relative to the working directory.
pub const AT_FDCWD: c_int = -100;

/// Lets the runtime know of effects from now on.
pub fn tell_runtime(hook: *const c_void) {
    HOOK.store(hook.cast_mut(), Ordering::Release);
}

/// An effect on two names. Whether the calling thread is held until it has happened
/// ([`threads::hold`]).
///
/// # Safety
/// The strings must be valid or null.
pub unsafe fn tell_two(
    kind: u32,
    directory: c_int,
    path: *const c_char,
    other_directory: c_int,
    other: *const c_char,
    value: i64,
) -> bool {
    let hook = HOOK.load(Ordering::Acquire);
    if hook.is_null() || noted::is_forked() {
        let names = [(directory, path), (other_directory, other)];
        // SAFETY: handed on to the caller.
        unsafe { child_effects::report(kind, names, value) };
        return false;
    }
    // SAFETY: the runtime's function of this type.
    unsafe {
        let hook: Hook = core::mem::transmute(hook);
        if turns::is_shared() {
            turns::tell(hook, (kind, directory, path, other_directory, other, value));
            return true;
        }
        let held = threads::hold();
        hook(kind, directory, path, other_directory, other, value);
        held
    }
}

/// An effect on one name, as [`tell_two`].
///
/// # Safety
/// The string must be valid or null.
pub unsafe fn tell(kind: u32, directory: c_int, path: *const c_char, value: i64) -> bool {
    // SAFETY: handed on to the caller.
    unsafe { tell_two(kind, directory, path, AT_FDCWD, core::ptr::null(), value) }
}

/// A function of libc's name that tells the runtime and calls the next definition, the result of
/// which something may be done with. A variadic `mode` is passed in a register, whether it was
/// given or not, so it may be handed on unseen.
macro_rules! told {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty { $tell:expr } $(=> $after:expr;)?)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            use core::sync::atomic::AtomicPtr;
            static REAL: AtomicPtr<core::ffi::c_void> = AtomicPtr::new(core::ptr::null_mut());
            const NAME: &core::ffi::CStr = $crate::libc::c_name(concat!(stringify!($name), "\0"));
            // SAFETY: libc's function has this type; the rest is handed on to the caller.
            unsafe {
                let is_held: bool = $tell;
                let real: unsafe extern "C" fn($($kind),*) -> $result = core::mem::transmute($crate::libc::next(&REAL, NAME));
                let result = real($($argument),*);
                $($after(result);)?
                if is_held {
                    $crate::stop::unblock();
                }
                result
            }
        }
    )*};
}
pub(crate) use told;
