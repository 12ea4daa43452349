//! Checks of one node.

use super::fabric::fabric;
use super::{Check, accelerators, container, kernel, platform};
use crate::{node, product_files};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::path::Path;
use understudy_formats::budget::MemoryBudget;
use understudy_formats::cgroup::ControlGroups;
use understudy_formats::private_directories::{
    SHARED_MEMORY_DIRECTORY as SHARED_MEMORY, make_in_memory,
};
use understudy_report::{bytes, count};
use understudy_settings::settings_files::additions;
use understudy_settings::{Config, PREFIX, unknown};

/// Limit of descriptors that a rank needs; those of the runtime begin at 600.
const MIN_DESCRIPTOR_LIMIT: u64 = 1024;
/// Address of a page that understudy maps (`understudy_abi`).
const STUB_PAGE: u64 = 0x20000;

/// Checks the settings of understudy in the environment, and the files that they name.
pub fn settings() -> Vec<Check> {
    const NAME: &str = "settings";
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown_variables = unknown(names).into_iter();
    let mut checks: Vec<Check> = unknown_variables
        .map(|variable| Check::warning(NAME, variable.to_string(), "correct it, or unset it"))
        .collect();
    checks.extend(of_files());
    let checked = Config::read(|name| std::env::var(name).ok()).and_then(|config| {
        config.check_files()?;
        node::check_disk(&config)?;
        Ok(config)
    });
    checks.push(match checked {
        Err(why) => Check::failure(NAME, why, "correct it, or unset it"),
        Ok(config) => fabric(&config),
    });
    checks
}

/// Lists the settings of the site's and the user's file.
fn of_files() -> Option<Check> {
    let places = |name: &str| {
        std::env::var(name)
            .ok()
            .filter(|_| !name.starts_with(PREFIX))
    };
    // A file that cannot be read has ended the command already.
    let found = additions(places).unwrap_or_default();
    let lines = found
        .iter()
        .map(|(variable, it)| format!("{variable}={} ({})", it.value, it.place));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| Check::ok("settings files", lines.join(", ")))
}

pub fn node(library: Option<&Path>) -> Vec<Check> {
    let mut checks = vec![
        product_files_check(library),
        kernel_check(
            "address randomisation",
            kernel::personality(),
            "can be switched off",
            Check::failure,
            "allow personality(ADDR_NO_RANDOMIZE) (in Docker: --security-opt seccomp=…)",
        ),
    ];
    let slower = "checkpoints compare every page instead, which is slower; Linux 6.7 or later has \
        it, unless a container forbids it";
    checks.push(kernel_check(
        "userfaultfd",
        kernel::write_protection(),
        "asynchronous write protection",
        Check::warning,
        slower,
    ));
    checks.push(kernel_check(
        "PAGEMAP_SCAN",
        kernel::pagemap_scan(),
        "finds changed pages",
        Check::warning,
        slower,
    ));
    checks.push(kernel_check(
        "system call dispatch",
        kernel::system_call_dispatch(),
        "UNDERSTUDY_STATIC=replay can hold back effects",
        Check::warning,
        "UNDERSTUDY_STATIC=replay does not work; Linux 5.11 or later has it",
    ));
    checks.push(kernel_check(
        "breakpoints",
        kernel::breakpoint(),
        "UNDERSTUDY_INIT_END=function:… works",
        Check::warning,
        "UNDERSTUDY_INIT_END=function:… does not work; another rule, or a lower \
         /proc/sys/kernel/perf_event_paranoid",
    ));
    checks.extend([
        shared_memory(),
        memory(),
        descriptors(),
        address_space(),
        lowest_address(),
        processors(),
        accelerators::check(),
        container::check(),
    ]);
    checks.push(Check::ok("kernel and C library", platform()));
    checks
}

/// Makes a check whose failure is an error of the kernel.
fn kernel_check(
    name: &str,
    result: io::Result<()>,
    good: &str,
    bad: fn(&str, String, String) -> Check,
    remedy: &str,
) -> Check {
    match result {
        Ok(()) => Check::ok(name, good),
        Err(error) => bad(name, format!("refused: {error}"), remedy.to_owned()),
    }
}

fn product_files_check(library: Option<&Path>) -> Check {
    match product_files::library(library) {
        Ok(path) if !product_files::can_be_preloaded(&path) => Check::warning(
            "understudy",
            format!(
                "{}: ld.so cannot preload a path with a blank or a colon",
                path.display()
            ),
            format!(
                "on this host `understudy run` does, through a symbolic link. For mpirun by hand \
                 or several hosts: {}",
                product_files::UNPRELOADABLE
            ),
        ),
        Ok(path) => Check::ok("understudy", path.display().to_string()),
        Err(why) => Check::failure(
            "understudy",
            why,
            "install all files of understudy in one directory",
        ),
    }
}

