//! libunderstudy.so exports what libmpi exports, and the names of [`EXTRA`].
//!
//! The preload libraries for MPICH export all MPI names of MPICH.

use ffi_tests::{paths, plain_commands};
use std::collections::BTreeMap;
use understudy_table::{Flag, table};

/// Names besides libmpi's, and the reasons to export them.
///
/// - pthread_create, thrd_create, timer_create: detect the program's threads.
/// - dlopen, dlclose: a replacement opens and closes these libraries, too; libmpi is not opened
///   twice.
/// - mmap, shmat, pkey_alloc: detect memory that ranks share, and protection keys.
/// - _exit: detects the end of a rank.
/// - execve and its relatives: the program that the rank's process executes becomes the rank.
/// - sigaction and its relatives: hide the handler of fatal signals.
/// - kill, getpid, sched_setaffinity and their relatives: the program keeps its process number.
/// - semop, msgsnd, mq_open and their relatives: detect the program's objects.
/// - madvise, mlock, setrlimit and their relatives: detect state in the kernel.
/// - readdir, scandir and their relatives: hide backups of files.
/// - Clocks and the like: their results are recorded in the set-up phase.
/// - Most other functions: change files or descriptors; a rollback undoes the changes.
const EXTRA: &[&str] = &[
    "_Exit",
    "__open64_2",
    "__open_2",
    "__openat64_2",
    "__openat_2",
    "__pwrite64",
    "__sigaction",
    "__sysv_signal",
    "__write",
    "_exit",
    "aio_write",
    "aio_write64",
    "bsd_signal",
    "chmod",
    "chown",
    "clock",
    "clock_gettime",
    "close",
    "close_range",
    "closefrom",
    "copy_file_range",
    "creat",
    "creat64",
    "dlclose",
    "dlopen",
    "dup",
    "dup2",
    "dup3",
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execveat",
    "execvp",
    "execvpe",
    "fallocate",
    "fallocate64",
    "fchmod",
    "fchmodat",
    "fchown",
    "fchownat",
    "fcntl",
    "fcntl64",
    "fexecve",
    "fopen",
    "fopen64",
    "fremovexattr",
    "freopen",
    "freopen64",
    "fsetxattr",
    "ftruncate",
    "ftruncate64",
    "futimens",
    "futimes",
    "futimesat",
    "getentropy",
    "gethostname",
    "getpgid",
    "getpid",
    "getppid",
    "getrandom",
    "getrusage",
    "getsid",
    "gettimeofday",
    "kill",
    "lchmod",
    "lchown",
    "link",
    "linkat",
    "lio_listio",
    "lio_listio64",
    "lremovexattr",
    "lsetxattr",
    "lutimes",
    "madvise",
    "mkdir",
    "mkdirat",
    "mkdtemp",
    "mkostemp",
    "mkostemp64",
    "mkostemps",
    "mkostemps64",
    "mkstemp",
    "mkstemp64",
    "mkstemps",
    "mkstemps64",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mmap64",
    "mq_open",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "open",
    "open64",
    "openat",
    "openat64",
    "pkey_alloc",
    "prlimit",
    "prlimit64",
    "pthread_cancel",
    "pthread_create",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "pwritev64",
    "pwritev64v2",
    "remove",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sched_getaffinity",
    "sched_getcpu",
    "sched_getparam",
    "sched_getscheduler",
    "sched_setaffinity",
    "sched_setparam",
    "sched_setscheduler",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "sendfile",
    "sendfile64",
    "setrlimit",
    "setrlimit64",
    "setxattr",
    "posix_spawn",
    "posix_spawnp",
    "readdir",
    "readdir64",
    "readdir_r",
    "readdir64_r",
    "scandir",
    "scandir64",
    "shmat",
    "sigaction",
    "signal",
    "sigqueue",
    "sigset",
    "splice",
    "ssignal",
    "symlink",
    "symlinkat",
    "syscall",
    "sysv_signal",
    "thrd_create",
    "time",
    "timer_create",
    "times",
    "timespec_get",
    "truncate",
    "truncate64",
    "uname",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "write",
    "writev",
];

