//! Accelerators of this node, and the ability of NVIDIA's driver to save their memory.
#![allow(unsafe_code)]

use super::Check;
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use understudy_formats::cuda_driver::{CHECKPOINT_STEPS, version_name};

const NAME: &str = "accelerators";

/// Properties of NVIDIA's driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Driver {
    /// Version number in the encoding of [`version_name`].
    version: c_int,
    /// True if the driver has all required entry points.
    can_save: bool,
}

/// Checks devices and driver of this node.
pub fn check() -> Check {
    judge(&devices(Path::new("/dev")), driver())
}

/// Returns the accelerators' device files: NVIDIA's devices, AMD's `kfd`, and render nodes.
fn devices(directory: &Path) -> Vec<String> {
    let list = |directory: &Path, is_one: fn(&str) -> bool| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut paths: Vec<String> = entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_one))
            .map(|entry| entry.path().to_string_lossy().into_owned())
            .collect();
        paths.sort_unstable();
        paths
    };
    let is_of_nvidia = |name: &str| {
        name.strip_prefix("nvidia")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut all = list(directory, is_of_nvidia);
    all.extend(list(directory, |name| name == "kfd"));
    all.extend(list(&directory.join("dri"), |name| {
        name.starts_with("renderD")
    }));
    all
}

/// Returns the properties of the driver's library that programs would open, if there is one.
fn driver() -> Option<Driver> {
    // SAFETY: the strings for dlopen(3) and dlsym(3) are valid, and the library stays open, so that
    // the function stays loaded. CUDA's driver interface promises that cuDriverGetVersion has this
    // type, writes one number, and needs no other call before it.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return None;
        }
        let find = |name: &CStr| libc::dlsym(library, name.as_ptr());
        let mut version = 0;
        let function = find(c"cuDriverGetVersion");
        if !function.is_null() {
            let get: unsafe extern "C" fn(*mut c_int) -> c_int =
                std::mem::transmute::<*mut c_void, _>(function);
            get(&raw mut version);
        }
        let can_save = CHECKPOINT_STEPS.iter().all(|name| !find(name).is_null());
        Some(Driver { version, can_save })
    }
}

fn judge(devices: &[String], driver: Option<Driver>) -> Check {
    let nvidia_device = devices.iter().find(|path| path.contains("nvidia"));
    let other_device = devices.iter().find(|path| !path.contains("nvidia"));
    let named = driver.map(|driver| {
        let can = if driver.can_save { "can" } else { "cannot" };
        format!(
            "the driver ({}) {can} save device memory",
            version_name(driver.version)
        )
    });
    const UNPROTECTED: &str = "programs that use it run unprotected, with a message";
    match (nvidia_device, named) {
        (Some(device), Some(named)) if driver.is_some_and(|driver| driver.can_save) => {
            Check::warning(
                NAME,
                format!("{device}: {named}, which was tested with a simulated driver only"),
                "packaging/gpu-check.sh of the sources tests it on this machine",
            )
        }
        (Some(device), named) => Check::warning(
            NAME,
            format!(
                "{device}: {}; {UNPROTECTED}",
                named.unwrap_or_else(|| "no libcuda.so.1 is found".into())
            ),
            "NVIDIA's driver from version 570 on can save device memory",
        ),
        (None, Some(named)) => Check::ok(
            NAME,
            format!("libcuda without a device of NVIDIA's; {named}"),
        ),
        (None, None) => Check::ok(
            NAME,
            other_device.map_or_else(
                || "none".to_owned(),
                |device| format!("{device}: {UNPROTECTED}"),
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn each_kind_of_device_and_driver_is_distinguished() {
        let new = Some(Driver {
            version: 12080,
            can_save: true,
        });
        let old = Some(Driver {
            version: 12040,
            can_save: false,
        });
        let cases: [(&[&str], Option<Driver>, Grade, &str); 6] = [
            (&[], None, Grade::Ok, "none"),
            (&[], new, Grade::Ok, "CUDA 12.8) can save"),
            (
                &["/dev/nvidia0"],
                new,
                Grade::Warning,
                "/dev/nvidia0: the driver (CUDA 12.8) can save",
            ),
            (
                &["/dev/nvidia0"],
                old,
                Grade::Warning,
                "CUDA 12.4) cannot save",
            ),
            (&["/dev/nvidia0"], None, Grade::Warning, "no libcuda.so.1"),
            (
                &["/dev/kfd"],
                None,
                Grade::Ok,
                "/dev/kfd: programs that use it run unprotected",
            ),
        ];
        for (devices, driver, grade, words) in cases {
            let devices: Vec<String> = devices.iter().map(|&path| path.to_owned()).collect();
            let check = judge(&devices, driver);
            assert!(
                check.grade == grade && check.finding.contains(words),
                "{check:?}"
            );
        }
    }

    #[test]
    fn devices_are_found_by_their_names() {
        let root = tempfile::tempdir().expect("there is room for temporary files");
        std::fs::create_dir(root.path().join("dri")).expect("a directory");
        for name in [
            "nvidia0",
            "nvidia1",
            "nvidiactl",
            "kfd",
            "null",
            "dri/card0",
            "dri/renderD128",
        ] {
            std::fs::write(root.path().join(name), "").expect("a file");
        }
        let found = devices(root.path());
        let names: Vec<&str> = found
            .iter()
            .filter_map(|path| path.rsplit('/').next())
            .collect();
        assert_eq!(names, ["nvidia0", "nvidia1", "kfd", "renderD128"]);
    }
}
