//! Checks of the program before the job is started.

use super::failures::cannot;
use crate::outcome::Failure;
use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use rustix::process::{getegid, geteuid};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use understudy_catalogue::{exit_status, message};

/// Number of bytes at the start of a file that the checks read.
const MAX_HEAD_BYTES: u64 = 64 * 1024;

/// Prefix of the file name of musl's dynamic loader.
const MUSL_LOADER_PREFIX: &str = "ld-musl";

/// Programs that start MPI programs themselves.
const LAUNCHERS: [&str; 12] = [
    "mpirun",
    "mpirun.openmpi",
    "mpirun.mpich",
    "mpiexec",
    "mpiexec.openmpi",
    "mpiexec.mpich",
    "mpiexec.hydra",
    "orterun",
    "prterun",
    "prun",
    "srun",
    "aprun",
];

/// Checks that the program, as the launcher finds it, can be executed and protected.
pub fn check(name: &OsStr) -> Result<(), Failure> {
    let path = find(name)?;
    let shown = path.display();
    if let Some(launcher) = LAUNCHERS
        .iter()
        .find(|name| path.file_name() == Some(OsStr::new(name)))
    {
        return Err(cannot(
            message::launcher_as_program(shown, launcher).to_string(),
        ));
    }
    let not_executable = |why: &dyn std::fmt::Display| {
        Failure::with_status(
            exit_status::NOT_EXECUTABLE as u8,
            format_args!("{shown}: {why}"),
        )
    };
    let metadata = path.metadata().map_err(|error| not_executable(&error))?;
    if metadata.is_dir() {
        return Err(not_executable(
            &"a directory cannot be executed. Name the program in it.",
        ));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(not_executable(&format_args!(
            "not executable. If it is a program: chmod +x {shown}"
        )));
    }
    if gains_rights(&path, &metadata) {
        return Err(not_executable(
            &"it runs with other rights than yours (set-user-id, set-group-id or file \
                capabilities), so nothing is preloaded into it (ld.so(8)) and no failure of it \
                can be recovered from. Run a copy without them: cp gives one.",
        ));
    }
    let head = head(&path).map_err(|error| not_executable(&error))?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return check_script(&shown, &interpreter(line), &String::from_utf8_lossy(&head));
    }
    match loader(&head) {
        Some(Some(name)) if name.starts_with(MUSL_LOADER_PREFIX) => {
            Err(not_executable(&format_args!(
                "its dynamic loader is {name} (musl); understudy needs a program built for glibc. \
                 Build it with glibc."
            )))
        }
        Some(Some(_)) => Ok(()),
        Some(None) => Err(not_executable(
            &"it is linked statically, so nothing can be preloaded into it. Link it with the \
                shared MPI library.",
        )),
        None => Err(not_executable(
            &"it is neither a 64-bit program nor a script with `#!`. Was it built for this machine?",
        )),
    }
}

/// Returns true if the program would get rights that this user lacks.
///
/// Sources of such rights are the set-user-ID bit, the set-group-ID bit and file capabilities
/// (execve(2), capabilities(7)).
fn gains_rights(path: &Path, metadata: &Metadata) -> bool {
    let (user, group, mode) = (geteuid(), getegid(), metadata.mode());
    let sets_user = mode & 0o4000 != 0 && metadata.uid() != user.as_raw();
    let sets_group = mode & 0o2010 == 0o2010 && metadata.gid() != group.as_raw();
    let has_capabilities =
        || rustix::fs::getxattr(path, "security.capability", &mut [0; 64]).is_ok();
    sets_user || sets_group || (!user.is_root() && has_capabilities())
}

/// Finds the program as the launcher does: on the PATH, then in the working directory.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    if name.as_encoded_bytes().contains(&b'/') {
        if path.exists() {
            return Ok(path.to_owned());
        }
    } else if let Some(found) = understudy_launch::find_program(name) {
        return Ok(found);
    } else if path.exists() {
        return Ok(Path::new(".").join(path));
    }
    Err(Failure::with_status(
        exit_status::NOT_FOUND as u8,
        format_args!(
            "{}: there is no such program here or on the PATH.",
            path.display()
        ),
    ))
}

/// Reads the first bytes of a file.
pub fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    std::fs::File::open(path)?
        .take(MAX_HEAD_BYTES)
        .read_to_end(&mut head)?;
    Ok(head)
}

