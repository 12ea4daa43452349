//! Execution of another program by the rank's process: exec(3) before `MPI_Init`.
//!
//! The program's environment lacks the variables of the launcher, of MPI and of understudy
//! ([`crate::environ`]), and the program may clear it completely (`env -i`). A program that the
//! rank's process executes continues as the rank. For this reason the variables are added again,
//! with this library in LD_PRELOAD. Child processes are not ranks, and receive the environment
//! that the program passes.
//!
//! A program into which ld.so preloads nothing cannot be the rank ([`crate::unpreloadable`]).
#![allow(unsafe_code)]

use crate::bypass;
use crate::effect_reports::reporting_functions;
use crate::environ::{self, PRELOAD};
use crate::environment_block::BlockBuilder;
use crate::launched;
use crate::libc::{c_name, next};
use crate::link::{Path, own_path};
use crate::messages::Text;
use crate::relay;
use crate::sys::{self, nr, sys};
use crate::unpreloadable::{self, ExecutedFile, Obstacle};
use crate::unseen_programs;
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

/// Null-terminated array of strings.
type Strings = *const *const c_char;

/// The launcher's environment; null in a process that is neither a rank nor a wrapper.
///
/// A forked child inherits the value.
static LAUNCHER_ENVIRONMENT: AtomicPtr<*const c_char> = AtomicPtr::new(core::ptr::null_mut());
/// Value of LD_PRELOAD with which the program was started.
static PROGRAM_PRELOAD: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());
/// Number of the rank's process, from which child processes differ.
static RANK_PROCESS: AtomicIsize = AtomicIsize::new(0);

unsafe extern "C" {
    #[link_name = "environ"]
    static ENVIRON: Strings;
}

/// Stores the launcher's environment and the program's LD_PRELOAD.
///
/// # Safety
/// `saved` and `program_environment` must be valid environments that are never moved.
pub unsafe fn remember(saved: Strings, program_environment: Strings) {
    // SAFETY: the caller guarantees that both environments are valid; getpid(2).
    unsafe {
        RANK_PROCESS.store(sys!(nr::GETPID), Ordering::Relaxed);
        let preloaded = environ::value(program_environment, PRELOAD).unwrap_or(c"".to_bytes());
        PROGRAM_PRELOAD.store(preloaded.as_ptr().cast_mut().cast(), Ordering::Relaxed);
    }
    LAUNCHER_ENVIRONMENT.store(saved.cast_mut(), Ordering::Release);
}

/// Stores the environment of a wrapper: a rank's process that may execute the MPI program.
///
/// # Safety
/// `list` must be a valid environment.
pub unsafe fn remember_wrapper(list: Strings) {
    // SAFETY: the caller guarantees that `list` is a valid environment; the copy is never moved.
    unsafe {
        let (count, bytes) = environ::measure(list);
        if let Some(mut builder) = BlockBuilder::new(count, bytes) {
            environ::strings(list).for_each(|entry| builder.add(&[entry]));
            let copy = builder.finish();
            remember(copy, copy);
        }
    }
}

/// Returns true in the rank's own process; child processes have other numbers.
fn is_rank() -> bool {
    // SAFETY: getpid(2) has no preconditions.
    let process = unsafe { sys!(nr::GETPID) };
    !LAUNCHER_ENVIRONMENT.load(Ordering::Acquire).is_null()
        && process == RANK_PROCESS.load(Ordering::Relaxed)
}

/// Returns the environment for a program that is executed with the environment `given`.
///
/// The process ends if the program must be refused.
///
/// # Safety
/// `given` must be null or a valid environment; the strings of `executed` must be valid.
unsafe fn environment(given: Strings, executed: ExecutedFile) -> Strings {
    if !is_rank() {
        // SAFETY: libc keeps a valid environment in `ENVIRON`; the caller guarantees that `given`
        // is null or a valid environment and the strings of `executed` are valid.
        unsafe { unseen_programs::report_execution(ENVIRON, given, executed) };
    }
    let saved: Strings = LAUNCHER_ENVIRONMENT.load(Ordering::Acquire).cast_const();
    if saved.is_null() || given.is_null() {
        return given;
    }
    let is_rank = is_rank();
    // SAFETY: the caller guarantees that `given`, which is not null, is a valid environment and the
    // strings of `executed` are valid. `remember` has stored a valid environment in `saved`.
    unsafe {
        let is_of_wrapper = || environ::value(given, environ::MANAGER).is_some();
        if !is_rank && !is_of_wrapper() {
            return given;
        }
        let path = executed.path(ENVIRON);
        match unpreloadable::find(&path) {
            Some(obstacle)
                if is_rank || obstacle == Obstacle::Static || unpreloadable::needs_mpi(&path) =>
            {
                environment_if_refused(given, saved, &path, obstacle)
            }
            // musl's loader fails if LD_PRELOAD names this library.
            Some(Obstacle::Musl) => unprotected_environment(given, saved),
            _ if is_rank => merged_environment(given, saved).unwrap_or(given),
            _ => given,
        }
    }
}

