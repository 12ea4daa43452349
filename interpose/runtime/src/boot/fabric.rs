//! Networks between nodes whose devices write into memory by themselves (RDMA).
//!
//! The kernel does not record such writes if the memory was registered with the device before a
//! checkpoint. Tracking compares all pages where a device may be used, or only those that MPI calls
//! may receive to (`interpose/mpi/src/landings.rs`) if the user or the site has chosen that.
//! `Replicas::new` (`interpose/copies`) does the same if the library has opened a device that these
//! rules do not expect.
#![allow(unsafe_code)]

use super::parameters;
use crate::abi;
use crate::process_info::process;
use std::ffi::CStr;
use understudy_catalogue::message;
use understudy_formats::network_devices::NetworkDevices;
use understudy_formats::pages::Tracking;
use understudy_mpi::library;
use understudy_numbers::ProcessNumber;
use understudy_settings::{Config, Fabric};

/// Variables by which libraries of MPICH select transports, and values that exclude RDMA.
///
/// Sources: UCX's documentation of UCX_TLS, and fabric(7) of libfabric.
const WITHOUT_RDMA: [(&str, &str); 2] = [
    ("UCX_TLS", "^ib"),
    ("FI_PROVIDER", "^verbs,psm2,psm3,opx,efa,cxi"),
];

/// Variables by which libraries of networks exclude registered memory from forked processes.
///
/// Sources: ibv_fork_init(3) and fi_cxi(7), "Fork Support". The template process would lack this
/// memory.
const FORK_SAFE: [&CStr; 3] = [c"IBV_FORK_SAFE", c"RDMAV_FORK_SAFE", c"CXI_FORK_SAFE"];

/// Oldest Linux that copies pinned pages for a forked process, which makes [`FORK_SAFE`] needless.
const COPIES_PINNED_PAGES: (u32, u32) = (5, 12);

/// Sets the parameters of the MPI library, which has no thread yet.
///
/// Sets the tracking that the network needs.
pub fn set(config: &mut Config) {
    let devices = NetworkDevices::of_node();
    let is_native = config.fabric == Fabric::Native;
    let may_be_native = match abi::is_foreign_abi() {
        true => is_native || (!devices.is_empty() && !exclude_rdma()),
        false => parameters::set(is_native),
    };
    if may_be_native && kernel_version() >= COPIES_PINNED_PAGES {
        for name in FORK_SAFE {
            let text = name.to_string_lossy();
            if std::env::var_os(&*text).is_some() {
                log::info!(
                    "{text} is not passed to the MPI library: this kernel needs no such help"
                );
            }
            // SAFETY: the MPI library has no thread yet.
            unsafe { library::set_variable(name, None) };
        }
    }
    if may_be_native && !devices.is_empty() && config.tracking != Tracking::Landings {
        config.tracking = Tracking::Compare;
        if process() == ProcessNumber(0) {
            crate::system_calls::print_message(message::fabric_compared(devices));
        }
    }
}

/// Returns major and minor version of the kernel; zeros if unknown.
fn kernel_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Excludes RDMA from the transports of MPICH's libraries.
///
/// Returns false if the user has selected transports.
fn exclude_rdma() -> bool {
    let is_users = |name: &str| std::env::var_os(name).is_some();
    if WITHOUT_RDMA.iter().any(|(name, _)| is_users(name)) {
        return false;
    }
    for (name, value) in WITHOUT_RDMA {
        parameters::set_merged(name, value);
    }
    true
}
