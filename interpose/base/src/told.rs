//! What this process is told at its start: by the face ([`info`]), by the settings ([`config`]),
//! and by its launcher, or, if it joins a running job, by those who have started it (`joined`).
//! Everything else may use it; only the start (`boot`) sets it.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use understudy_abi::BootInfo;
use understudy_numbers::ProcessNumber;
use understudy_settings::Config;
use understudy_wire::line::{LINE, ProcessPlace};

struct Info(BootInfo);

// SAFETY: never changed; what it points to lives as long as the process, and whoever follows a
// pointer answers for that.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

static INFO: OnceLock<Info> = OnceLock::new();
static CONFIG: OnceLock<Config> = OnceLock::new();

/// What the face has told.
pub fn info() -> &'static BootInfo {
    &INFO.get().expect("the face has started the runtime").0
}

pub fn config() -> &'static Config {
    CONFIG.get().expect("the face has started the runtime")
}

/// Where messages to the user go: the original standard error.
pub fn message_descriptor() -> c_int {
    match INFO.get() {
        Some(Info(info)) if info.messages >= 0 => info.messages,
        _ => 2,
    }
}

/// Integers on the user side, at the same address in every rank.
pub fn attribute_cells() -> *mut c_int {
    info().attribute_cells
}

/// How many threads the program has created.
pub fn created_threads() -> u32 {
    // SAFETY: the face's counter lives as long as the process.
    unsafe { info().user_threads.read_volatile() }
}

/// Address of a symbol as the program sees it; 0 if there is none.
pub fn user_symbol(name: &str) -> u64 {
    let Ok(name) = CString::new(name) else {
        return 0;
    };
    // SAFETY: dlsym(3) in the program's namespace.
    unsafe { (info().user_dlsym)(name.as_ptr()) as u64 }
}

/// How many processes the job has had, if some have joined it.
static PROCESSES: AtomicU32 = AtomicU32::new(0);

/// How many processes the job has had so far.
pub fn process_count() -> u32 {
    PROCESSES.load(Ordering::Relaxed).max(launcher_size())
}

/// The job has had so many processes.
pub fn grow_to(count: u32) {
    PROCESSES.fetch_max(count, Ordering::Relaxed);
}

/// The face has told this. The first call holds.
pub fn hear(info: BootInfo) {
    let _ = INFO.set(Info(info));
}

/// The settings have been read. The first call holds.
pub fn settle(config: Config) {
    let _ = CONFIG.set(config);
}

/// A variable of the launcher's environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// One that is a number.
pub fn number(name: &str) -> Option<u32> {
    variable(name).and_then(|text| text.parse().ok())
}

/// This process's number in the job.
pub fn process() -> ProcessNumber {
    ProcessNumber(number("PMIX_RANK").unwrap_or(0))
}

/// Whether the program could run without the layer: its own launcher has told what it needs.
pub fn has_other_launcher() -> bool {
    variable("UNDERSTUDY_LAUNCHER_PMIX_RANK").is_some()
}

/// How many ranks the launcher has started.
pub fn launcher_size() -> u32 {
    number("OMPI_COMM_WORLD_SIZE").unwrap_or(0)
}

/// Name of the job.
pub fn job() -> String {
    variable("PMIX_NAMESPACE").unwrap_or_default()
}

/// Returns the place of this process in its job, if a guardian has started it.
pub fn place() -> Option<ProcessPlace> {
    ProcessPlace::parse(&variable(LINE)?)
}

/// Returns the directory that the job's processes of this node have in common.
fn directory() -> Option<PathBuf> {
    Some(place()?.directory)
}

/// Returns true in the first process of this node that asks for this subject.
///
/// A warning that all ranks could give is given once.
pub fn is_first_to_warn(subject: &str) -> bool {
    directory().is_none_or(|directory| {
        let path = directory.join(format!("warned-{subject}"));
        let file = File::options().write(true).create_new(true).open(path);
        !file.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists)
    })
}

/// Returns the name that all starts of the job by one launcher have.
pub fn job_of_launcher() -> String {
    let directory = directory();
    let name = directory.as_deref().and_then(Path::file_name);
    name.map_or_else(job, |name| name.to_string_lossy().into_owned())
}
