//! Bypass: runs the program as without this library, or refuses to run the program.
#![allow(unsafe_code)]

use crate::auxv::Auxv;
use crate::environ::{self, MANAGER};
use crate::launched;
use crate::link::{self, Path};
use crate::messages::print;
use crate::sys::{self, nr, sys};
use core::ffi::{CStr, c_char};
use core::fmt::Display;
use understudy_catalogue::exit_status;
use understudy_catalogue::message;

/// The program of this process: file, arguments, and the environment of execution 1.
pub struct Program {
    /// Null-terminated argv.
    ///
    /// For a script, argv lacks the entries of the interpreter, which the kernel prepends when the
    /// script is executed again.
    argv: *const *const c_char,
    pub environment: *const *const c_char,
    /// The executed file: the program or the script.
    pub path: Path,
    /// True if the program is not linked with libmpi, but may load it later.
    ///
    /// See [`crate::late_mpi`].
    pub is_late: bool,
}

impl Program {
    /// Finds the executed file.
    ///
    /// The file is the auxiliary vector's AT_EXECFN, which keeps the name of a symbolic link. If
    /// that path is relative, or does not lead to the running program (fexecve(3) of a descriptor
    /// that is now closed), the target of /proc/self/exe is used.
    ///
    /// For a script (`#!`, or binfmt_misc), the file has the name with which the script was
    /// executed, because the interpreter receives that name. If no argument equals that name, the
    /// file is the interpreter.
    ///
    /// # Safety
    /// `argv` must be the kernel's array, and `auxv` the vector of the same stack. `environment`
    /// must be a valid environment as long as the program is used.
    pub unsafe fn new(
        argv: *const *const c_char,
        environment: *const *const c_char,
        auxv: &Auxv,
        is_late: bool,
    ) -> Program {
        let mut path = Path::new();
        let mut arguments = None;
        if !auxv.execfn.is_null() {
            // SAFETY: the caller guarantees that `auxv` is the kernel's vector, which refers to a
            // string on the stack.
            let name = unsafe { sys::bytes(auxv.execfn) };
            path.push(name);
            if !is_this_program(&path) {
                // SAFETY: the caller guarantees that `argv` is the kernel's array.
                arguments = unsafe { script_arguments(argv, name, auxv.keeps_argv0) };
            }
        }
        let is_relative = path.as_bytes().first() != Some(&b'/');
        if arguments.is_none() && (is_relative || !is_this_program(&path)) {
            path.read_link(THIS_PROGRAM);
        }
        // The file has no name (fexecve(3) of a memfd).
        if arguments.is_none() && !path.is_file() {
            path = Path::new();
            path.push(THIS_PROGRAM.to_bytes());
        }
        Program {
            argv: arguments.unwrap_or(argv),
            environment,
            path,
            is_late,
        }
    }

    /// Returns the program's own arguments.
    pub fn arguments(&self) -> *const *const c_char {
        self.argv
    }

    /// Executes the program with `environment`; on failure, returns the errno.
    pub fn execute(&self, environment: *const *const c_char) -> i32 {
        // SAFETY: execve(2) only reads the arrays, and reports invalid addresses as an error.
        -unsafe { sys!(nr::EXECVE, self.path.as_ptr(), self.argv, environment) } as i32
    }

    /// Returns true if reasons for refusals are not printed.
    ///
    /// A program that is not linked with libmpi perhaps does not use MPI at all. The reasons are
    /// printed nevertheless if the user has requested the preparation (UNDERSTUDY_LATE=1).
    pub fn is_quiet(&self) -> bool {
        // SAFETY: the caller of `new` guarantees a valid environment.
        self.is_late && !unsafe { environ::is_on(self.environment, environ::LATE_VARIABLE) }
    }

    /// Executes the program without this library, with the given personality(2).
    ///
    /// The library stays in LD_PRELOAD if the program may load MPI late, but does nothing in this
    /// process. Such a program may be a wrapper, which executes a program that needs this library.
    ///
    /// A program that is linked with libmpi is refused instead if ckptd is the only launcher.
    /// Without this library, the program's MPI library would not find ckptd, and each process would
    /// be a job of its own.
    pub fn run_unprotected(&self, personality: Option<usize>) -> ! {
        // SAFETY: the caller of `new` guarantees a valid environment.
        if !self.is_late && !unsafe { environ::has_launcher(self.environment) } {
            // SAFETY: the caller of `new` guarantees a valid environment.
            unsafe { report_unprotected(self.environment, &message::LAUNCHER_NEEDS_PROTECTION) };
        }
        if !self.is_late {
            // SAFETY: the caller of `new` guarantees a valid environment.
            unsafe { mark_unprotected(self.environment) };
        }
        if let Some(personality) = personality {
            // SAFETY: personality(2) has no memory effects.
            unsafe { sys!(nr::PERSONALITY, personality) };
        }
        // SAFETY: the caller of `new` guarantees a valid environment.
        let environment = unsafe {
            if self.is_late {
                environ::without_late_preparation(self.environment)
            } else {
                environ::without_preload(self.environment, link::own_path())
            }
        };
        const ENOMEM: i32 = 12;
        let error = environment.map_or(ENOMEM, |environment| self.execute(environment));
        print(&message::not_executed_again(error));
        sys::exit(126)
    }

    /// Reports why the program cannot be protected; then runs it unprotected, or exits.
    ///
    /// The process exits in the cases that [`report_unprotected`] lists. A quiet refusal
    /// ([`Program::is_quiet`]) always runs the program.
    pub fn refuse(&self, personality: Option<usize>, reason: &dyn Display) -> ! {
        if !self.is_quiet() {
            // SAFETY: the caller of `new` guarantees a valid environment.
            unsafe { report_unprotected(self.environment, reason) };
        }
        self.run_unprotected(personality)
    }
}

