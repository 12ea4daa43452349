//! Start of the guardian.
//!
//! The launcher sees only the guardian, which is the parent of the rank.
//!
//! A launcher ends a job when one of its processes terminates. The first execution of the program
//! therefore becomes `ckptd guardian`, which executes the program again as its child and outlives
//! it. The program's process then has [`environ::MANAGER`] in its environment.
#![allow(unsafe_code)]

use crate::bypass::Program;
use crate::environ;
use crate::launched::{self, Protection};
use crate::link::{self, Path, own_path};
use crate::sys::{nr, sys};
use core::ffi::c_char;
use understudy_catalogue::message;

/// Executes a program whose MPI library another preload library replaces, with that library.
///
/// This requires a guardian.
///
/// # Safety
/// As for [`launched::protection`].
pub unsafe fn execute_matching_library(program: &Program, list: *const *const c_char) {
    // SAFETY: guaranteed by the caller.
    let protection = unsafe { launched::protection(list) };
    // SAFETY: as above.
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
    let mut face = Path::new();
    let name = others.find_map(link::preload_library_for);
    // If this is that library, another execution would not help.
    if let Some(name) = name.filter(|name| !own_path().ends_with(name)) {
        face.push(Path::directory(own_path())).push(name);
        if !face.is_file() {
            program.refuse(None, &message::PRELOAD_LIBRARY_MISSING);
        }
        // SAFETY: a valid environment.
        let environment =
            unsafe { environ::with_preload_library(list, own_path(), face.as_bytes()) };
        if let Some(environment) = environment {
            program.execute(environment);
        }
    }
}

/// Executes the guardian in place of the program, which becomes its child.
pub fn become_guardian(program: &Program) -> ! {
    let mut ckptd = Path::new();
    ckptd.push(Path::directory(own_path())).push(b"/ckptd");
    // SAFETY: the arrays of this process; execve(2) of valid ones.
    let error = unsafe {
        let arguments = [&b"ckptd"[..], b"guardian", b"--", program.path.as_bytes()];
        let arguments = environ::prepend(&arguments, program.arguments());
        match (arguments, environ::for_guardian(program.environment)) {
            (Some(arguments), Some(environment)) => {
                sys!(nr::EXECVE, ckptd.as_ptr(), arguments, environment)
            }
            _ => -12,
        }
    };
    program.refuse(None, &message::ckptd_not_executable(-error))
}
