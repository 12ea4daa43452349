//! Reports effects of the program on files to the runtime before they happen.
#![allow(unsafe_code)]

use crate::{child_effects, mpi_lock, recorded_process, threads};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::effect::Hook;

/// The runtime's function, or null in an unprotected process.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Descriptor that stands for the working directory (openat(2)).
pub const AT_FDCWD: c_int = -100;

/// Makes effects call the runtime's function from now on.
pub fn connect(hook: *const c_void) {
    HOOK.store(hook.cast_mut(), Ordering::Release);
}

/// Reports an effect on two names.
///
/// A thread that has reported an effect must not be stopped for a cut before the effect has
/// happened. Returns true if stops of the calling thread are therefore blocked
/// ([`threads::block_stops`]), so that the caller must unblock them after the effect.
///
/// # Safety
/// The strings must be valid or null.
pub unsafe fn report_pair(
    kind: u32,
    directory: c_int,
    path: *const c_char,
    other_directory: c_int,
    other: *const c_char,
    value: i64,
) -> bool {
    let hook = HOOK.load(Ordering::Acquire);
    if hook.is_null() || recorded_process::is_forked() {
        let names = [(directory, path), (other_directory, other)];
        // SAFETY: the caller guarantees that each string is valid or null.
        unsafe { child_effects::report(kind, names, value) };
        return false;
    }
    // SAFETY: `connect` has stored the runtime's function of this type, and the caller guarantees
    // that each string is valid or null.
    unsafe {
        let hook: Hook = core::mem::transmute(hook);
        if mpi_lock::is_enabled() {
            mpi_lock::record_effect(hook, (kind, directory, path, other_directory, other, value));
            return true;
        }
        let is_blocked = threads::block_stops();
        hook(kind, directory, path, other_directory, other, value);
        is_blocked
    }
}

/// Reports an effect on one name, like [`report_pair`].
///
/// # Safety
/// The string must be valid or null.
pub unsafe fn report(kind: u32, directory: c_int, path: *const c_char, value: i64) -> bool {
    // SAFETY: the caller guarantees that the string is valid or null.
    unsafe { report_pair(kind, directory, path, AT_FDCWD, core::ptr::null(), value) }
}

/// Defines functions of libc that report to the runtime and call the next definition.
///
/// The expression in braces makes the report, and returns true if stops of the thread are blocked.
/// An expression after `=>` is called with the result. A variadic mode is always forwarded: the
/// System V ABI passes it in a register, whose value libc's function ignores if there is no mode.
macro_rules! reporting_functions {
    ($(
        fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty { $report:expr }
            $(=> $after:expr;)?
    )*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            const NAME: &core::ffi::CStr = $crate::libc::c_name(concat!(stringify!($name), "\0"));
            // SAFETY: libc's function has this type, and the caller meets its requirements.
            unsafe {
                let is_blocked: bool = $report;
                let real = $crate::libc::next_function!(
                    NAME,
                    unsafe extern "C" fn($($kind),*) -> $result
                );
                let result = real($($argument),*);
                $($after(result);)?
                if is_blocked {
                    $crate::stop::unblock();
                }
                result
            }
        }
    )*};
}
pub(crate) use reporting_functions;
