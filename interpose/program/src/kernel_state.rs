//! Table of the state, other than memory, that Linux keeps for a process.
//!
//! ```text
//!   descriptors   by the kernel's name of the open object: readlink(2) of /proc/self/fd/N
//!   status        fields of /proc/self/status: credentials, signals, limits, address space
//!   mappings      VmFlags of /proc/self/smaps
//!   attributes    attributes of processes and threads that the man pages list
//! ```
//!
//! Each row defines how the state is handled in a process that rolls back or replaces another one.
//! Descriptors and status fields without a row are refused: no checkpoint is taken at a cut where
//! the program has one of them. Tests compare the flags of mappings with those of the running
//! kernel.

pub mod attributes;
mod descriptors;
mod mappings;
mod row;
mod status;

pub use attributes::ATTRIBUTES;
pub use descriptors::DESCRIPTORS;
pub use mappings::MAPPINGS;
pub use row::{Handling, Row, refusal};
pub use status::STATUS;

#[cfg(test)]
mod tests {
    use super::row::UNKNOWN_KIND;
    use super::*;
    use std::path::Path;

    #[test]
    fn a_kind_that_is_taken_out_of_the_table_is_refused() {
        for name in ["pipe", "anon_inode:[eventfd]", "file", "socket:unix:pair"] {
            assert_eq!(refusal(DESCRIPTORS, name), None, "{name}");
            let mut rows = DESCRIPTORS.to_vec();
            rows.retain(|row| !row.applies_to(name));
            assert_eq!(refusal(&rows, name), Some(UNKNOWN_KIND), "{name}");
        }
    }

    #[test]
    fn every_field_of_the_running_kernels_status_is_in_the_table() {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split(':').next())
            .collect();
        assert!(names.contains(&"Pid") && names.len() > 40, "{names:?}");
        for name in names {
            assert!(STATUS.iter().any(|row| row.applies_to(name)), "{name}");
        }
    }

    #[test]
    fn every_flag_of_the_running_kernels_mappings_is_in_the_table() {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let flags = text
            .lines()
            .filter_map(|line| line.strip_prefix("VmFlags:"))
            .flat_map(str::split_whitespace);
        let mut count = 0;
        for flag in flags {
            count += 1;
            assert!(MAPPINGS.iter().any(|row| row.applies_to(flag)), "{flag}");
        }
        assert!(count > 0);
    }

    /// Returns the text of the source file `name`, which is in `directory` or below.
    fn source(directory: &Path, name: &str) -> Option<String> {
        let paths = std::fs::read_dir(directory).unwrap().flatten();
        paths.map(|entry| entry.path()).find_map(|path| {
            if path.is_dir() {
                return source(&path, name);
            }
            path.ends_with(name)
                .then(|| std::fs::read_to_string(&path).unwrap())
        })
    }

    #[test]
    fn rows_name_tests_that_exist() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ffi-tests/tests");
        for row in [DESCRIPTORS, STATUS, MAPPINGS, ATTRIBUTES].concat() {
            let Some((file, test)) = row.test.split_once("::") else {
                assert_eq!(row.test, "", "{}", row.name);
                continue;
            };
            let text = source(&tests, &format!("{file}.rs")).unwrap();
            let is_there =
                text.contains(&format!("fn {test}(")) || text.contains(&format!("    {test}: "));
            assert!(is_there, "{}: {}", row.name, row.test);
        }
    }
}