/// Reports an obstacle, and returns the environment for a program without protection.
///
/// The process ends if protection is required ([`bypass::report_unprotected`]), or if the program
/// could not run without protection either.
///
/// # Safety
/// Both environments must meet the requirements of [`environ::strings`].
unsafe fn environment_if_refused(
    given: Strings,
    saved: Strings,
    path: &Path,
    obstacle: Obstacle,
) -> Strings {
    // SAFETY: the caller guarantees that both environments are valid.
    unsafe {
        let reason = obstacle.message(Text(path.as_bytes()));
        if obstacle == Obstacle::OtherUser && launched::has_pmix_launcher(saved) {
            bypass::exit_refused(
                saved,
                &format_args!(
                    "{reason}; the job stops, since MPI_Init of such a program waits \
                     for ever for Open MPI's launcher, which serves one user"
                ),
            );
        }
        bypass::report_unprotected(saved, &reason);
        bypass::mark_unprotected(saved);
        unprotected_environment(given, saved)
    }
}

/// Returns the environment of a program that runs unprotected.
///
/// # Safety
/// Both environments must meet the requirements of [`environ::strings`].
unsafe fn unprotected_environment(given: Strings, saved: Strings) -> Strings {
    // SAFETY: the caller guarantees that both environments are valid.
    unsafe {
        let whole = merged_environment(given, saved).unwrap_or(given);
        environ::without_preload(whole, own_path()).unwrap_or(given)
    }
}

/// Returns `given` with the variables of launcher, MPI and understudy that it lacks.
///
/// LD_PRELOAD names this library ([`preload`]). `None` if no memory is available.
///
/// # Safety
/// Both environments must meet the requirements of [`environ::strings`].
unsafe fn merged_environment(given: Strings, saved: Strings) -> Option<Strings> {
    // SAFETY: the caller guarantees that both environments are valid.
    unsafe {
        let (count, bytes) = environ::measure(given);
        let (more, more_bytes) = environ::measure(saved);
        let mut builder =
            BlockBuilder::new(count + more + 1, bytes + more_bytes + own_path().len())?;
        let [first, separator, rest] = preload(given, saved);
        builder.add(&[PRELOAD, first, separator, rest]);
        for entry in environ::strings(given).filter(|entry| !entry.starts_with(PRELOAD)) {
            let is_size = environ::SIZES.iter().any(|size| entry.starts_with(size));
            // Variables with the job's size receive the launcher's value, which includes the
            // spares.
            let original =
                environ::strings(saved).find(|other| is_size && have_one_name(other, entry));
            builder.add(&[original.unwrap_or(entry)]);
        }
        let is_missing = |entry: &&[u8]| {
            (environ::is_hidden(entry) || entry.starts_with(environ::SHOWN_PREFIX))
                && !environ::strings(given).any(|other| have_one_name(other, entry))
        };
        environ::strings(saved)
            .filter(is_missing)
            .for_each(|entry| builder.add(&[entry]));
        Some(builder.finish())
    }
}

/// Returns the value of LD_PRELOAD as three parts, to be concatenated.
///
/// The result is the launcher's value, unless the program has set another value. In that case the
/// result is the program's value, with this library in front if the value does not name the
/// library.
///
/// # Safety
/// The requirements of [`merged_environment`] apply.
unsafe fn preload(given: Strings, saved: Strings) -> [&'static [u8]; 3] {
    // SAFETY: the caller guarantees that both environments are valid; `remember` has stored a
    // string that is never freed.
    unsafe {
        let original = sys::bytes(PROGRAM_PRELOAD.load(Ordering::Relaxed));
        match environ::value(given, PRELOAD).filter(|preload| *preload != original) {
            Some(changed) if environ::count_own_names(changed) > 0 => [changed, b"", b""],
            Some(changed) => [own_path(), b":", changed],
            None => [environ::value(saved, PRELOAD).unwrap_or_default(), b"", b""],
        }
    }
}

