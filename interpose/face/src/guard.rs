//! Becoming the guardian: what a launcher has started is not the rank, but its parent.
//!
//! A launcher ends a job when it sees one of its processes die. So the first execution of the program becomes `ckptd guardian`, which
//! executes the program again as its child, and does not die with it. The program's process then has [`MANAGER`] in its environment.
#![allow(unsafe_code)]

use crate::aside::Program;
use crate::environ::{self, ASIDE_VARIABLE, MANAGER};
use crate::launchers::Launcher;
use crate::link::{self, Path, own_path};
use crate::sys::{nr, sys};
use core::ffi::c_char;

/// How a failed job can go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// It cannot.
    None,
    /// This process has a process manager, and a guardian.
    Manager,
    /// This process can become a guardian.
    Guardian,
}

/// What this process's launcher allows.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn protection(list: *const *const c_char) -> Protection {
    // SAFETY: handed on to the caller.
    if unsafe { environ::value(list, MANAGER) }.is_some() {
        return Protection::Manager;
    }
    // SAFETY: handed on to the caller.
    match unsafe { can_meet(list) } {
        true => Protection::Guardian,
        false => Protection::None,
    }
}

/// The launcher that has started this process.
///
/// # Safety
/// As [`protection`].
pub unsafe fn launcher(list: *const *const c_char) -> Option<&'static Launcher> {
    // SAFETY: handed on to the caller.
    Launcher::of(|name| unsafe { environ::variable(list, name) })
}

/// What every PMIx launcher tells.
pub const PMIX_RANK: &[u8] = b"PMIX_RANK=";

/// Whether a launcher has started this process.
///
/// # Safety
/// As [`protection`].
pub unsafe fn is_launched(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
    unsafe { launcher(list).is_some() || environ::value(list, PMIX_RANK).is_some() }
}

/// Whether the guardians of this job can find each other: on one node, or by their launcher.
///
/// # Safety
/// As [`protection`].
unsafe fn can_meet(list: *const *const c_char) -> bool {
    // SAFETY: handed on to the caller.
    unsafe {
        launcher(list).is_some_and(|launcher| {
            launcher.meeting(|name| environ::variable(list, name)).is_some()
                || environ::variable(list, launcher.size) == environ::variable(list, launcher.local_size)
        })
    }
}

/// The program has another MPI library than this one stands in for: under a guardian it is executed with the face that fits.
///
/// # Safety
/// As [`protection`].
pub unsafe fn find_a_face(program: &Program, list: *const *const c_char) {
    // SAFETY: handed on to the caller.
    let protection = unsafe { protection(list) };
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
    let mut others = link::objects().filter(|object| object.l_addr != base);
    let mut face = Path::new();
    let name = others.find_map(|object| object.face());
    // This one would not do the second time either.
    if let Some(name) = name.filter(|name| !own_path().ends_with(name)) {
        face.push(Path::directory(own_path())).push(name);
        if !face.is_file() {
            program.refuse(None, format_args!("the layer's file for the program's MPI library is missing beside libunderstudy.so; keep the layer's files together"));
        }
        // SAFETY: a valid environment.
        if let Some(environment) = unsafe { environ::with_face(list, own_path(), face.as_bytes()) } {
            program.execute(environment);
        }
    }
}

/// Executes the guardian in place of the program, which it is told to start.
pub fn become_guardian(program: &Program) -> ! {
    let mut ckptd = Path::new();
    ckptd.push(Path::directory(own_path())).push(b"/ckptd");
    // SAFETY: the arrays of this process; execve(2) of valid ones.
    let error = unsafe {
        let arguments = [&b"ckptd"[..], b"guardian", b"--", program.path.as_bytes()];
        let arguments = environ::prepend(&arguments, program.arguments());
        let environment = environ::prepend(&[&ASIDE_VARIABLE[..ASIDE_VARIABLE.len() - 1]], program.environment);
        match (arguments, environment) {
            (Some(arguments), Some(environment)) => sys!(nr::EXECVE, ckptd.as_ptr(), arguments, environment),
            _ => -12,
        }
    };
    program.refuse(
        None,
        format_args!(
            "ckptd cannot be executed (errno {}), which belongs beside libunderstudy.so",
            -error
        ),
    )
}

/// The name of the file in the job's directory that tells the manager of it; `ckptd::line` has the same.
const ASIDE: &[u8] = b"/aside";

/// The program is about to run without us: its processes cannot be replaced.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn note_aside(list: *const *const c_char) {
    const O_CREAT: usize = 0o100;
    // SAFETY: handed on to the caller; openat(2) and close(2) of a path of our own.
    unsafe {
        let Some(manager) = environ::value(list, MANAGER) else {
            return;
        };
        let directory = manager.splitn(3, |&byte| byte == b',').nth(2).unwrap_or_default();
        let mut path = Path::new();
        path.push(directory).push(ASIDE);
        let file = sys!(nr::OPENAT, -100isize, path.as_ptr(), O_CREAT, 0o600);
        if file >= 0 {
            sys!(nr::CLOSE, file);
        }
    }
}
