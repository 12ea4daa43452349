//! State of the process, besides descriptors, that is refused at a cut.
#![allow(unsafe_code)]

use super::kernel_calls::kernel_calls;
use super::{UserError, kernel_aio, lowered_limits, memory_policy, system_v, threads, zones};
use crate::kernel_state::attributes::{DIRECTORY, GUARDS, LIMITS, MAPPED, NAMESPACES, RAW_THREADS};
use crate::kernel_state::{self, STATUS};
use crate::user::Runtime;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use understudy_formats::proc_file::ProcFile;
use understudy_image::procmap;
use understudy_image::vmas::{Owner, Vma};

/// State at the start of the process that must not change.
#[derive(Debug)]
pub(super) struct Start {
    /// Fields of `/proc/self/status` that are refused if they differ.
    status: Vec<(String, String)>,
    namespaces: Vec<Option<PathBuf>>,
}

impl Start {
    pub(super) const NONE: Start = Start {
        status: Vec::new(),
        namespaces: Vec::new(),
    };
}

/// Namespaces and the root directory, by their links in `/proc/self`.
const PLACES: [&str; 8] = [
    "ns/cgroup",
    "ns/ipc",
    "ns/mnt",
    "ns/net",
    "ns/time",
    "ns/user",
    "ns/uts",
    "root",
];

fn status() -> Vec<(String, String)> {
    static FIELDS: ProcFile = ProcFile::new("/proc/self/status");
    let text = FIELDS.read().unwrap_or_default();
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        kernel_state::refusal(STATUS, name)?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(field).collect()
}

fn namespaces() -> Vec<Option<PathBuf>> {
    let link = |place| std::fs::read_link(format!("/proc/self/{place}")).ok();
    PLACES.into_iter().map(link).collect()
}

/// Records the state at the start of the process.
pub(super) fn remember_start(rt: &Runtime) {
    rt.start.set(Start {
        status: status(),
        namespaces: namespaces(),
    });
}

fn refused(what: impl Into<String>, why: &'static str) -> UserError {
    UserError::KernelState {
        what: what.into(),
        why,
    }
}

/// Refuses what cannot be restored, once all threads of the program stand still.
pub(super) fn check(rt: &Runtime) -> Result<(), UserError> {
    check_process(rt)?;
    check_limits()?;
    check_threads(rt)?;
    if std::env::current_dir().is_err() {
        return Err(refused("a working directory without a name", DIRECTORY));
    }
    system_v::check()?;
    check_guards(rt)?;
    memory_policy::check()?;
    check_mappings()
}

/// Refuses credentials and namespaces that are not those of the start.
fn check_process(rt: &Runtime) -> Result<(), UserError> {
    let start = rt.start.borrow();
    let now = status();
    if let Some((name, _)) = now.iter().find(|field| !start.status.contains(field)) {
        let why = kernel_state::refusal(STATUS, name).unwrap_or_default();
        let what = format!("another value of {name} (/proc/self/status) than at its start");
        return Err(refused(what, why));
    }
    let changed = start.namespaces.iter().zip(namespaces()).zip(PLACES);
    match changed.into_iter().find(|((then, now), _)| *then != now) {
        Some((_, place)) => Err(refused(
            format!("another /proc/self/{place} than at its start"),
            NAMESPACES,
        )),
        None => Ok(()),
    }
}

/// Refuses limits that the program has lowered below what understudy needs.
fn check_limits() -> Result<(), UserError> {
    lowered_limits::first().map_or(Ok(()), |(least, value)| {
        Err(refused(
            format!("a limit of {value} ({})", least.name),
            LIMITS,
        ))
    })
}

/// Refuses threads that were made by clone(2) itself.
fn check_threads(rt: &Runtime) -> Result<(), UserError> {
    threads::unknown(rt).map_or(Ok(()), |number| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{number}/comm"));
        let name = name.unwrap_or_default();
        let what = format!("thread {number} ({}), made by clone(2)", name.trim_end());
        Err(refused(what, RAW_THREADS))
    })
}

/// Refuses guard pages on kernels that do not report them.
fn check_guards(rt: &Runtime) -> Result<(), UserError> {
    let has_guards = kernel_calls().guards.load(Ordering::Relaxed) > 0;
    if has_guards && !rt.advice.can_report_guards() {
        return Err(refused("guard pages (MADV_GUARD_INSTALL)", GUARDS));
    }
    Ok(())
}

/// Refuses mappings whose content is not memory, but for rings that can be made again.
fn check_mappings() -> Result<(), UserError> {
    if !kernel_aio::may_have_rings() {
        return Ok(());
    }
    let all = procmap::read_outside(zones())?;
    let is_own = |vma: &&Vma| zones().owner_at(vma, vma.range.start) == Owner::Device;
    let (rings, others): (Vec<&Vma>, Vec<&Vma>) = all
        .iter()
        .filter(is_own)
        .partition(|vma| kernel_aio::is_ring(vma));
    if let Some(vma) = others.first() {
        let path = String::from_utf8_lossy(&vma.path);
        return Err(refused(format!("{path} mapped"), MAPPED));
    }
    kernel_aio::check(&rings)
}

/// True for a process whose state cannot be set back to the checkpoint.
pub fn must_be_replaced(rt: &Runtime) -> bool {
    let result = check_process(rt)
        .and_then(|()| check_limits())
        .and_then(|()| check_threads(rt))
        .and_then(|()| memory_policy::check());
    result
        .inspect_err(|why| log::info!("this process cannot be set back: {why}"))
        .is_err()
}
