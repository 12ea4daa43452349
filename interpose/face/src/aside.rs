//! Stepping aside: running the program as if this library had not been preloaded.
#![allow(unsafe_code)]

use crate::environ;
use crate::link::{self, Path};
use crate::msg::say;
use crate::sys::{self, nr, sys};
use core::ffi::c_char;
use core::fmt;
use understudy_abi::exit;

/// The program's arguments and environment, as the launcher gave them.
pub struct Program {
    /// The null-terminated argv.
    pub argv: *const *const c_char,
    /// The whole environment.
    pub environment: *const *const c_char,
    /// The file that was executed.
    pub path: Path,
    /// It does not need libmpi from the start, but may load it later ([`crate::late`]).
    pub is_late: bool,
}

impl Program {
    /// Finds the file from the auxiliary vector's AT_EXECFN, which keeps the name of a symbolic link; /proc/self/exe if
    /// that is relative.
    pub fn new(
        argv: *const *const c_char,
        environment: *const *const c_char,
        execfn: *const c_char,
        is_late: bool,
    ) -> Program {
        let mut path = Path::new();
        if !execfn.is_null() {
            // SAFETY: the kernel's string on the stack.
            path.push(unsafe { sys::bytes(execfn) });
        }
        if path.as_bytes().first() != Some(&b'/') {
            path.read_link(c"/proc/self/exe");
        }
        Program {
            argv,
            environment,
            path,
            is_late,
        }
    }

    /// Executes the program with `environment`; returns only if that failed, with the errno.
    pub fn execute(&self, environment: *const *const c_char) -> i32 {
        // SAFETY: execve(2) on valid arrays.
        -unsafe { sys!(nr::EXECVE, self.path.as_ptr(), self.argv, environment) } as i32
    }

    /// Whether a problem is kept quiet: nobody knows yet whether the program is going to use MPI at all.
    pub fn is_quiet(&self) -> bool {
        // SAFETY: a valid environment.
        self.is_late && !unsafe { environ::is_on(self.environment, environ::LATE_VARIABLE) }
    }

    /// Executes the program without this library, or, if it may be the wrapper of one that needs it, with a library that
    /// does nothing; the personality is put back to `personality`.
    pub fn run_without_us(&self, personality: Option<usize>) -> ! {
        if let Some(personality) = personality {
            // SAFETY: personality(2) has no memory effects.
            unsafe { sys!(nr::PERSONALITY, personality) };
        }
        // SAFETY: a valid environment.
        let environment = unsafe {
            if self.is_late {
                environ::not_late(self.environment)
            } else {
                environ::without_preload(self.environment, link::own_path())
            }
        };
        let error = environment.map_or(12, |environment| self.execute(environment));
        say(format_args!("the program could not be executed again (errno {error})"));
        sys::exit(126)
    }

    /// Says why the program cannot be protected; then runs it unprotected, or ends it if UNDERSTUDY_REQUIRE=1, or if it
    /// was to go on from disk.
    pub fn refuse(&self, personality: Option<usize>, reason: fmt::Arguments<'_>) -> ! {
        if !self.is_quiet() {
            // SAFETY: a valid environment.
            unsafe { say_unprotected(self.environment, reason) };
        }
        self.run_without_us(personality)
    }
}

/// Says that the program runs unprotected, and why; ends it if UNDERSTUDY_REQUIRE=1, or if it was to go on from disk.
///
/// # Safety
/// `environment` must be a valid environment.
pub unsafe fn say_unprotected(environment: *const *const c_char, reason: fmt::Arguments<'_>) {
    // SAFETY: handed on to the caller.
    let (require, restart, local_rank) = unsafe {
        (
            environ::is_on(environment, b"UNDERSTUDY_REQUIRE="),
            environ::is_on(environment, b"UNDERSTUDY_RESTART="),
            environ::value(environment, b"OMPI_COMM_WORLD_LOCAL_RANK="),
        )
    };
    let required = require || restart;
    let outcome = match (require, restart) {
        (true, _) => "the job stops (UNDERSTUDY_REQUIRE=1)",
        (_, true) => "the job stops (UNDERSTUDY_RESTART=1)",
        _ => "the program runs unprotected",
    };
    // One rank of each node speaks for all of them.
    if local_rank == Some(b"0") {
        say(format_args!("{reason}; {outcome}"));
    } else if required {
        // A rank that ends with an error ends the job: the one that speaks is given time.
        let one_second = [1i64, 0];
        // SAFETY: nanosleep(2) of a valid timespec.
        unsafe { sys!(nr::NANOSLEEP, one_second.as_ptr(), 0) };
    }
    if required {
        sys::exit(exit::REFUSED)
    }
}
