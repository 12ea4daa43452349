//! Vendor and version of an MPI library, as the library reports them.
//!
//! Libraries of several vendors have one name (`libmpi.so.12`) and one ABI, that of MPICH. Only
//! `MPI_Get_library_version` distinguishes them. Another process opens the library, so that a
//! library that crashes or prints does not disturb the checks.
#![allow(unsafe_code)]

use crate::outcome::{Outcome, print, verdict};
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::process::{Command, Stdio};
use understudy_pmi::MpiKind;

/// Room for the text: MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 (MPICH).
const CAPACITY: usize = 16384;
/// Option by which `understudy doctor` starts itself.
pub const OPTION: &str = "--mpi-version";

/// Describes a library, such as `/opt/lib/libmpi.so.12 (Intel MPI 2021.18.1, ABI of MPICH)`.
pub fn describe(library: &Path) -> String {
    let path = library.display();
    match query(library).as_deref().and_then(vendor_and_version) {
        Some(version) => format!("{path} ({version}{})", abi_of(library, &version)),
        None => path.to_string(),
    }
}

/// Returns the ABI of a library whose vendor's name does not contain it.
fn abi_of(library: &Path, version: &str) -> &'static str {
    let name = library.file_name().and_then(|name| name.to_str());
    match name.and_then(MpiKind::of) {
        Some(MpiKind::Standard) => ", standard ABI",
        Some(MpiKind::Mpich | MpiKind::Debian) if !version.starts_with("MPICH") => ", ABI of MPICH",
        _ => "",
    }
}

/// Runs this program with [`OPTION`], and returns what it prints.
fn query(library: &Path) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(["doctor", OPTION]).arg(library);
    command.env_remove("LD_PRELOAD").stdin(Stdio::null());
    let output = command.stderr(Stdio::null()).output().ok()?;
    let is_text = output.status.success() && !output.stdout.is_empty();
    is_text.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns vendor and version from the text of `MPI_Get_library_version`.
fn vendor_and_version(text: &str) -> Option<String> {
    const VENDORS: [(&str, &str); 6] = [
        ("Open MPI v", "Open MPI"),
        ("Intel(R) MPI Library", "Intel MPI"),
        ("CRAY MPICH version", "Cray MPICH"),
        ("MVAPICH2 Version", "MVAPICH2"),
        ("MVAPICH Version", "MVAPICH"),
        ("MPICH Version", "MPICH"),
    ];
    let known = VENDORS.iter().find_map(|(start, vendor)| {
        let rest = &text[text.find(start)? + start.len()..];
        let rest = rest.trim_start_matches([':', ' ', '\t']);
        let version = rest.split([' ', ',', '\n', '\t']).next()?;
        Some(format!("{vendor} {version}"))
    });
    let first_line = || text.lines().next().map(str::trim).map(str::to_owned);
    known.or_else(first_line).filter(|text| !text.is_empty())
}

/// Prints the text of a library's `MPI_Get_library_version`, which needs no `MPI_Init`.
///
/// # Errors
/// Fails if the library cannot be opened, or lacks the procedure.
pub fn print_version(library: &Path) -> Outcome {
    type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    let mut text = vec![0 as c_char; CAPACITY];
    let mut length = 0;
    // SAFETY: the MPI standard gives the procedure this type (MPI 4.1, 9.1.1); the buffer has more
    // room than any library requires, and a last zero. The library is never closed.
    let is_done = unsafe {
        let library = Library::open(Some(library), RTLD_LAZY | RTLD_LOCAL)?;
        let version = *library.get::<Version>(b"MPI_Get_library_version\0")?;
        std::mem::forget(library);
        version(text.as_mut_ptr(), &mut length) == 0
    };
    // SAFETY: the procedure has written a terminated text, or nothing, into zeros.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    print(text.to_bytes())?;
    Ok(verdict(is_done))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of libraries; those of Cray and MVAPICH are from their users' reports.
    #[test]
    fn vendors_are_distinguished_by_their_texts() {
        for (text, expected) in [
            (
                "Open MPI v5.0.11, package: Open MPI root@b Distribution, ident: 5.0.11",
                "Open MPI 5.0.11",
            ),
            (
                "Intel(R) MPI Library 2021.18.1 for Linux* OS\n",
                "Intel MPI 2021.18.1",
            ),
            (
                "MPI VERSION    : CRAY MPICH version 8.1.28.29 (ANL base 3.4a2)\n",
                "Cray MPICH 8.1.28.29",
            ),
            ("MVAPICH2 Version      :\t2.3.7\n", "MVAPICH2 2.3.7"),
            (
                "MVAPICH Version      :\t3.0\nMVAPICH Release date:",
                "MVAPICH 3.0",
            ),
            (
                "MPICH Version:      5.0.2\nMPICH Release date:",
                "MPICH 5.0.2",
            ),
            ("Another MPI 7\nmore", "Another MPI 7"),
        ] {
            assert_eq!(vendor_and_version(text).as_deref(), Some(expected));
        }
        assert_eq!(vendor_and_version(""), None);
    }

    #[test]
    fn an_abi_is_named_if_the_vendor_does_not_name_it() {
        let abi = |name: &str, version: &str| abi_of(Path::new(name), version);
        assert_eq!(abi("/a/libmpi.so.12", "Intel MPI 1"), ", ABI of MPICH");
        assert_eq!(abi("/a/libmpi.so.12", "MPICH 5.0.2"), "");
        assert_eq!(abi("/a/libmpi_abi.so.1", "MPICH 5.0.2"), ", standard ABI");
        assert_eq!(abi("/a/libmpi.so.40", "Open MPI 5"), "");
    }
}
