//! Networks between nodes whose devices write into memory by themselves (RDMA).
//!
//! The kernel does not record such writes if the memory was registered with the device before a
//! checkpoint. Tracking compares all pages where a device may be used, or only those that MPI calls
//! may receive to (`interpose/mpi/src/landings.rs`) if the user or the site has chosen that.

use super::parameters;
use crate::abi;
use crate::process_info::process;
use std::path::Path;
use understudy_catalogue::message;
use understudy_formats::network_devices::{self, NetworkDevice, SYSFS, describe};
use understudy_formats::pages::Tracking;
use understudy_numbers::ProcessNumber;
use understudy_settings::{Config, Fabric};

/// Variables by which libraries of MPICH select transports, and values that exclude RDMA.
///
/// Sources: UCX's documentation of UCX_TLS, and fabric(7) of libfabric.
const WITHOUT_RDMA: [(&str, &str); 2] = [
    ("UCX_TLS", "^ib"),
    ("FI_PROVIDER", "^verbs,psm2,psm3,opx,efa,cxi"),
];

/// Sets the parameters of the MPI library, which has no thread yet.
///
/// Sets the tracking that the network needs.
pub fn set(config: &mut Config) {
    let devices = network_devices::network_devices(Path::new(SYSFS));
    let is_native = config.fabric == Fabric::Native;
    let may_be_native = match abi::is_foreign_abi() {
        true => is_native || (!devices.is_empty() && !exclude_rdma()),
        false => parameters::set(is_native),
    };
    if may_be_native && !devices.is_empty() {
        if config.tracking != Tracking::Landings {
            config.tracking = Tracking::Compare;
            print(message::fabric_compared(describe(&devices)));
        }
    } else if config.fabric == Fabric::Auto && devices.iter().any(|device| device.is_active) {
        let active: Vec<NetworkDevice> = devices.into_iter().filter(|it| it.is_active).collect();
        print(message::fabric_not_used(describe(&active)));
    }
}

fn print(message: impl std::fmt::Display) {
    if process() == ProcessNumber(0) {
        crate::system_calls::print_message(message);
    }
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