/// Exported symbols with their nm letter and size.
fn exported(library: &std::path::Path) -> BTreeMap<String, (char, usize)> {
    let library = library.to_string_lossy();
    let output = plain_commands::run("nm", &["-D", "--defined-only", "-S", &library], &[], false);
    assert!(
        output.status.success(),
        "nm fails on {library}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (size, kind, name) = match fields[..] {
            [_, size, kind, name] => (usize::from_str_radix(size, 16).expect("a size"), kind, name),
            [_, kind, name] => (0, kind, name),
            _ => panic!("nm prints `{line}`"),
        };
        let name = name.split('@').next().unwrap_or(name);
        found.insert(name.to_owned(), (kind.chars().next().unwrap_or('?'), size));
    }
    found
}

/// All exported names of the table, with the sizes of data symbols.
fn expected() -> BTreeMap<String, Option<usize>> {
    let table = table();
    let mut names = BTreeMap::new();
    // Open MPI 5.0 lacks the newer procedures, and a program that looks them up must not find
    // them.
    for procedure in table.procedures.iter().filter(|it| !it.has(Flag::Newer)) {
        names.insert(procedure.name.clone(), None);
        if !procedure.has(Flag::NoProfile) {
            names.insert(format!("P{}", procedure.name), None);
        }
        names.extend(procedure.older_names().into_iter().map(|name| (name, None)));
    }
    names.extend(
        table
            .functions
            .iter()
            .map(|function| (function.name.clone(), None)),
    );
    names.extend(
        table
            .data
            .iter()
            .map(|data| (data.name.clone(), Some(data.size))),
    );
    names
}

#[test]
fn the_preload_library_exports_exactly_the_call_table() {
    let (found, expected) = (exported(&paths::preload_library()), expected());
    let missing: Vec<&String> = expected
        .keys()
        .filter(|name| !found.contains_key(*name))
        .collect();
    let surplus: Vec<&String> = found
        .keys()
        .filter(|name| !expected.contains_key(*name) && !EXTRA.contains(&name.as_str()))
        .collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing: {missing:?}\nsurplus: {surplus:?}"
    );
}

#[test]
fn exported_objects_have_the_sizes_of_the_call_table() {
    let found = exported(&paths::preload_library());
    for (name, size) in expected()
        .into_iter()
        .filter_map(|(name, size)| Some((name, size?)))
    {
        let (kind, actual) = found[&name];
        assert!(
            "DBRV".contains(kind.to_ascii_uppercase()),
            "{name} is no object but `{kind}`"
        );
        assert_eq!(actual, size, "size of {name}");
    }
}

/// Each name must be exported, since the program's link map has no other MPI library.
#[test]
fn the_preload_libraries_for_mpich_export_all_of_its_mpi() {
    let Some(library) = paths::mpich_program("newer").map(|_| paths::mpich().join("../lib")) else {
        return;
    };
    let is_of_mpi = |name: &&String| {
        ["MPI_", "PMPI_", "MPIX_", "PMPIX_"]
            .iter()
            .any(|it| name.starts_with(it))
    };
    for (theirs, face) in [
        ("libmpi.so.12", "libunderstudy_mpich.so"),
        ("libmpi_abi.so.1", "libunderstudy_standard.so"),
    ] {
        let (theirs, ours) = (
            exported(&library.join(theirs)),
            exported(&paths::product(face)),
        );
        let missing: Vec<&String> = theirs
            .keys()
            .filter(is_of_mpi)
            .filter(|name| !ours.contains_key(*name))
            .collect();
        assert!(
            theirs.len() > 1000 && missing.is_empty(),
            "{face} lacks {missing:?}"
        );
    }
}
