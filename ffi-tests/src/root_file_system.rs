//! Root file systems of other distributions (`make distributions`).
//!
//! Each has its own C library and MPI libraries.

use crate::{Requirement, paths, skip};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Seconds after which a command is killed.
const LIMIT_S: &str = "120";

/// Enters a root file system and runs a command: ROOT PRODUCTS SOURCES WORK COMMAND.
///
/// The script runs in new mount and PID namespaces, so no process and no mount outlives it.
const ENTER: &str = r#"
set -e
root=$1 products=$2 sources=$3 work=$4
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir -p "$root/opt/understudy" "$root/source" "$root/work"
mount --bind "$products" "$root/opt/understudy"
mount --bind "$sources" "$root/source"
mount --bind "$work" "$root/work"
exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 \
    sh -c "cd /work && $5"
"#;

/// Root file system of a suite (a release of a distribution).
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// Returns the root file system of a suite.
    ///
    /// Returns `None`, and prints the reason, if no root file system was made for the suite.
    pub fn of(suite: &str) -> Option<Root> {
        let place = paths::workspace().join(".env/distributions").join(suite);
        if !place.join("made").exists() {
            skip(
                Requirement::Distributions,
                &format!(
                    "there is no root file system of {suite} (make distributions SUITES={suite})"
                ),
            );
            return None;
        }
        Some(Root {
            path: place.join("root"),
        })
    }

    /// Runs a shell command in this root file system, in the directory `work`.
    ///
    /// The command finds understudy in /opt/understudy and the project's sources in /source.
    ///
    /// # Panics
    /// Panics if timeout(1) cannot be started.
    pub fn run(&self, work: &Path, command: &str) -> Output {
        let layer = paths::preload_library();
        let products = layer.parent().expect("a directory");
        Command::new("timeout")
            .args(["-k", "5", LIMIT_S, "unshare", "-m", "-p", "-f"])
            .args(["--kill-child", "bash", "-c", ENTER, "enter"])
            .args([&self.path, products, &paths::workspace(), work])
            .arg(command)
            .stdin(Stdio::null())
            .output()
            .expect("timeout(1) is there")
    }

    /// Returns the version that the suite's C library reports.
    ///
    /// # Panics
    /// Panics if timeout(1) cannot be started.
    pub fn libc(&self, work: &Path) -> String {
        let output = self.run(work, "ldd --version | head -n 1");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}
