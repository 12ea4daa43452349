//! Data that the kernel passes to a new process in addition to arguments and environment.
#![allow(unsafe_code)]

use core::ffi::c_char;

const AT_NULL: usize = 0;
const AT_BASE: usize = 7;
const AT_FLAGS: usize = 8;
const AT_RANDOM: usize = 25;
const AT_EXECFN: usize = 31;

/// Entries of the auxiliary vector that are used (getauxval(3)).
pub struct Auxv {
    /// AT_EXECFN: file name that was passed to execve(2).
    pub execfn: *const c_char,
    /// AT_BASE: address at which ld.so is mapped.
    pub loader: usize,
    /// AT_RANDOM: the kernel's random bytes.
    pub random: *mut [u8; 16],
    /// AT_FLAGS: true if the kernel kept argv\[0\] for an interpreter registered with binfmt_misc.
    ///
    /// The registration then has the flag `P`. The interpreter of a `#!` script never receives the
    /// script's argv\[0\].
    pub keeps_argv0: bool,
}

impl Auxv {
    /// Reads the vector that follows the environment on the stack.
    ///
    /// # Safety
    /// `envp` must be the kernel's array, which the vector follows.
    pub unsafe fn after(envp: *const *const c_char) -> Auxv {
        let mut auxv = Auxv {
            execfn: core::ptr::null(),
            loader: 0,
            random: core::ptr::null_mut(),
            keeps_argv0: false,
        };
        // SAFETY: the caller guarantees that `envp` is the kernel's array, which the vector
        // follows.
        unsafe {
            let mut string = envp;
            while !string.read().is_null() {
                string = string.add(1);
            }
            let mut entry = string.add(1).cast::<[usize; 2]>();
            while entry.read()[0] != AT_NULL {
                let [kind, value] = entry.read();
                match kind {
                    AT_BASE => auxv.loader = value,
                    AT_FLAGS => auxv.keeps_argv0 = value & 1 != 0,
                    AT_RANDOM => auxv.random = value as *mut [u8; 16],
                    AT_EXECFN => auxv.execfn = value as *const c_char,
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        auxv
    }
}
