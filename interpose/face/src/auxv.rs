//! Data that the kernel passes to a new process in addition to arguments and environment.
#![allow(unsafe_code)]

use core::ffi::c_char;

/// Entries of the auxiliary vector that are used (getauxval(3)).
pub struct Auxv {
    /// AT_EXECFN: file name that was passed to execve(2).
    pub execfn: *const c_char,
    /// AT_BASE: address at which ld.so is mapped.
    pub loader: usize,
    /// AT_RANDOM: the kernel's random bytes.
    pub random: *mut [u8; 16],
    /// AT_FLAGS: true if a script's argv\[0\] was kept (binfmt_misc's flag `P`).
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
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut at = envp;
            while !at.read().is_null() {
                at = at.add(1);
            }
            let mut entry = at.add(1).cast::<[usize; 2]>();
            while entry.read()[0] != 0 {
                let [kind, value] = entry.read();
                match kind {
                    7 => auxv.loader = value,
                    8 => auxv.keeps_argv0 = value & 1 != 0,
                    25 => auxv.random = value as *mut [u8; 16],
                    31 => auxv.execfn = value as *const c_char,
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        auxv
    }
}
