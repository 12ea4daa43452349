//! Start-up data of this process.
//!
//! The sources are the preload library ([`info`]), the settings ([`config`]), and the environment
//! that the launcher has set. Any module may read these data. Only the start (`boot`) sets them,
//! except for the number of processes, which rises while the job runs ([`update_process_count`]).
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use understudy_abi::BootInfo;
use understudy_numbers::ProcessNumber;
use understudy_settings::Config;
use understudy_wire::line::{self, LINE_VARIABLE, ProcessPlace};

struct SharedBootInfo(BootInfo);

// SAFETY: the value is never changed; the data behind its pointers live as long as the process, and
// code that dereferences a pointer is responsible for the access.
unsafe impl Send for SharedBootInfo {}
// SAFETY: the value is never changed; code that dereferences a pointer is responsible for the
// access.
unsafe impl Sync for SharedBootInfo {}

static INFO: OnceLock<SharedBootInfo> = OnceLock::new();
static CONFIG: OnceLock<Config> = OnceLock::new();

/// Returns the data of the preload library.
pub fn info() -> &'static BootInfo {
    &INFO
        .get()
        .expect("the preload library has started the runtime")
        .0
}

/// Returns the settings.
#[inline]
pub fn config() -> &'static Config {
    CONFIG
        .get()
        .expect("the preload library has started the runtime")
}

/// Returns the descriptor for messages to the user: the original standard error.
pub fn message_descriptor() -> c_int {
    match INFO.get() {
        Some(SharedBootInfo(info)) if info.messages >= 0 => info.messages,
        _ => 2,
    }
}

/// Returns the program-side integers to which predefined attributes point.
///
/// The address is equal in all ranks.
pub fn attribute_cells() -> *mut c_int {
    info().attribute_cells
}

/// Returns the number of threads that the program has created or tried to create.
pub fn created_threads() -> u32 {
    // SAFETY: the preload library's counter lives as long as the process.
    unsafe { info().program_threads.read_volatile() }
}

/// Returns the address of a symbol in the program's namespace; 0 if it is missing.
pub fn user_symbol(name: &str) -> u64 {
    let Ok(name) = CString::new(name) else {
        return 0;
    };
    // SAFETY: the function is dlsym(3) for the program's namespace.
    unsafe { (info().program_dlsym)(name.as_ptr()) as u64 }
}

/// Number of processes that the job has had.
///
/// The number is 0 before this process has joined the job.
static PROCESSES: AtomicU32 = AtomicU32::new(0);

/// Returns the number of processes that the job has had so far.
pub fn process_count() -> u32 {
    PROCESSES.load(Ordering::Relaxed).max(launcher_size())
}

/// Raises the number of processes that the job has had.
pub fn update_process_count(count: u32) {
    PROCESSES.fetch_max(count, Ordering::Relaxed);
}

/// Sets the data of the preload library; later calls have no effect.
pub fn set_info(info: BootInfo) {
    let _ = INFO.set(SharedBootInfo(info));
}

/// Sets the settings; later calls have no effect.
pub fn set_config(config: Config) {
    let _ = CONFIG.set(config);
}

/// Returns a variable of the launcher's environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the value of a variable that contains a number.
pub fn number(name: &str) -> Option<u32> {
    variable(name).and_then(|text| text.parse().ok())
}

/// Returns this process's number in the job.
pub fn process() -> ProcessNumber {
    ProcessNumber(number("PMIX_RANK").unwrap_or(0))
}

/// True if a launcher other than ckptd has started the job.
///
/// The program can then also run unprotected, because its MPI library finds that launcher.
pub fn has_other_launcher() -> bool {
    variable("UNDERSTUDY_LAUNCHER_PMIX_RANK").is_some()
}

/// Returns the number of ranks that the launcher has started.
pub fn launcher_size() -> u32 {
    number("OMPI_COMM_WORLD_SIZE").unwrap_or(0)
}

/// Returns the name of the job.
pub fn job() -> String {
    variable("PMIX_NAMESPACE").unwrap_or_default()
}

/// Returns the place of this process in its job, if a guardian has started it.
pub fn place() -> Option<ProcessPlace> {
    ProcessPlace::parse(&variable(LINE_VARIABLE)?)
}

/// Returns the common directory of the job's processes on this node.
///
/// `None` if no guardian has started this process.
pub fn directory() -> Option<PathBuf> {
    Some(place()?.directory)
}

/// Returns true in the first process of this node that calls the function for `subject`.
///
/// A warning that concerns all ranks is thus printed once on each node. Without a guardian, the
/// processes have no common directory, and the result is always true.
pub fn is_first_to_warn(subject: &str) -> bool {
    directory().is_none_or(|directory| line::is_first_to_warn(&directory, subject))
}

/// Returns a random number, which stays equal when the launcher's guardians restart the job.
///
/// Names of jobs repeat: process ids on different hosts, or in containers, may be equal. The number
/// is in a file of the job's directory on this node, so one process of the job calls this function.
///
/// # Errors
/// Fails with errors of reading the kernel's random numbers.
pub fn job_nonce() -> std::io::Result<u64> {
    let path = directory().map(|directory| directory.join("nonce"));
    let mut bytes = [0; size_of::<u64>()];
    if let Some(path) = &path
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut bytes))
            .is_ok()
    {
        return Ok(u64::from_ne_bytes(bytes));
    }
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    // Without the file, a job that its guardians restart has to wait for the end of its own lease.
    path.map(|path| std::fs::write(path, bytes));
    Ok(u64::from_ne_bytes(bytes))
}

/// Returns a name that stays equal when the launcher's guardians restart the job.
pub fn job_of_launcher() -> String {
    let directory = directory();
    let name = directory.as_deref().and_then(Path::file_name);
    name.map_or_else(job, |name| name.to_string_lossy().into_owned())
}