/// Checks the directory in shared memory for undo logs and a page of each rank.
fn shared_memory() -> Check {
    let directory = match make_in_memory() {
        Ok(directory) => directory.path().to_owned(),
        Err(refused) if refused.is_fatal() => {
            return Check::explained_failure(SHARED_MEMORY, refused.to_string());
        }
        Err(_) => SHARED_MEMORY.into(),
    };
    let free = rustix::fs::statvfs(&directory)
        .map(|file_system| file_system.f_bavail * file_system.f_frsize);
    let is_writable = tempfile::tempfile_in(&directory).map(drop);
    match (is_writable, free) {
        (Err(error), _) => Check::failure(
            SHARED_MEMORY,
            error.to_string(),
            "mount a tmpfs there that can be written to",
        ),
        (Ok(()), Ok(free)) if free < 16 << 20 => Check::warning(
            SHARED_MEMORY,
            format!("{} free", bytes(free)),
            "make it larger (in Docker: --shm-size=1g), or `understudy clean`: Open MPI and \
             understudy keep files there",
        ),
        (Ok(()), free) => {
            let free = free.map_or_else(
                |_| "writable".to_owned(),
                |free| format!("{} free", bytes(free)),
            );
            let is_elsewhere = !directory.starts_with(SHARED_MEMORY);
            let used = is_elsewhere.then(|| format!(", and {} is used", directory.display()));
            Check::ok(SHARED_MEMORY, free + &used.unwrap_or_default())
        }
    }
}

fn memory() -> Check {
    const NEED: &str =
        "a worker needs about twice what the program uses, and three times on several nodes";
    let budget = budget();
    let free = bytes(budget.as_ref().map_or(0, |budget| budget.free));
    let finding = match budget.and_then(|budget| budget.limit) {
        Some(limit) => format!(
            "{free} available, since the control group {} is limited to {}; {NEED}",
            limit.group.display(),
            bytes(limit.bytes)
        ),
        None => format!("{free} available; {NEED}"),
    };
    Check::ok("memory", finding)
}

fn budget() -> Option<MemoryBudget> {
    MemoryBudget::within(ControlGroups::own().as_ref(), u64::MAX)
}

/// Returns the bytes that processes on this node can still allocate; 0 if unknown.
pub fn available_memory() -> u64 {
    budget().map_or(0, |budget| budget.free)
}

fn descriptors() -> Check {
    let limit = getrlimit(Resource::Nofile).current;
    match limit {
        Some(limit) if limit < MIN_DESCRIPTOR_LIMIT => Check::failure(
            "open files",
            format!("at most {limit}"),
            format!("ulimit -n {MIN_DESCRIPTOR_LIMIT} or more"),
        ),
        limit => Check::ok(
            "open files",
            limit.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit}")),
        ),
    }
}

fn address_space() -> Check {
    match getrlimit(Resource::As).current {
        Some(limit) => Check::failure(
            "address space",
            format!("limited to {}", bytes(limit)),
            "ulimit -v unlimited: understudy reserves ranges of addresses that are far larger than \
             the memory that it uses",
        ),
        None => Check::ok("address space", "no limit"),
    }
}

fn lowest_address() -> Check {
    let text = std::fs::read_to_string("/proc/sys/vm/mmap_min_addr").unwrap_or_default();
    match text.trim().parse::<u64>() {
        Ok(lowest) if lowest > STUB_PAGE => Check::failure(
            "vm.mmap_min_addr",
            format!("{lowest} is above {STUB_PAGE}, where understudy has a page"),
            "sysctl vm.mmap_min_addr=65536",
        ),
        lowest => Check::ok(
            "vm.mmap_min_addr",
            lowest.map_or_else(|_| "unknown".to_owned(), |lowest| lowest.to_string()),
        ),
    }
}

fn processors() -> Check {
    if cfg!(target_arch = "x86_64") {
        Check::ok(
            "processor",
            format!("x86-64, {}", count(node::cores() as usize, "core", "cores")),
        )
    } else {
        Check::failure(
            "processor",
            std::env::consts::ARCH,
            "only x86-64 is supported",
        )
    }
}

/// Returns the name and the release of the kernel.
pub fn kernel_release() -> String {
    let name = rustix::system::uname();
    format!("Linux {}", name.release().to_string_lossy())
}
