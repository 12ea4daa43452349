//! Files and directories with names that libc generates: mkstemp(3) and related functions.
//!
//! libc's functions create these files by internal calls, which would not be reported to the
//! runtime; a rollback would not remove the files. The functions below create them with the
//! reporting functions of [`crate::files`].
#![allow(unsafe_code)]

use crate::files::{mkdir, open};
use core::ffi::{c_char, c_int, c_void};

const EEXIST: c_int = 17;
const EINVAL: c_int = 22;
const O_RDWR: c_int = 0o2;
const O_CREAT: c_int = 0o100;
const O_EXCL: c_int = 0o200;
const O_ACCMODE: c_int = 0o3;

/// Characters that replace the six letters X.
///
/// The letters a and b occur twice, because 64 characters divide the 256 values of a random byte
/// evenly.
const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ab";
/// Number of letters X.
const LETTER_COUNT: usize = 6;
/// Maximum number of names that are tried.
const ATTEMPTS: usize = 1000;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
    fn getrandom(buffer: *mut c_void, length: usize, flags: u32) -> isize;
    fn strlen(text: *const c_char) -> usize;
}

/// Replaces the letters X before a suffix by random ones, and calls `create`.
///
/// Tries again with other letters, at most [`ATTEMPTS`] times, while `create` fails with EEXIST.
///
/// # Safety
/// The template must be a writable string.
unsafe fn create_with_unique_name(
    template: *mut c_char,
    suffix: c_int,
    create: impl Fn(*const c_char) -> c_int,
) -> c_int {
    // SAFETY: the caller guarantees that the template is a writable string, of which this function
    // changes bytes before the end. `__errno_location` returns the address of this thread's errno.
    unsafe {
        let end = usize::try_from(suffix)
            .ok()
            .and_then(|suffix| strlen(template).checked_sub(suffix));
        let Some(start) = end.and_then(|end| end.checked_sub(LETTER_COUNT)) else {
            *__errno_location() = EINVAL;
            return -1;
        };
        let letters =
            core::slice::from_raw_parts_mut(template.cast::<u8>().add(start), LETTER_COUNT);
        if letters != b"XXXXXX" {
            *__errno_location() = EINVAL;
            return -1;
        }
        let previous_errno = *__errno_location();
        for _ in 0..ATTEMPTS {
            let mut random = [0u8; LETTER_COUNT];
            getrandom(random.as_mut_ptr().cast(), LETTER_COUNT, 0);
            for (letter, random) in letters.iter_mut().zip(random) {
                *letter = LETTERS[usize::from(random) % LETTERS.len()];
            }
            let result = create(template);
            if result >= 0 {
                *__errno_location() = previous_errno;
                return result;
            }
            if *__errno_location() != EEXIST {
                return result;
            }
        }
        -1
    }
}

macro_rules! temporary_files {
    ($($name:ident($($argument:ident),*) $suffix:expr, $flags:expr;)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(template: *mut c_char $(, $argument: c_int)*) -> c_int {
            let flags = ($flags & !O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL;
            // SAFETY: the caller meets the requirements of libc's function.
            unsafe { create_with_unique_name(template, $suffix, |path| open(path, flags, 0o600)) }
        }
    )*};
}

temporary_files! {
    mkstemp() 0, 0;
    mkstemp64() 0, 0;
    mkostemp(flags) 0, flags;
    mkostemp64(flags) 0, flags;
    mkstemps(suffix) suffix, 0;
    mkstemps64(suffix) suffix, 0;
    mkostemps(suffix, flags) suffix, flags;
    mkostemps64(suffix, flags) suffix, flags;
}

/// libc's function of this name.
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdtemp(template: *mut c_char) -> *mut c_char {
    // SAFETY: the caller meets the requirements of libc's function.
    let result = unsafe { create_with_unique_name(template, 0, |path| mkdir(path, 0o700)) };
    if result < 0 {
        core::ptr::null_mut()
    } else {
        template
    }
}
