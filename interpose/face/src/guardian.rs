//! Start of the guardian: the process that the launcher sees in place of the rank.
//!
//! A launcher ends a job when one of its processes terminates. The process that the launcher has
//! started therefore executes `ckptd guardian` in place of the program. The guardian executes the
//! program again as its child, and outlives the program. The child has [`environ::MANAGER`] in its
//! environment, and starts no further guardian.
#![allow(unsafe_code)]

use crate::bypass::Program;
use crate::environ;
use crate::launched::{self, Protection};
use crate::link::{self, Path, own_path};
use crate::sys::{nr, sys};
use core::ffi::c_char;
use understudy_catalogue::message;

/// Executes the program again with the preload library that its MPI library requires.
///
/// A process without a guardian executes the guardian first. The function returns if no other
/// preload library fits, if the job cannot be protected or is not to be protected
/// (UNDERSTUDY_DISABLE), or if the execution fails.
///
/// # Safety
/// The requirements of [`launched::protection`] apply.
pub unsafe fn execute_matching_library(program: &Program, list: *const *const c_char) {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    let protection = unsafe { launched::protection(list) };
    // SAFETY: the caller guarantees that `list` is a valid environment.
    if unsafe { environ::is_on(list, b"UNDERSTUDY_DISABLE=") } {
        return;
    }
    match protection {
        Protection::Guardian => become_guardian(program),
        Protection::Manager => {}
        Protection::None => return,
    }
    let base = link::own_base();
    let mut others = link::objects().filter(|object| object.base() != base);
    let mut library = Path::new();
    let name = others.find_map(link::preload_library_for);
    // If the library that fits is this one, another execution would not help.
    if let Some(name) = name.filter(|name| !own_path().ends_with(name)) {
        library.push(Path::directory(own_path())).push(name);
        if !library.is_file() {
            program.refuse(None, &message::PRELOAD_LIBRARY_MISSING);
        }
        // SAFETY: the caller guarantees that `list` is a valid environment.
        let environment =
            unsafe { environ::with_preload_library(list, own_path(), library.as_bytes()) };
        if let Some(environment) = environment {
            program.execute(environment);
        }
    }
}

const ENOMEM: isize = 12;

/// Executes the guardian in place of the program, which becomes the guardian's child.
pub fn become_guardian(program: &Program) -> ! {
    let mut ckptd = Path::new();
    ckptd.push(Path::directory(own_path())).push(b"/ckptd");
    // SAFETY: the caller of `Program::new` guarantees valid arguments and a valid environment, of
    // which the arrays for execve(2) are copies.
    let result = unsafe {
        let arguments = [&b"ckptd"[..], b"guardian", b"--", program.path.as_bytes()];
        let arguments = environ::prepend(&arguments, program.arguments());
        match (arguments, environ::for_guardian(program.environment)) {
            (Some(arguments), Some(environment)) => {
                sys!(nr::EXECVE, ckptd.as_ptr(), arguments, environment)
            }
            _ => -ENOMEM,
        }
    };
    program.refuse(None, &message::ckptd_not_executable(-result))
}
