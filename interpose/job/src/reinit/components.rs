//! Plug-ins of Open MPI and PMIx that are files.
//!
//! All components of Open MPI 4 are files, and a few of a distribution's Open MPI 5.
//!
//! A child that initialises the library alone ([`super::library_preload`]) opens only the
//! components for a world of one process without a launcher.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use understudy_mpi::library;

/// Prefixes of the names of plug-in directories.
const DIRECTORIES: [&str; 2] = ["openmpi", "pmix"];

/// True if the library has plug-ins that are files.
pub fn has_component_files() -> bool {
    static ARE_FILES: OnceLock<bool> = OnceLock::new();
    *ARE_FILES.get_or_init(|| plugin_directories().iter().any(|it| has_plugin(it)))
}

/// True if the user has selected a component of a driver ([`expect_driver`]).
static IS_DRIVER_NAMED: AtomicBool = AtomicBool::new(false);

/// Records that the user has selected a component that opens libraries of a driver.
///
/// The libraries cannot be closed again, so they are opened before the snapshot is taken.
pub fn expect_driver() {
    IS_DRIVER_NAMED.store(true, Ordering::Relaxed);
}

/// True if `MPI_Init` opens plug-ins that are files, or libraries of a driver.
pub fn opens_components() -> bool {
    has_component_files() || IS_DRIVER_NAMED.load(Ordering::Relaxed)
}

/// Returns the transports for a world of one process.
///
/// Transports that leave shared memory behind are excluded.
fn transports_alone() -> String {
    const SHARED_MEMORY: [&str; 3] = ["sm", "vader", "smcuda"];
    let users = std::env::var("OMPI_MCA_btl").unwrap_or_default();
    if users.is_empty() || users.starts_with('^') {
        return "self".into();
    }
    let kept: Vec<&str> = users
        .split(',')
        .filter(|name| !SHARED_MEMORY.contains(name))
        .collect();
    kept.join(",")
}

/// Returns the directories of plug-ins, which are beside the libraries that open them.
///
/// Symbolic links are resolved. Debian's Open MPI 4 has its library in `LIB`, and its plug-ins in
/// `LIB/openmpi/lib/openmpi3`.
fn plugin_directories() -> Vec<PathBuf> {
    let parents: BTreeSet<PathBuf> = library::modules()
        .into_iter()
        .filter_map(|module| std::fs::canonicalize(module.name).ok())
        .filter(|file| opens_plugins(file))
        .filter_map(|file| file.parent().map(Path::to_owned))
        .collect();
    let beside = || parents.iter().flat_map(|parent| named_for_plugins(parent));
    let nested = beside().flat_map(|directory| named_for_plugins(&directory.join("lib")));
    beside().chain(nested).collect()
}

/// True for a library of Open MPI or PMIx.
///
/// Directories beside other libraries may contain another installation's plug-ins.
fn opens_plugins(file: &Path) -> bool {
    const LIBRARIES: [&str; 5] = [
        "libmpi.so",
        "libopen-pal.so",
        "libopen-rte.so",
        "libpmix.so",
        "libprrte.so",
    ];
    let name = file_name(file);
    LIBRARIES.iter().any(|start| name.starts_with(start))
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the directories in `parent` whose names are those of plug-in directories.
fn named_for_plugins(parent: &Path) -> Vec<PathBuf> {
    let is_named = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        DIRECTORIES
            .iter()
            .any(|start| name.starts_with(start.as_bytes()))
    };
    std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_named)
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

/// True if the directory exists and contains a plug-in.
fn has_plugin(directory: &Path) -> bool {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .any(|file| is_plugin(&file.path()))
}

fn is_plugin(path: &Path) -> bool {
    let name = file_name(path);
    (name.starts_with("mca_") || name.contains("_mca_")) && name.ends_with(".so")
}

/// Prepares the library of the child for a world of one process.
///
/// The library connects to no launcher and starts none; temporary files are in `scratch`. Does
/// nothing unless `MPI_Init` [opens components](opens_components).
///
/// # Safety
/// The library must not be in use.
pub unsafe fn prepare(scratch: &Path) {
    const LAUNCHED: [&CStr; 6] = [
        c"PMIX_NAMESPACE",
        c"PMIX_RANK",
        c"OMPI_COMM_WORLD_SIZE",
        c"OMPI_COMM_WORLD_RANK",
        c"OMPI_COMM_WORLD_LOCAL_SIZE",
        c"OMPI_COMM_WORLD_LOCAL_RANK",
    ];
    const ALONE: [(&CStr, &CStr); 2] = [
        (c"OMPI_MCA_ess_singleton_isolated", c"1"),
        // Otherwise the child processes of several ranks would share one directory, and the first
        // child process to end would remove files of the others.
        (c"OMPI_MCA_orte_create_session_dirs", c"0"),
    ];
    if opens_components() {
        let transports = CString::new(transports_alone()).unwrap_or_default();
        let scratch = CString::new(scratch.as_os_str().as_encoded_bytes()).unwrap_or_default();
        // SAFETY: the library is not in use, so no other thread reads the environment.
        unsafe {
            for name in LAUNCHED {
                library::set_variable(name, None);
            }
            for (name, value) in ALONE {
                library::set_variable(name, Some(value));
            }
            library::set_variable(c"OMPI_MCA_btl", Some(&transports));
            library::set_variable(c"TMPDIR", Some(&scratch));
        }
    }
}

/// Parts of the names of drivers' plug-ins, which [`open_others`] does not open.
///
/// Drivers need many libraries and are excluded by default.
const DRIVERS: [&str; 10] = [
    "ucx", "uct", "psm", "ofi", "openib", "usnic", "portals4", "hcoll", "ucc", "cuda",
];

/// Opens, in the child, the components that a job of several processes may need.
///
/// Components of PMIx are included, plug-ins of drivers are not.
pub fn open_others() {
    if !has_component_files() {
        return;
    }
    let files = plugin_directories()
        .into_iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .flatten();
    let is_driver = |path: &Path| {
        let name = file_name(path);
        DRIVERS.iter().any(|driver| name.contains(driver))
    };
    let paths: Vec<String> = files
        .map(|file| file.path())
        .filter(|path| is_plugin(path) && !is_driver(path))
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    library::open_ahead(paths.iter().map(String::as_str));
    let init = library::symbol_of("/libpmix.so", c"PMIx_Init");
    if !init.is_null() {
        // SAFETY: PMIx_Init (PMIx 4.1 standard, 5.1.2) has this type. It writes a name and a number
        // (`pmix_proc_t`) to memory that is long enough. Without a server it fails after it has
        // opened its components.
        unsafe {
            let init: unsafe extern "C" fn(*mut c_char, *mut c_void, usize) -> c_int =
                std::mem::transmute(init);
            init([0; 512].as_mut_ptr(), std::ptr::null_mut(), 0);
        }
    }
}
