//! Network that the MPI library uses after `MPI_Init`.
#![allow(unsafe_code)]

use crate::abi;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use understudy_abi::MPI_FD_BASE;
use understudy_catalogue::message;
use understudy_formats::network_devices::{
    NetworkDevice, SYSFS, describe, network_devices, opened_devices,
};
use understudy_mpi::library;
use understudy_settings::Fabric;

/// Returns the network for the event file.
///
/// `print` is called with a message if the job uses TCP although this node has another network,
/// and the user has not chosen TCP.
pub fn network(fabric: Fabric, print: impl FnOnce(&dyn std::fmt::Display)) -> String {
    let open_files = open_files();
    let used = opened_devices(Path::new(SYSFS), open_files.iter().map(PathBuf::as_path));
    let mut unused: Vec<NetworkDevice> = network_devices(Path::new(SYSFS));
    unused.retain(|device| device.is_active);
    let network = match used.is_empty() {
        true => "TCP".to_owned(),
        false => used.join(", "),
    };
    let by = component().map_or_else(String::new, |component| format!(" by {component}"));
    if !used.is_empty() || unused.is_empty() {
        return format!("{network}{by}");
    }
    let unused = describe(&unused);
    if fabric == Fabric::Auto {
        print(&message::fabric_not_used(&unused));
    }
    format!("{network}{by}, instead of {unused}")
}

/// Returns the files that the MPI side has open.
///
/// A device that can write into memory by itself is used through such a file.
fn open_files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let is_of_mpi = |entry: &std::fs::DirEntry| {
        let number = entry.file_name().to_str().and_then(|it| it.parse().ok());
        number.is_some_and(|number: i32| number >= MPI_FD_BASE)
    };
    let of_mpi = entries.flatten().filter(is_of_mpi);
    of_mpi
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .collect()
}

/// Returns the name of the library's part that transports messages, if known.
fn component() -> Option<String> {
    match abi::is_foreign_abi() {
        true => netmod(),
        false => point_to_point_component(),
    }
}

/// Returns the component `pml` that Open MPI has selected, such as `ob1` or `ucx`.
fn point_to_point_component() -> Option<String> {
    /// Offset of the name in `mca_base_component_t` (Open MPI 4.1 and 5.0, mca.h).
    ///
    /// Three numbers precede each of three names; the first two have 16 and 32 bytes.
    const NAME_OFFSET: usize = 3 * 12 + 16 + 32;
    const NAME_BYTES: usize = 64;
    let selected: *const c_char = library::symbol(c"mca_pml_base_selected_component").cast();
    if selected.is_null() {
        return None;
    }
    // SAFETY: the variable begins with `mca_base_component_t`, which contains these bytes, and does
    // not change between MPI_Init and MPI_Finalize.
    let name = unsafe {
        let name: *const u8 = selected.cast::<u8>().add(NAME_OFFSET);
        std::slice::from_raw_parts(name, NAME_BYTES)
    };
    let name = CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then(|| name.to_owned())
}

/// Returns the `netmod` of MPICH: the first one of the library, or the user's selection.
fn netmod() -> Option<String> {
    let (version, _) = library::version();
    let device = version.split("ch4:").nth(1)?;
    let names = device.split_whitespace().next()?;
    let users = std::env::var("MPIR_CVAR_CH4_NETMOD").ok();
    let users = users.filter(|user| names.split(',').any(|name| name == user));
    users.or_else(|| names.split(',').next().map(str::to_owned))
}
