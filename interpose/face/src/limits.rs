//! Limits and surroundings of the process in which nothing can be protected.
#![allow(unsafe_code)]

use crate::aside::Program;
use crate::environ::{self, MANAGER};
use crate::link::Path;
use crate::msg::Text;
use crate::sys::{self, nr, sys};
use understudy_abi::{MPI_FD_BASE, RUNTIME_FD_BASE};

const RLIMIT_DATA: usize = 2;
const RLIMIT_NOFILE: usize = 7;
const RLIMIT_AS: usize = 9;

/// Least number of open files.
///
/// Descriptors of the runtime and of the MPI library lie above the program's.
const LEAST_OPEN_FILES: u64 = MPI_FD_BASE as u64 + 64;
/// Least address space in bytes: 1 TiB for copies of pages, and the rest.
const LEAST_ADDRESSES: u64 = (1 << 40) + (16 << 30);
/// Least size of the data in bytes.
///
/// Two heaps of ld.so take 1 GiB each.
const LEAST_DATA: u64 = 3 << 30;

/// Refuses the program where it cannot be protected, with the cause and the remedy.
pub fn check(program: &Program) {
    let files = sys::soft_limit(RLIMIT_NOFILE);
    if files < LEAST_OPEN_FILES {
        program.refuse(
            None,
            format_args!(
                "at most {files} files may be open here (RLIMIT_NOFILE), and understudy's own have \
                 numbers from {RUNTIME_FD_BASE} on; raise the limit to {LEAST_OPEN_FILES} or more \
                 (`ulimit -n`; LimitNOFILE= of the service that starts the job)"
            ),
        );
    }
    let addresses = sys::soft_limit(RLIMIT_AS);
    if addresses < LEAST_ADDRESSES {
        program.refuse(
            None,
            format_args!(
                "a process may have {} MiB of addresses here (RLIMIT_AS), and understudy reserves \
                 1 TiB, most of which never becomes memory; lift the limit (`ulimit -v unlimited`; \
                 in a batch system, limit memory by cgroups instead)",
                addresses >> 20
            ),
        );
    }
    let data = sys::soft_limit(RLIMIT_DATA);
    if data < LEAST_DATA {
        program.refuse(
            None,
            format_args!(
                "a process may have {} MiB of data here (RLIMIT_DATA), and understudy reserves \
                 {} MiB, most of which never becomes memory; lift the limit (`ulimit -d unlimited`)",
                data >> 20,
                LEAST_DATA >> 20
            ),
        );
    }
}

/// Refuses a program that valgrind executes.
///
/// Its state is that of a simulated processor, which cannot be saved.
pub fn check_valgrind(program: &Program) {
    const PRELOADED: &[u8] = b"/vgpreload_";
    // SAFETY: the program's environment.
    let preload = unsafe { environ::value(program.environment, environ::PRELOAD) };
    let is_simulated =
        preload.is_some_and(|it| it.windows(PRELOADED.len()).any(|at| at == PRELOADED));
    if is_simulated {
        program.refuse(
            None,
            format_args!(
                "the program runs under valgrind, which cannot be saved and put back; run valgrind \
                 without understudy (UNDERSTUDY_DISABLE=1, and --trace-children=yes while \
                 LD_PRELOAD names libunderstudy.so)"
            ),
        );
    }
}

/// Refuses a process that cannot reach the directory of its job.
///
/// Its guardian has that directory.
pub fn check_directory(program: &Program) {
    const READ_AND_EXECUTE: usize = 4 | 1;
    // SAFETY: the program's environment; access(2) of a path of our own.
    unsafe {
        let Some(line) = environ::value(program.environment, MANAGER) else {
            return;
        };
        let mut directory = Path::new();
        directory.push(environ::directory_of(line));
        let error = -sys!(nr::ACCESS, directory.as_ptr(), READ_AND_EXECUTE);
        let remedy = match error {
            0 => return,
            // EACCES
            13 => "let the launcher, not a wrapper, change the user",
            _ => {
                "let all processes of a node have one /dev/shm, that of the launcher (in a \
                 container: --bind /dev/shm, --ipc=host)"
            }
        };
        program.refuse(
            None,
            format_args!(
                "the job's directory {} cannot be reached from this process (errno {error}), which \
                 a wrapper has given another user or another /dev/shm; {remedy}",
                Text(directory.as_bytes())
            ),
        );
    }
}
