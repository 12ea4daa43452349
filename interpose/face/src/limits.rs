//! Limits and surroundings of the process with which protection is impossible.
#![allow(unsafe_code)]

use crate::bypass::Program;
use crate::environ::{self, MANAGER};
use crate::link::Path;
use crate::messages::Text;
use crate::sys::{self, nr, sys};
use understudy_abi::RUNTIME_FD_BASE;
use understudy_abi::limits::{ADDRESSES, DATA, FILES, MinimumLimit};
use understudy_catalogue::message;

fn soft_limit(minimum: MinimumLimit) -> u64 {
    sys::soft_limit(minimum.resource as usize)
}

/// Refuses the program if a resource limit is too low.
///
/// The message contains the cause and the remedy.
pub fn check(program: &Program) {
    let files = soft_limit(FILES);
    let minimum = FILES.limit;
    if files < minimum {
        program.refuse(
            None,
            &message::file_descriptor_limit(files, RUNTIME_FD_BASE, minimum),
        );
    }
    let addresses = soft_limit(ADDRESSES);
    if addresses < ADDRESSES.limit {
        program.refuse(None, &message::address_space_limit(addresses >> 20));
    }
    let data = soft_limit(DATA);
    if data < DATA.limit {
        program.refuse(None, &message::data_limit(data >> 20, DATA.limit >> 20));
    }
}

/// Refuses a program that valgrind executes.
///
/// The state of valgrind's simulated processor cannot be saved.
pub fn check_valgrind(program: &Program) {
    const VALGRIND_LIBRARY: &[u8] = b"/vgpreload_";
    // SAFETY: the caller of `Program::new` guarantees a valid environment.
    let preload = unsafe { environ::value(program.environment, environ::PRELOAD) };
    let is_simulated = preload.is_some_and(|value| {
        let mut windows = value.windows(VALGRIND_LIBRARY.len());
        windows.any(|window| window == VALGRIND_LIBRARY)
    });
    if is_simulated {
        program.refuse(None, &message::VALGRIND);
    }
}

/// Refuses a process that cannot access the directory of its job.
///
/// The guardian can access the directory. A process cannot access the directory if a wrapper has
/// changed its user or its mount namespace.
pub fn check_directory(program: &Program) {
    const READ_AND_EXECUTE: usize = 4 | 1;
    // SAFETY: the caller of `Program::new` guarantees a valid environment; access(2) reads a path
    // of this function.
    unsafe {
        let Some(manager) = environ::value(program.environment, MANAGER) else {
            return;
        };
        let mut directory = Path::new();
        directory.push(environ::directory_of(manager));
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
            &message::job_directory_unreachable(Text(directory.as_bytes()), error, remedy),
        );
    }
}