/// Returns true if both entries (`NAME=value`) belong to one variable.
fn have_one_name(one: &[u8], other: &[u8]) -> bool {
    let name = |entry: &[u8]| entry.iter().position(|&byte| byte == b'=');
    name(one).is_some_and(|end| name(other) == Some(end) && one[..end] == other[..end])
}

/// Defines libc's functions that execute a program.
///
/// Each calls the variant of libc that takes an environment.
macro_rules! executes {
    ($(
        fn $name:ident($($argument:ident: $kind:ty),*)
            => $real:ident($($type:ty),*) = ($($passed:expr),*);
    )*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            const NAME: &CStr = c_name(concat!(stringify!($real), "\0"));
            // SAFETY: libc's function has this type, and the caller meets its requirements.
            unsafe {
                let real = next(&REAL, NAME);
                let real: unsafe extern "C" fn($($type),*) -> c_int = core::mem::transmute(real);
                let detached = is_rank().then(relay::restore_originals);
                let error = real($($passed),*);
                // libc's function has returned, so the execution has failed.
                if let Some(detached) = detached {
                    detached.attach();
                }
                error
            }
        }
    )*};
}

type Name = *const c_char;
type Data = *const c_void;

executes! {
    fn execve(path: Name, argv: Strings, envp: Strings)
        => execve(Name, Strings, Strings) = (path, argv, environment(envp, ExecutedFile::Path(path)));
    fn execv(path: Name, argv: Strings)
        => execve(Name, Strings, Strings)
            = (path, argv, environment(ENVIRON, ExecutedFile::Path(path)));
    fn execvpe(file: Name, argv: Strings, envp: Strings)
        => execvpe(Name, Strings, Strings) = (file, argv, environment(envp, ExecutedFile::Name(file)));
    fn execvp(file: Name, argv: Strings)
        => execvpe(Name, Strings, Strings)
            = (file, argv, environment(ENVIRON, ExecutedFile::Name(file)));
    fn fexecve(fd: c_int, argv: Strings, envp: Strings)
        => fexecve(c_int, Strings, Strings)
            = (fd, argv, environment(envp, ExecutedFile::Descriptor(fd)));
    fn execveat(directory: c_int, path: Name, argv: Strings, envp: Strings, flags: c_int)
        => execveat(c_int, Name, Strings, Strings, c_int)
            = (directory, path, argv, environment(envp, ExecutedFile::At(directory, path)), flags);
}

/// Reports a program that is about to be started.
///
/// Returns false, because stops of the thread are not blocked for this report.
///
/// # Safety
/// The requirements of [`unseen_programs::report_execution`] apply.
unsafe fn report_start(given: Strings, executed: ExecutedFile) -> bool {
    // SAFETY: libc keeps a valid environment in `ENVIRON`; the caller guarantees that `given` is
    // null or a valid environment and the strings of `executed` are valid.
    unsafe { unseen_programs::report_execution(ENVIRON, given, executed) };
    false
}

reporting_functions! {
    fn posix_spawn(
        process: *mut c_int, path: Name, actions: Data, attributes: Data, argv: Strings,
        envp: Strings
    ) -> c_int { report_start(envp, ExecutedFile::Path(path)) }
    fn posix_spawnp(
        process: *mut c_int, file: Name, actions: Data, attributes: Data, argv: Strings,
        envp: Strings
    ) -> c_int { report_start(envp, ExecutedFile::Name(file)) }
}

/// execle(3): the environment follows the arguments.
///
/// # Safety
/// The requirements of libc's function apply.
unsafe extern "C" fn execute_listed(path: Name, argv: Strings) -> c_int {
    // SAFETY: the caller meets the requirements of execle(3): the arguments end with a null
    // pointer, which the environment follows.
    unsafe {
        let count = environ::strings(argv).count();
        execve(path, argv, argv.add(count + 1).read().cast())
    }
}

/// Defines libc's functions with variadic arguments, which end with a null pointer.
///
/// The caller passes the path in rdi, the first five arguments of the program in rsi, rdx, rcx, r8
/// and r9, and the remaining ones on the stack, above the return address. The code replaces the
/// return address by these five registers. The stack then contains all arguments as one array,
/// which is passed to the variant of the function that takes an array.
macro_rules! variadic {
    ($($name:ident => $with_array:path;)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "pop rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rax",
                "call {with_array}",
                "pop rcx",
                "add rsp, 40",
                "push rcx",
                "ret",
                with_array = sym $with_array,
            )
        }
    )*};
}

variadic! {
    execl => execv;
    execlp => execvp;
    execle => execute_listed;
}
