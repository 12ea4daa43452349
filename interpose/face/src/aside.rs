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
}

impl Program {
    /// Finds the file from the auxiliary vector's AT_EXECFN, which keeps the name of a symbolic link; /proc/self/exe if
    /// that is relative.
    pub fn new(argv: *const *const c_char, environment: *const *const c_char, execfn: *const c_char) -> Program {
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
        }
    }

    fn is(&self, variable: &[u8], value: &[u8]) -> bool {
        // SAFETY: a valid environment.
        unsafe { environ::value(self.environment, variable) == Some(value) }
    }

    /// Executes the program with `environment`; returns only if that failed, with the errno.
    pub fn execute(&self, environment: *const *const c_char) -> i32 {
        // SAFETY: execve(2) on valid arrays.
        -unsafe { sys!(nr::EXECVE, self.path.as_ptr(), self.argv, environment) } as i32
    }

    /// Executes the program without this library; the personality is put back to `personality`.
    pub fn run_without_us(&self, personality: Option<usize>) -> ! {
        if let Some(personality) = personality {
            // SAFETY: personality(2) has no memory effects.
            unsafe { sys!(nr::PERSONALITY, personality) };
        }
        // SAFETY: a valid environment.
        let environment = unsafe { environ::without_preload(self.environment, link::own_path()) };
        let error = environment.map_or(12, |environment| self.execute(environment));
        say(format_args!("the program could not be executed again (errno {error})"));
        sys::exit(126)
    }

    /// Says why the program cannot be protected; then runs it unprotected, or ends it if UNDERSTUDY_REQUIRE=1.
    pub fn refuse(&self, personality: Option<usize>, reason: fmt::Arguments<'_>) -> ! {
        // SAFETY: a valid environment.
        let required = unsafe { environ::is_on(self.environment, b"UNDERSTUDY_REQUIRE=") };
        let outcome = if required {
            "the job stops (UNDERSTUDY_REQUIRE=1)"
        } else {
            "the program runs unprotected"
        };
        // One rank of each node speaks for all of them.
        if self.is(b"OMPI_COMM_WORLD_LOCAL_RANK=", b"0") {
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
        self.run_without_us(personality)
    }
}
