//! Start of the runtime, which the preload library calls in the process's first constructor.
#![allow(unsafe_code)]

mod blind;
mod fabric;
mod parameters;

use crate::Runtime;
use crate::calls::{self, runtime};
use crate::generated::{Proc, SLOT_COUNT, SLOT_NAMES};
use crate::process_info::{config, info, launcher_size, number, process, variable};
use crate::{
    abi, arch, entry, events, fatal, fault, handles, process_info, reinit, request_signals,
    runtime_state, shim, system_calls, user,
};
use std::ffi::{CStr, CString, c_char, c_int};
use understudy_abi::{ABI_VERSION, BootInfo, EntryPoints};
use understudy_catalogue::{exit_status, message};
use understudy_mpi::{cancellation, library};
use understudy_numbers::{Epoch, ProcessNumber};
use understudy_settings::{
    CheckpointSignals, Config, Restart, StaticData, Threads, TimeLimit, refusal, unknown,
};

/// Oldest Open MPI that works without an addition to ld.so's global scope.
///
/// Components of older versions search for libmpi's symbols in this scope.
const OLDEST_WITHOUT_SCOPE: (u32, u32, u32) = (5, 0, 10);
/// Oldest supported Open MPI: older versions cannot be initialised again.
const OLDEST_REINITIALISED: (u32, u32, u32) = (4, 1, 0);

/// Starts the runtime and writes its entry points.
///
/// Returns 0 on success, 1 if the program must run without the runtime, and an exit status if the
/// process must exit.
///
/// # Safety
/// `info` and `points` must be valid; the data behind `info` must live as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_runtime_start(
    info: *const BootInfo,
    points: *mut EntryPoints,
) -> c_int {
    runtime_state::set_main_thread();
    let rt = runtime();
    open_doors(rt);
    // SAFETY: the caller passes valid structures, and the data behind `info` are never freed.
    unsafe {
        process_info::set_info(info.read());
        match start(rt)
            .map_err(StartRefusal::from)
            .and_then(|()| create_memory_directory())
        {
            Ok(()) => {
                points.write(EntryPoints {
                    version: ABI_VERSION,
                    slot_count: SLOT_COUNT as u32,
                    enter: entries().map(|entry| entry as *const std::ffi::c_void),
                    file_effect: entry::file_effect as *const std::ffi::c_void,
                    descriptor_facts: user::written(),
                    fatal_signal: fatal::on_signal as *const std::ffi::c_void,
                    claimed_signals: config()
                        .checkpoint_on
                        .as_ref()
                        .map_or(0, CheckpointSignals::mask),
                    after_cancellation: cancellation::restore_handler as *const std::ffi::c_void,
                    enter_libc_procedure: entry::ENTRIES[0] as *const std::ffi::c_void,
                });
                0
            }
            Err(refusal) => report_refusal(&refusal),
        }
    }
}

/// Opens the `DOOR` of each crate that has one.
///
/// Functions that the MPI library, the kernel or lower crates call have no `Runtime` argument, and
/// get the runtime by `DOOR`.
fn open_doors(rt: &'static Runtime) {
    user::DOOR.open(rt);
    understudy_job::DOOR.open(rt);
    understudy_objects::DOOR.open(rt);
    understudy_journal::DOOR.open(rt);
    crate::DOOR.open(rt);
}

/// Returns the path of the ledger for the relay of the program's streams.
///
/// The string lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_runtime_ledger() -> *const c_char {
    let path = crate::user::new_ledger(&process_info::job(), process());
    let path = CString::new(path.into_os_string().into_encoded_bytes()).unwrap_or_default();
    path.into_raw()
}

/// Connects to the relay of the program's streams.
///
/// # Safety
/// `ledger` must be a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_runtime_streams(ledger: *const c_char) {
    let rt = runtime();
    // SAFETY: the caller passes a C string.
    let path = unsafe { CStr::from_ptr(ledger) }
        .to_string_lossy()
        .into_owned();
    // A spare that replaces a worker prints output once more that the worker has already printed.
    // So does a restarted job, up to its checkpoint. This repeated output is dropped.
    let is_silent =
        process().0 + config().spares >= launcher_size() || config().restart == Restart::Always;
    crate::user::attach_output(rt, path.into(), is_silent);
}

/// Waits until the relay has forwarded the output of the program.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_runtime_flush() {
    crate::user::flush_output();
}

fn entries() -> [unsafe extern "C" fn(); understudy_abi::ENTRIES] {
    if fault::must_count_calls() {
        [entry::enter_counted; understudy_abi::ENTRIES]
    } else {
        entry::ENTRIES
    }
}