/// The kernel's link to the file that this process executes.
const THIS_PROGRAM: &CStr = c"/proc/self/exe";

fn is_this_program(path: &Path) -> bool {
    sys::file_id(path.as_c_str()) == sys::file_id(THIS_PROGRAM)
}

/// Returns the arguments of the script `name`, from those of its interpreter.
///
/// The kernel passes `[interpreter, argument of its line, …, name, argument, …]` (execve(2),
/// "Interpreter scripts"). If the interpreter is a script as well, there are several interpreters
/// and arguments. `name` replaces the script's own argv\[0\]. Only with the flag `P` of
/// binfmt_misc, the script's own argv\[0\] follows `name`.
///
/// # Safety
/// `argv` must be a null-terminated array of strings.
unsafe fn script_arguments(
    argv: *const *const c_char,
    name: &[u8],
    keeps_argv0: bool,
) -> Option<*const *const c_char> {
    // SAFETY: the caller guarantees that `argv` is a null-terminated array of strings.
    let index = unsafe { environ::strings(argv) }
        .skip(1)
        .position(|argument| argument == name)?;
    Some(argv.wrapping_add(1 + index + usize::from(keeps_argv0)))
}

/// Reports that the program runs unprotected, with the reason, or ends the process.
///
/// The process exits if protection is required (UNDERSTUDY_REQUIRE), if ckptd is the only launcher,
/// or if the job was to be restarted from disk. The first rank of each node prints the report.
///
/// # Safety
/// `environment` must be a valid environment.
pub unsafe fn report_unprotected(environment: *const *const c_char, reason: &dyn Display) {
    // SAFETY: the caller guarantees that `environment` is a valid environment.
    let (managed, require, restart) = unsafe {
        (
            !environ::has_launcher(environment),
            launched::is_protection_required(environment),
            environ::is_on(environment, b"UNDERSTUDY_RESTART="),
        )
    };
    let required = managed || require || restart;
    let outcome = match (require, restart) {
        (true, _) => "the job stops (UNDERSTUDY_REQUIRE=1)",
        _ if managed => "the job stops (ckptd launch runs nothing unprotected)",
        (_, true) => "the job stops (UNDERSTUDY_RESTART=1)",
        _ => "the program runs unprotected",
    };
    if required {
        // SAFETY: the caller guarantees that `environment` is a valid environment.
        unsafe { exit_refused(environment, &format_args!("{reason}; {outcome}")) }
    }
    // SAFETY: the caller guarantees that `environment` is a valid environment.
    if unsafe { is_first_of_node(environment) } {
        print(&format_args!("{reason}; {outcome}"));
    }
}

/// Ends the program with the status of a refusal.
///
/// The first rank of each node prints the message. A file in the job's directory records the
/// refusal.
///
/// # Safety
/// `environment` must be a valid environment.
pub unsafe fn exit_refused(environment: *const *const c_char, message: &dyn Display) -> ! {
    // SAFETY: the caller guarantees that `environment` is a valid environment. The file records
    // the refusal even if a wrapper exits with status 0.
    unsafe { create_mark(environment, REFUSED_MARK) };
    // SAFETY: the caller guarantees that `environment` is a valid environment.
    exit_refused_process(unsafe { is_first_of_node(environment) }, message)
}

/// Ends a process with the status of a refusal.
///
/// The first process of a node (`is_first`) prints the message.
pub fn exit_refused_process(is_first: bool, message: &dyn Display) -> ! {
    if is_first {
        print(message);
    } else {
        // The first rank that exits with an error ends the job. This rank therefore waits until the
        // rank that prints the message has probably printed it.
        let one_second = [1i64, 0];
        // SAFETY: nanosleep(2) of a valid timespec.
        unsafe { sys!(nr::NANOSLEEP, one_second.as_ptr(), 0) };
    }
    sys::exit(exit_status::REFUSED)
}

/// Returns true in the first rank of each node.
///
/// The first rank prints messages for all ranks of the node.
///
/// # Safety
/// `environment` must be a valid environment.
unsafe fn is_first_of_node(environment: *const *const c_char) -> bool {
    // SAFETY: the caller guarantees that `environment` is a valid environment.
    let local_rank = unsafe {
        launched::launcher(environment)
            .and_then(|launcher| environ::variable(environment, launcher.local_rank))
    };
    local_rank == Some(b"0")
}

/// Name of the file, in the job's directory, that exists if a process runs unprotected.
///
/// The name after the slash is equal to that in `understudy_wire::line`.
const UNPROTECTED_MARK: &[u8] = b"/aside";
/// Name of the file, in the job's directory, that exists if a process was refused.
///
/// The name after the slash is equal to that in `understudy_wire::line`.
const REFUSED_MARK: &[u8] = b"/refused";

/// Records that the program is about to run unprotected: its processes cannot be replaced.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn mark_unprotected(list: *const *const c_char) {
    // SAFETY: the caller guarantees that `list` is a valid environment.
    unsafe { create_mark(list, UNPROTECTED_MARK) }
}

/// Creates an empty file in the job's directory.
///
/// # Safety
/// `list` must be a valid environment.
unsafe fn create_mark(list: *const *const c_char, name: &[u8]) {
    const O_CREAT: usize = 0o100;
    // SAFETY: the caller guarantees that `list` is a valid environment; openat(2) and close(2) of
    // a path of this function.
    unsafe {
        let Some(manager) = environ::value(list, MANAGER) else {
            return;
        };
        let mut path = Path::new();
        path.push(environ::directory_of(manager)).push(name);
        let file = sys!(nr::OPENAT, -100isize, path.as_ptr(), O_CREAT, 0o600);
        if file >= 0 {
            sys!(nr::CLOSE, file);
        }
    }
}
