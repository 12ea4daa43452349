//! Launchers that ranks execute, as in `mpirun -n 4 env A=1 mpirun program`.
//!
//! Each rank would then start a job of its own. `understudy run` refuses a launcher as its program.
//! A launcher behind a wrapper (env(1), a script) is detected here, in the launcher's process.
#![allow(unsafe_code)]

use crate::bypass::{self, Program};
use crate::environ::{self, MANAGER};
use crate::link::{Path, own_path};
use crate::lost_environment;
use crate::messages::Text;
use crate::sys::{nr, sys};
use core::ffi::c_char;
use understudy_catalogue::message;

/// Names of launchers, also with a suffix such as in `mpirun.openmpi` and `mpirun_rsh`.
const LAUNCHERS: [&[u8]; 10] = [
    b"mpirun", b"mpiexec", b"orterun", b"prterun", b"ompirun", b"prun", b"srun", b"aprun",
    b"jsrun", b"ibrun",
];

/// Launchers of understudy, with the command that starts a job.
const OWN_LAUNCHERS: [(&[u8], &[u8]); 2] = [(b"understudy", b"run"), (b"ckptd", b"launch")];

/// Options with which a launcher only prints information.
const INFORMATION: [&[u8]; 7] = [
    b"--version",
    b"-V",
    b"--help",
    b"-h",
    b"-help",
    b"--info",
    b"-info",
];

/// Executes the program without this library, with a message, if it is a nested launcher.
///
/// A nested launcher is a launcher that a rank or a rank's wrapper executes. The function returns
/// for any other program, or if the execution fails.
pub fn check(program: &Program) {
    let list = program.environment;
    let name = program.path.as_bytes();
    // SAFETY: the caller of `Program::new` guarantees valid arguments and a valid environment.
    unsafe {
        if environ::value(list, MANAGER).is_none() {
            return;
        }
        let mut file = Path::new();
        file.read_link(c"/proc/self/exe");
        let names = [name, file.as_bytes()];
        let is_launcher = |name: &&[u8]| is_launcher(name, program.arguments());
        if !names.iter().any(is_launcher) {
            return;
        }
        bypass::report_unprotected(list, &message::nested_launcher(Text(name)));
        // A child of the guardian is the rank, which now runs unprotected. A launcher that a
        // wrapper has started is no process of this job.
        if lost_environment::is_guardian(sys!(nr::GETPPID)) {
            bypass::mark_unprotected(list);
        }
        if let Some(environment) = environ::without_preload(list, own_path()) {
            program.execute(environment);
        }
    }
}

/// Returns true if a program is a launcher that is going to start a job.
///
/// # Safety
/// `arguments` must be a null-terminated array of strings.
unsafe fn is_launcher(path: &[u8], arguments: *const *const c_char) -> bool {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let mut parts = file.split(|&byte| byte == b'.' || byte == b'_');
    let name = parts.next().unwrap_or(file);
    // SAFETY: the caller guarantees that `arguments` is a null-terminated array of strings.
    let mut arguments = unsafe { environ::strings(arguments) }.skip(1);
    if let Some((_, command)) = OWN_LAUNCHERS.iter().find(|(own, _)| *own == file) {
        return arguments.next() == Some(*command);
    }
    LAUNCHERS.contains(&name) && !arguments.any(|argument| INFORMATION.contains(&argument))
}