/// Returns the name of a script's interpreter from the text after `#!`.
///
/// For `env`, this is the program that env(1) starts.
fn interpreter(line: &[u8]) -> String {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    let mut words = text.split_whitespace();
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    match words.next().map(name) {
        Some(env) if env == "env" => words
            .find(|word| !word.starts_with('-'))
            .map(name)
            .unwrap_or(env),
        Some(interpreter) => interpreter,
        None => "sh".into(),
    }
}

/// Returns the file name of the dynamic loader from the first bytes of a program.
///
/// `None` if the file is not a 64-bit ELF file; `Some(None)` if the program names no loader.
/// The name is empty if it lies beyond the first bytes: patchelf(1) moves it to the end of the
/// file.
fn loader(head: &[u8]) -> Option<Option<String>> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, head).ok()?;
    let segment = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_INTERP);
    let name = |segment: &ProgramHeader64<Endianness>| {
        let path = segment.interpreter(endian, head).ok().flatten();
        let path = String::from_utf8_lossy(path.unwrap_or_default());
        path.rsplit('/').next().unwrap_or_default().to_owned()
    };
    Some(segment.map(name))
}

/// Refuses shell scripts without `exec`.
///
/// A shell that waits for the MPI program outlives it and exits with a status of its own.
/// The launcher would therefore take a killed rank for a rank that has exited.
/// Interpreters other than shells are themselves the program.
fn check_script(
    shown: &impl std::fmt::Display,
    interpreter: &str,
    text: &str,
) -> Result<(), Failure> {
    let is_shell =
        ["sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "fish"].contains(&interpreter);
    if !is_shell || text.lines().any(executes) {
        return Ok(());
    }
    Err(cannot(format!(
        "{shown} is a shell script without `exec`: {interpreter} would be the rank, and mpirun \
         would take the failure of the program for the end of the job. Write `exec` in front of \
         the MPI program, as in: exec ./solver \"$@\""
    )))
}

/// Returns true if a line of a script replaces the shell by a program.
///
/// False for `exec >file`, which only redirects output.
fn executes(line: &str) -> bool {
    let commands = line
        .split([';', '&', '|', '{', '(', ')'])
        .map(str::trim_start);
    let after_keyword = |command: &str| {
        let keyword = ["then ", "else ", "do "]
            .iter()
            .find(|keyword| command.starts_with(**keyword));
        command[keyword.map_or(0, |keyword| keyword.len())..]
            .trim_start()
            .to_owned()
    };
    let is_program = |rest: &str| {
        rest.trim_start()
            .starts_with(|c: char| !c.is_ascii_digit() && c != '>' && c != '<')
    };
    commands
        .map(after_keyword)
        .any(|command| command.strip_prefix("exec ").is_some_and(is_program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_named_without_their_directory() {
        assert_eq!(interpreter(b"/bin/sh\necho"), "sh");
        assert_eq!(interpreter(b" /usr/bin/env python3\n"), "python3");
        assert_eq!(interpreter(b"/usr/bin/env -S bash -e\n"), "bash");
    }

    #[test]
    fn programs_that_take_the_place_of_a_shell() {
        for good in [
            "exec ./solver \"$@\"",
            "  exec env A=1 ./solver",
            "[ -f x ] && exec ./solver",
            "if a; then exec ./solver; fi",
            "case $1 in a) exec ./solver ;; esac",
            "    fast) exec ./solver ;;",
        ] {
            assert!(executes(good), "{good}");
        }
        for other in [
            "./solver",
            "# exec ./solver",
            "exec >log",
            "exec 2>&1",
            "executable",
            "echo exec ./solver",
        ] {
            assert!(!executes(other), "{other}");
        }
    }

    #[test]
    fn loaders_are_distinguished() {
        const LOADER: &str = "ld-linux-x86-64.so.2";
        let mut own = head(Path::new("/proc/self/exe")).expect("readable");
        assert_eq!(loader(&own), Some(Some(LOADER.into())));
        let at = own
            .windows(LOADER.len())
            .position(|bytes| bytes == LOADER.as_bytes())
            .expect("the path is in the first bytes");
        let other = "ld-musl-x86_64.so.01";
        own[at..at + other.len()].copy_from_slice(other.as_bytes());
        assert_eq!(loader(&own), Some(Some(other.into())));
        own.truncate(at);
        assert_eq!(loader(&own), Some(Some(String::new())), "moved");
        assert_eq!(loader(b"\x7fELF"), None);
    }
}
