//! Network devices of this node that write into memory by themselves (RDMA).

use std::fmt;
use std::fs;
use std::path::Path;

/// Directory of the kernel's description of devices (sysfs(5)).
pub const SYSFS: &str = "/sys";

/// Network device with remote direct memory access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDevice {
    /// Name in sysfs, such as `mlx5_0`.
    pub name: String,
    /// Name of the network, such as `InfiniBand`.
    pub network: String,
    /// Data rate of the first active port, as the kernel describes it.
    pub rate: Option<String>,
    pub is_active: bool,
}

impl fmt::Display for NetworkDevice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({}", self.name, self.network)?;
        if let Some(rate) = &self.rate {
            write!(to, ", {rate}")?;
        }
        write!(to, "{})", if self.is_active { "" } else { ", not active" })
    }
}

/// Returns the devices in a sysfs, sorted by name.
///
/// The classes are `infiniband` (InfiniBand, RoCE, Omni-Path, EFA) and `cxi` (Slingshot). The
/// kernel's Documentation/ABI/stable/sysfs-class-infiniband describes the former.
pub fn network_devices(sysfs: &Path) -> Vec<NetworkDevice> {
    let verbs = names(&sysfs.join("class/infiniband")).into_iter();
    let verbs = verbs.map(|name| verbs_device(sysfs, name));
    let slingshot = names(&sysfs.join("class/cxi")).into_iter();
    let slingshot = slingshot.map(|name| NetworkDevice {
        name,
        network: "Slingshot".into(),
        rate: None,
        is_active: true,
    });
    verbs.chain(slingshot).collect()
}

fn verbs_device(sysfs: &Path, name: String) -> NetworkDevice {
    let device = sysfs.join("class/infiniband").join(&name);
    let ports = device.join("ports");
    let read = |port: &str, file: &str| {
        let text = fs::read_to_string(ports.join(port).join(file)).unwrap_or_default();
        text.trim().to_owned()
    };
    let numbers = names(&ports);
    let active = numbers
        .iter()
        .find(|port| read(port, "state").ends_with("ACTIVE"));
    let port = active.or(numbers.first());
    let driver = fs::read_link(device.join("device/driver")).unwrap_or_default();
    let driver = driver
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let link_layer = port
        .map(|port| read(port, "link_layer"))
        .unwrap_or_default();
    let network = match (driver.as_str(), link_layer.as_str()) {
        ("efa", _) => "EFA",
        ("hfi1", _) => "Omni-Path",
        (_, "Ethernet") => "RoCE",
        (_, "InfiniBand") => "InfiniBand",
        _ => "RDMA",
    };
    NetworkDevice {
        name,
        network: network.into(),
        rate: active
            .map(|port| read(port, "rate"))
            .filter(|rate| !rate.is_empty()),
        is_active: active.is_some(),
    }
}

/// Names under which the kernel offers these devices to processes (`/dev/NAME…`).
const DEVICE_FILES: [&str; 3] = ["infiniband/uverbs", "cxi", "hfi1_"];

/// Returns the devices among these open files, by their names in sysfs, sorted.
pub fn opened_devices<'a>(sysfs: &Path, files: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let device = |file: &Path| {
        let file = file.strip_prefix("/dev").ok()?.to_str()?;
        DEVICE_FILES
            .iter()
            .find(|start| file.starts_with(**start))?;
        let name = file.rsplit('/').next()?;
        let verbs = sysfs.join("class/infiniband_verbs").join(name);
        let of_verbs = fs::read_to_string(verbs.join("ibdev"));
        Some(of_verbs.map_or_else(|_| name.to_owned(), |device| device.trim().to_owned()))
    };
    let mut found: Vec<String> = files.filter_map(device).collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the sorted names in a directory; none if the directory cannot be read.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Describes devices in a line.
pub fn describe(devices: &[NetworkDevice]) -> String {
    let described: Vec<String> = devices.iter().map(NetworkDevice::to_string).collect();
    described.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn devices_are_found_by_class_driver_and_port() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (device, port, state, link_layer) in [
            ("mlx5_0", 1, "1: DOWN", "InfiniBand"),
            ("mlx5_0", 2, "4: ACTIVE", "InfiniBand"),
            ("mlx5_1", 1, "4: ACTIVE", "Ethernet"),
            ("hfi1_0", 1, "2: INIT", "InfiniBand"),
            ("rdmap0s6", 1, "4: ACTIVE", "Unspecified"),
        ] {
            let port = format!("class/infiniband/{device}/ports/{port}");
            write(root, &format!("{port}/state"), &format!("{state}\n"));
            write(
                root,
                &format!("{port}/link_layer"),
                &format!("{link_layer}\n"),
            );
            write(root, &format!("{port}/rate"), "200 Gb/sec (4X HDR)\n");
        }
        for (device, driver) in [("hfi1_0", "hfi1"), ("rdmap0s6", "efa")] {
            let device = root.join("class/infiniband").join(device).join("device");
            fs::create_dir_all(&device).unwrap();
            let driver = format!("../../bus/pci/drivers/{driver}");
            std::os::unix::fs::symlink(driver, device.join("driver")).unwrap();
        }
        write(root, "class/cxi/cxi0/device/properties", "");
        assert_eq!(
            describe(&network_devices(root)),
            "hfi1_0 (Omni-Path, not active), mlx5_0 (InfiniBand, 200 Gb/sec (4X HDR)), mlx5_1 \
             (RoCE, 200 Gb/sec (4X HDR)), rdmap0s6 (EFA, 200 Gb/sec (4X HDR)), cxi0 (Slingshot)"
        );
        assert_eq!(network_devices(&root.join("none")), []);
    }

    #[test]
    fn open_devices_have_the_names_of_sysfs() {
        let sysfs = tempfile::tempdir().unwrap();
        let verbs = "class/infiniband_verbs/uverbs1/ibdev";
        write(sysfs.path(), verbs, "mlx5_1\n");
        let files = [
            "/dev/infiniband/uverbs1",
            "/dev/infiniband/uverbs1",
            "/dev/infiniband/rdma_cm",
            "/dev/cxi0",
            "/dev/shm/cxi0",
            "socket:[4711]",
        ];
        let files = files.iter().map(Path::new);
        assert_eq!(opened_devices(sysfs.path(), files), ["cxi0", "mlx5_1"]);
    }
}
