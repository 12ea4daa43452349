//! Network that the MPI library uses after `MPI_Init`.
#![allow(unsafe_code)]

use crate::{abi, fault, mpi_devices};
use std::ffi::{CStr, c_char};
use understudy_catalogue::message;
use understudy_formats::network_devices::{NetworkDevices, TCP};
use understudy_mpi::library;
use understudy_settings::Fabric;

/// Name of the device that the fault `blind` stands for.
const SIMULATED_DEVICE: &str = "blind";

/// Returns the network for the event file.
///
/// `print` is called with a message if the job uses TCP although this node has another network,
/// and the user has not chosen TCP.
pub fn network(fabric: Fabric, print: impl FnOnce(&dyn std::fmt::Display)) -> String {
    let mut used = mpi_devices::opened();
    if fault::is_blind() {
        used.push(SIMULATED_DEVICE.to_owned());
    }
    let unused = NetworkDevices::of_node().active();
    let network = match used.is_empty() {
        true => TCP.to_owned(),
        false => used.join(", "),
    };
    let by = component().map_or_else(String::new, |component| format!(" by {component}"));
    if !used.is_empty() || unused.is_empty() {
        return format!("{network}{by}");
    }
    if fabric == Fabric::Auto {
        print(&message::fabric_not_used(&unused));
    }
    format!("{network}{by}, instead of {unused}")
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
