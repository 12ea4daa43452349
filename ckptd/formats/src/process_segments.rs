//! Shared memory that communication libraries name after the number of a process.
//!
//! A process that is killed, or whose MPI library is reset, leaves this memory in `/dev/shm`:
//!
//! - MPICH (4.2 and later) in a world of one process: one of [`MPICH_STARTS`], the process number
//!   in hexadecimal digits, and the number of the node, which is zero;
//! - libfabric's provider `shm`: `N:DOMAIN:ENDPOINT`, with decimal numbers.

use crate::private_directories::{PrivateDirectory, SHARED_MEMORY_DIRECTORY, is_own};
use std::path::Path;

/// Beginnings of MPICH's names, also for the memory that the ranks of a node share.
pub const MPICH_STARTS: [&str; 2] = ["mpich_shm_", "mpich_vci_"];

/// Removes the memory of a process that has ended, or whose MPI library was reset.
///
/// Files of other users are not removed.
pub fn remove_segments_of(process: u32) {
    remove_own_segments(|name| process_of(name) == Some(process));
}

/// Removes files of this user in `/dev/shm` whose names are chosen.
pub fn remove_own_segments(is_chosen: impl Fn(&str) -> bool) {
    let Ok(directory) = PrivateDirectory::open_any(Path::new(SHARED_MEMORY_DIRECTORY)) else {
        return;
    };
    for name in directory.names() {
        let path = directory.path().join(&name);
        if name.to_str().is_some_and(&is_chosen)
            && path.symlink_metadata().is_ok_and(|it| is_own(&it))
        {
            // Another process may have removed the file meanwhile.
            let _ = directory.remove_all(&name);
        }
    }
}

/// Returns the process number in the name of a file in `/dev/shm`.
fn process_of(name: &str) -> Option<u32> {
    for start in MPICH_STARTS {
        if let Some(rest) = name.strip_prefix(start) {
            return u32::from_str_radix(rest.strip_suffix("_0")?, 16).ok();
        }
    }
    let mut numbers = name.split(':').map(|number| number.parse().ok());
    let process = numbers.next()??;
    let others: Vec<Option<u32>> = numbers.collect();
    (others.len() == 2 && others.iter().all(Option::is_some)).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_contain_the_process() {
        assert_eq!(process_of("mpich_shm_a6a_0"), Some(0xa6a));
        assert_eq!(process_of("mpich_vci_a6a_0"), Some(0xa6a));
        assert_eq!(process_of("4711:0:1"), Some(4711));
        for other in [
            "mpich_shm_a6a_1",
            "mpich_shm_",
            "sm_segment.vm.0.b44f0000.0",
            "4711",
            "4711:0",
            "4711:0:x",
            "4711:0:1:2",
            "understudy-0",
        ] {
            assert_eq!(process_of(other), None, "{other}");
        }
    }
}
