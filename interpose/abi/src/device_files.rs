//! Files whose mappings give a process access to a device.

const S_IFMT: u32 = 0o170000;
const S_IFREG: u32 = 0o100000;
const S_IFBLK: u32 = 0o060000;
/// Number of `/dev/zero`, whose mappings are ordinary memory (null(4)).
const ZERO: u64 = 1 << 8 | 5;

/// True if a mapping of this file is memory of a driver.
///
/// `mode` and `number` are the members `st_mode` and `st_rdev` of stat(3type). Mappings of regular
/// files, shared memory included, and of block devices consist of pages that the kernel manages
/// for a file. All other files that can be mapped belong to drivers: character devices, sockets,
/// and anonymous inodes, which have no file type (a ring of io_uring, for example).
pub const fn is_device(mode: u32, number: u64) -> bool {
    !matches!(mode & S_IFMT, S_IFREG | S_IFBLK) && number != ZERO
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn is_device_at(path: &str) -> bool {
        let metadata = std::fs::metadata(path).expect("the file exists");
        is_device(metadata.mode(), metadata.rdev())
    }

    #[test]
    fn mapped_files_are_devices_memory_or_files() {
        assert!(is_device_at("/dev/null"));
        assert!(!is_device_at("/dev/zero"));
        assert!(!is_device_at("/proc/self/exe"));
        let descriptor_without_type = 0o600;
        assert!(is_device(descriptor_without_type, 0));
        let socket = 0o140777;
        assert!(is_device(socket, 0));
    }
}
