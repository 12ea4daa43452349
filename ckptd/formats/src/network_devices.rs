//! Network devices of this node that write into memory by themselves (RDMA).
//!
//! [`NetworkDevices::of_node`] is the only place that decides whether a node has such a device.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Directory of the kernel's description of devices (sysfs(5)).
const SYSFS: &str = "/sys";
/// Directory of the files by which processes use devices.
const DEV: &str = "/dev";
/// Class of InfiniBand, RoCE, Omni-Path and EFA in sysfs.
///
/// The kernel's Documentation/ABI/stable/sysfs-class-infiniband describes the class.
const VERBS: &str = "class/infiniband";
/// Class of Slingshot in sysfs.
const SLINGSHOT: &str = "class/cxi";
/// Names under which the kernel offers these devices to processes (`/dev/NAMEn`).
///
/// The files are those of libibverbs, libcxi, and the libraries of Omni-Path.
pub const DEVICE_FILES: [&str; 3] = ["infiniband/uverbs", "cxi", "hfi1_"];
/// Recorded name of the network of a job that uses no such device.
pub const TCP: &str = "TCP";

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

/// Devices of a node that the MPI library may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDevices(Vec<NetworkDevice>);

impl NetworkDevices {
    /// Returns the devices of this node.
    ///
    /// The list contains devices whose ports are not active, because a port may become active
    /// while a job runs.
    pub fn of_node() -> Self {
        Self::described(Path::new(SYSFS), Path::new(DEV))
    }

    /// Returns the devices of a sysfs, and those that have only a file in `dev`.
    ///
    /// A container may have the files without a sysfs.
    fn described(sysfs: &Path, dev: &Path) -> Self {
        let verbs = names(&sysfs.join(VERBS)).into_iter();
        let verbs = verbs.map(|name| verbs_device(sysfs, name));
        let slingshot = names(&sysfs.join(SLINGSHOT)).into_iter();
        let slingshot = slingshot.map(|name| NetworkDevice::assumed(name, "Slingshot"));
        let mut devices: Vec<NetworkDevice> = verbs.chain(slingshot).collect();
        for name in names_of_files(sysfs, dev) {
            if devices.iter().all(|device| device.name != name) {
                devices.push(NetworkDevice::assumed(name, RDMA));
            }
        }
        Self(devices)
    }

    /// Returns the devices that can be used now.
    #[must_use]
    pub fn active(mut self) -> Self {
        self.0.retain(|device| device.is_active);
        self
    }

    /// True if the list has no device.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for NetworkDevices {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let described: Vec<String> = self.0.iter().map(NetworkDevice::to_string).collect();
        to.write_str(&described.join(", "))
    }
}

/// Name of a network of unknown kind.
const RDMA: &str = "RDMA";

impl NetworkDevice {
    /// Returns a device of which the name alone is known.
    fn assumed(name: String, network: &str) -> Self {
        Self {
            name,
            network: network.into(),
            rate: None,
            is_active: true,
        }
    }
}

fn verbs_device(sysfs: &Path, name: String) -> NetworkDevice {
    let device = sysfs.join(VERBS).join(&name);
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
        _ => RDMA,
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

/// Returns the devices that have a file in `dev`, by their names in sysfs.
fn names_of_files(sysfs: &Path, dev: &Path) -> Vec<String> {
    let directories = [dev.to_owned(), dev.join("infiniband")];
    let files = directories.iter().flat_map(|directory| {
        let files = names(directory).into_iter();
        files.map(|name| directory.join(name))
    });
    let files: Vec<PathBuf> = files.collect();
    devices_of_files(sysfs, dev, files.iter().map(PathBuf::as_path))
}

/// Returns the devices among these open files, by their names in sysfs, sorted.
pub fn opened_devices<'a>(files: impl Iterator<Item = &'a Path>) -> Vec<String> {
    devices_of_files(Path::new(SYSFS), Path::new(DEV), files)
}

fn devices_of_files<'a>(
    sysfs: &Path,
    dev: &Path,
    files: impl Iterator<Item = &'a Path>,
) -> Vec<String> {
    let device = |file: &Path| {
        let file = file.strip_prefix(dev).ok()?.to_str()?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let mut numbers = DEVICE_FILES.iter().filter_map(|it| file.strip_prefix(it));
        numbers.find(|rest| is_number(rest))?;
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

/// True if a recorded network is that of a device.
pub fn is_of_device(network: &str) -> bool {
    !network.starts_with(TCP)
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
        let (dev, none) = (root.join("dev"), root.join("none"));
        write(root, "class/infiniband_verbs/uverbs3/ibdev", "mlx5_0\n");
        for file in [
            "infiniband/uverbs3",
            "infiniband/rdma_cm",
            "hfi1_0",
            "cxi0",
            "cxi_x",
        ] {
            write(&dev, file, "");
        }
        let devices = NetworkDevices::described(root, &dev);
        assert_eq!(
            devices.to_string(),
            "hfi1_0 (Omni-Path, not active), mlx5_0 (InfiniBand, 200 Gb/sec (4X HDR)), mlx5_1 \
             (RoCE, 200 Gb/sec (4X HDR)), rdmap0s6 (EFA, 200 Gb/sec (4X HDR)), cxi0 (Slingshot)"
        );
        assert!(!devices.active().to_string().contains("hfi1_0"));
        assert!(NetworkDevices::described(&none, &none).is_empty());
        let by_files = NetworkDevices::described(&none, &dev).to_string();
        assert_eq!(by_files, "cxi0 (RDMA), hfi1_0 (RDMA), uverbs3 (RDMA)");
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
            "/dev/cxi-control",
            "/dev/shm/cxi0",
            "socket:[4711]",
        ];
        let files = files.iter().map(Path::new);
        let found = devices_of_files(sysfs.path(), Path::new(DEV), files);
        assert_eq!(found, ["cxi0", "mlx5_1"]);
    }
}