/// Reason why a job is not protected.
struct StartRefusal {
    reason: String,
    /// True if the reason may exist on this node only.
    ///
    /// The ranks of other nodes are then protected, and would wait forever for the ranks of this
    /// node.
    is_local: bool,
}

impl From<String> for StartRefusal {
    fn from(reason: String) -> StartRefusal {
        StartRefusal {
            reason,
            is_local: false,
        }
    }
}

impl StartRefusal {
    /// Returns the reason why the job must stop, if it must.
    fn stop_reason(&self) -> Option<&'static str> {
        let is_split = number("OMPI_COMM_WORLD_LOCAL_SIZE") != number("OMPI_COMM_WORLD_SIZE");
        refusal::stops(
            process_info::has_other_launcher(),
            self.is_local && is_split,
        )
    }
}

fn report_refusal(refused: &StartRefusal) -> c_int {
    if info().quiet != 0 {
        return 1;
    }
    let strict = refused.stop_reason();
    if variable("OMPI_COMM_WORLD_LOCAL_RANK").as_deref() == Some("0") {
        crate::system_calls::print_message(refusal::message(&refused.reason, strict));
    } else if strict.is_some() {
        // A rank that exits with an error ends the job. The pause gives the reporting rank time to
        // print.
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    if strict.is_some() {
        exit_status::REFUSED
    } else {
        1
    }
}

fn start(rt: &Runtime) -> Result<(), String> {
    if info().version != ABI_VERSION {
        return Err(message::LIBRARY_VERSIONS.into());
    }
    start_log();
    system_calls::print_panics();
    // SAFETY: the preload library has opened the library, and keeps it open.
    unsafe { understudy_mpi::connect(info().mpi, info().mpi_shim) };
    reinit::read_manager_address()?;
    check_mpi()?;
    report_unknown_settings();
    let mut config = Config::read(variable)?;
    if abi::is_foreign_abi() {
        refuse_journal_settings(&mut config)?;
    }
    let size = launcher_size();
    let workers = size - config.spares;
    crate::disk::decide_restart(&mut config, workers);
    config.check_procedures(|name| Proc::from_name(name).is_some())?;
    if !config.faults.is_empty() {
        let workers = size - config.spares;
        fault::set(config.faults.clone(), process(), workers)
            .map_err(|why| format!("UNDERSTUDY_FAULT: {why}"))?;
    }
    fault::point("boot.begin", Epoch::NONE);
    match abi::is_foreign_abi() {
        true => remove_pmix_variables(),
        false => prefer_simple_mpi(),
    }
    fabric::set(&mut config);
    if fault::is_blind() {
        blind::set().map_err(|why| format!("UNDERSTUDY_FAULT: {why}"))?;
    }
    // SAFETY: the preload library passes an array of this length.
    let symbols =
        unsafe { std::slice::from_raw_parts(info().data_symbols, info().data_symbol_count) };
    if symbols.len() != crate::generated::DATA_COUNT {
        return Err(message::LIBRARY_VERSIONS.into());
    }
    handles::connect(rt, symbols, understudy_mpi::abi::object);
    abi::connect(rt);
    shim::mark_waits(arch::wait_kind());
    shim::after_cancellation(cancellation::restore_handler);
    let mut sources = [std::ptr::null_mut(); understudy_abi::libc_procedures::LIBC_PROCEDURE_COUNT];
    // SAFETY: the preload library's function writes this number of addresses.
    unsafe { (info().program_libc_procedures)(sources.as_mut_ptr()) };
    entry::fill_dispatch(|slot| match slot.checked_sub(SLOT_COUNT) {
        None => library::symbol(SLOT_NAMES[slot]),
        Some(source) => sources[source],
    });
    entry::register_handlers();
    calls::language::begin();
    if let Some(directory) = &config.event_directory {
        events::open(directory, process());
    }
    arch::mpi_lock::connect(info().mpi_lock, process_info::user_symbol);
    arch::mpi_lock::set_unlocked_functions(
        crate::calls::from_another_thread,
        crate::user::record_unlocked_effect,
    );
    crate::user::record_start(rt);
    if config.threads != Threads::Refused {
        crate::user::enable_threads(rt);
    }
    if config.restart == Restart::Always {
        crate::user::record_from_start(rt);
    }
    if config.time_limit == Some(TimeLimit::Auto) {
        return Err(message::TIME_LIMIT_NOT_ASKED.into());
    }
    let claimed = config.checkpoint_on.as_ref().map(CheckpointSignals::mask);
    request_signals::claim(claimed.unwrap_or(0));
    process_info::set_config(config);
    fault::point("boot.end", Epoch::NONE);
    Ok(())
}

/// Refuses settings that need a journal, which records Open MPI's calls only.
fn refuse_journal_settings(config: &mut Config) -> Result<(), String> {
    let refused = match config.static_data {
        StaticData::Replay => Some("UNDERSTUDY_STATIC=replay"),
        StaticData::Disk => Some("UNDERSTUDY_STATIC=disk"),
        StaticData::Auto | StaticData::Image => None,
    };
    config.static_data = StaticData::Image;
    refused.map_or(Ok(()), |setting| {
        Err(message::setting_for_open_mpi(setting).to_string())
    })
}

/// Reports unknown variables that look like settings, in one process of the job.
fn report_unknown_settings() {
    if process() == ProcessNumber(0) && info().quiet == 0 {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for stray in unknown(names) {
            crate::system_calls::print_message(stray);
        }
    }
}

fn start_log() {
    use std::io::Write;
    let rank = process();
    let filter = variable("UNDERSTUDY_LOG")
        .filter(|filter| !filter.is_empty())
        .unwrap_or_else(|| "warn".into());
    let _ = env_logger::Builder::new()
        .parse_filters(&filter)
        .format(move |out, record| {
            writeln!(
                out,
                "understudy[{rank}] {}: {}",
                record.level().as_str().to_lowercase(),
                record.args()
            )
        })
        .target(env_logger::Target::Pipe(Box::new(MessageWriter)))
        .try_init();
}

/// Writer that sends log lines to the descriptor for messages.
struct MessageWriter;

impl std::io::Write for MessageWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        system_calls::write_message(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Creates the user's directory in memory.
///
/// Refuses to start if the directory belongs to another user. If the file system refuses to create
/// the directory, the job runs without ledgers and undo logs.
fn create_memory_directory() -> Result<(), StartRefusal> {
    match understudy_formats::private_directories::make_in_memory() {
        Err(refused) if refused.is_fatal() => Err(StartRefusal {
            reason: refused.to_string(),
            is_local: true,
        }),
        _ => Ok(()),
    }
}

/// Checks the version: Open MPI from 4.1.0 on, or a library with an ABI table.
///
/// Adds an Open MPI before [`OLDEST_WITHOUT_SCOPE`] to ld.so's global scope.
fn check_mpi() -> Result<(), String> {
    let (version, _) = library::version();
    if abi::is_foreign_abi() {
        return Ok(());
    }
    let Some(rest) = version.strip_prefix("Open MPI v") else {
        return Err(message::mpi_version_unsupported(version).to_string());
    };
    let number = rest.split([',', ' ']).next().unwrap_or("");
    let mut parts = number
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (
        parts.next().unwrap_or(0),
        parts.next().unwrap_or(0),
        parts.next().unwrap_or(0),
    );
    if (OLDEST_REINITIALISED..OLDEST_WITHOUT_SCOPE).contains(&version) {
        // SAFETY: the library has been opened, and has no thread yet.
        return match unsafe { library::scope::add_library() } {
            true => Ok(()),
            false => Err(message::components_not_opened(number).to_string()),
        };
    }
    if version < OLDEST_WITHOUT_SCOPE {
        return Err(message::mpi_too_old(number).to_string());
    }
    Ok(())
}

/// Sets parameters of Open MPI for a second initialisation, and for a short start.
fn prefer_simple_mpi() {
    // `mpirun --with-ft ulfm` switches on the library's own fault tolerance, which is not used.
    // SAFETY: the MPI library has no thread yet.
    unsafe { library::set_variable(c"OMPI_MCA_mpi_ft_enable", None) };
    // These plug-ins open drivers and their compilers, which cannot be closed again. Open MPI uses
    // hwloc for processors only.
    parameters::add_to_list(
        "HWLOC_PLUGINS_BLACKLIST",
        "hwloc_opencl,hwloc_cuda,hwloc_nvml,hwloc_rsmi,hwloc_levelzero,hwloc_gl",
    );
    // PMIx's shared-memory store needs a fixed address; the hash store does not.
    parameters::set_merged("PMIX_MCA_gds", "hash");
    // SAFETY: the MPI library has no thread yet.
    unsafe { library::set_variable(c"PMIX_GDS_MODULE", None) };
}

/// Removes the rank's PMIx variables for MPICH.
///
/// MPICH refuses to start if PMIx variables are set while it uses another process manager.
fn remove_pmix_variables() {
    for name in [c"PMIX_NAMESPACE", c"PMIX_RANK"] {
        // SAFETY: the MPI library has no thread yet.
        unsafe { library::set_variable(name, None) };
    }
}
