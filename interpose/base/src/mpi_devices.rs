//! Network devices that the MPI library of this process has open.

use std::fs::{self, DirEntry};
use std::path::PathBuf;
use understudy_abi::MPI_FD_BASE;
use understudy_formats::network_devices::opened_devices;

/// Returns the devices that the MPI side has open, by their names in sysfs, sorted.
///
/// A device that writes into memory by itself is used through such a descriptor, whatever settings
/// of the library have selected the device.
pub fn opened() -> Vec<String> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let is_of_mpi = |entry: &DirEntry| {
        let number = entry.file_name().to_str().and_then(|it| it.parse().ok());
        number.is_some_and(|number: i32| number >= MPI_FD_BASE)
    };
    let of_mpi = entries.flatten().filter(is_of_mpi);
    let files: Vec<PathBuf> = of_mpi
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .collect();
    opened_devices(files.iter().map(PathBuf::as_path))
}
