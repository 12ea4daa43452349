//! Check of the network between nodes.

use super::Check;
use understudy_formats::network_devices::NetworkDevices;
use understudy_formats::pages::Tracking;
use understudy_settings::{Config, Fabric};

/// Describes the node's active network devices; empty without any.
pub fn active_network() -> String {
    NetworkDevices::of_node().active().to_string()
}

/// Compares the node's network devices with the setting of the network.
pub fn fabric(config: &Config) -> Check {
    const NAME: &str = "fabric";
    let found = NetworkDevices::of_node();
    if found.is_empty() {
        return Check::ok(
            NAME,
            "shared memory and TCP; this node has no other network",
        );
    }
    match config.fabric {
        Fabric::Native => {
            let compared = match config.tracking {
                Tracking::Landings => "memory that MPI calls receive to",
                _ => "all memory",
            };
            Check::ok(
                NAME,
                format!("the MPI library may use {found}; checkpoints compare {compared}"),
            )
        }
        Fabric::Tcp => Check::ok(NAME, format!("TCP, as set, instead of {found}")),
        Fabric::Auto if found.clone().active().is_empty() => {
            Check::ok(NAME, format!("shared memory and TCP; {found}"))
        }
        Fabric::Auto => Check::warning(
            NAME,
            format!("TCP instead of {found}"),
            "`understudy accept` tries it with real failures; --fabric native uses it, and makes \
             checkpoints compare all memory; --fabric tcp accepts TCP",
        ),
    }
}
