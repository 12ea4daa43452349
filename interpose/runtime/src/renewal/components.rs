//! Open MPI's components, where they are files that MPI_Init opens: in Open MPI 4.
//!
//! A child that initialises the library by itself ([`super::ahead`]) opens only what a world of one process without a launcher needs.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use understudy_mpi::library;

/// Whether there are any.
pub fn are_files() -> bool {
    library::version().0.starts_with("Open MPI v4")
}

/// In the child: the library is to ask no launcher, and to start none.
///
/// # Safety
/// The library must not be in use.
pub unsafe fn prepare() {
    const LAUNCHED: [&CStr; 6] = [
        c"PMIX_NAMESPACE",
        c"PMIX_RANK",
        c"OMPI_COMM_WORLD_SIZE",
        c"OMPI_COMM_WORLD_RANK",
        c"OMPI_COMM_WORLD_LOCAL_SIZE",
        c"OMPI_COMM_WORLD_LOCAL_RANK",
    ];
    if are_files() {
        // SAFETY: handed on to the caller.
        unsafe {
            LAUNCHED
                .iter()
                .for_each(|name| library::set_variable(name, None));
            library::set_variable(c"OMPI_MCA_ess_singleton_isolated", Some(c"1"));
            // Children of several processes would make one directory, and the first that ends removes what another is in.
            library::set_variable(c"OMPI_MCA_orte_create_session_dirs", Some(c"0"));
        }
    }
}

/// Those of drivers, which have many libraries of their own and are not used unless they have been opened already.
const DRIVERS: [&str; 4] = ["ucx", "psm", "ofi", "openib"];

/// In the child: opens the components that a job of several processes may need, and those of PMIx.
pub fn open_others() {
    let modules = library::modules();
    let one = modules.iter().find(|module| module.name.contains("/mca_"));
    let Some(directory) = one.and_then(|one| Path::new(&one.name).parent()) else {
        return;
    };
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path().to_string_lossy().into_owned());
    let is_driver = |path: &String| DRIVERS.iter().any(|driver| path.contains(driver));
    let paths: Vec<String> = paths
        .filter(|path| path.contains("/mca_") && !is_driver(path))
        .collect();
    library::open_ahead(paths.iter().map(String::as_str));
    let init = library::symbol_of("/libpmix.so", c"PMIx_Init");
    if !init.is_null() {
        // SAFETY: PMIx_Init (PMIx 4.1 standard, 5.1.2) has this type. It writes a name and a number (`pmix_proc_t`) to memory that is long
        // enough, and fails for want of a server, when it has opened its components.
        unsafe {
            let init: unsafe extern "C" fn(*mut c_char, *mut c_void, usize) -> c_int =
                std::mem::transmute(init);
            init([0; 512].as_mut_ptr(), std::ptr::null_mut(), 0);
        }
    }
}
