//! Libraries that the program has opened and closed since MPI_Init, in order.
//!
//! A replacement repeats these operations. The preload library reports each dlopen(3) and
//! dlclose(3) before it happens. The result is read later from ld.so's list, which also shows
//! libraries that libc opens by itself (character sets, name services).

use super::loaded_libraries::{self, Library};
use crate::runtime_state::StateCell;
use std::cell::RefMut;
use std::path::Path;

/// Call of the program that changes ld.so's list.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum LoaderCall {
    /// Call of dlopen(3), with the working directory if the name is relative.
    Open {
        path: String,
        flags: i32,
        directory: Option<String>,
    },
    /// Call of dlclose(3).
    Close { handle: u64 },
    /// No call: libc has opened a library.
    Nothing,
}

/// Call, and the changes of ld.so's list until the next call.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Operation {
    pub call: LoaderCall,
    /// Libraries that were added.
    pub added: Vec<Library>,
    /// Handles of libraries that were removed.
    pub removed: Vec<u64>,
}

/// Operations since MPI_Init.
#[derive(Default)]
pub(super) struct OperationLog {
    operations: Vec<Operation>,
    /// Libraries after the last operation.
    libraries: Vec<Library>,
    /// Number of calls.
    calls: u64,
    /// Process that has started the log; a forked child does not use the log.
    process: u32,
}

/// Starts an empty log.
pub fn begin(log: &StateCell<Option<OperationLog>>) {
    log.set(Some(OperationLog {
        libraries: loaded_libraries::libraries(),
        process: std::process::id(),
        ..OperationLog::default()
    }));
}

/// Returns the log; `None` if this process has not started it.
fn log_of_this_process(log: &StateCell<Option<OperationLog>>) -> Option<RefMut<'_, OperationLog>> {
    let log = RefMut::filter_map(log.borrow_mut(), Option::as_mut).ok()?;
    (log.process == std::process::id()).then_some(log)
}

/// Records a call that the program is about to make.
pub fn record(log: &StateCell<Option<OperationLog>>, call: LoaderCall) {
    if let Some(mut log) = log_of_this_process(log) {
        log.record_changes();
        log.calls += 1;
        log.operations.push(Operation {
            call,
            added: Vec::new(),
            removed: Vec::new(),
        });
    }
}

/// Returns the number of calls.
pub fn calls(log: &StateCell<Option<OperationLog>>) -> u64 {
    log_of_this_process(log).map_or(0, |log| log.calls)
}

/// Returns the operations since MPI_Init.
pub fn operations(log: &StateCell<Option<OperationLog>>) -> Vec<Operation> {
    log_of_this_process(log).map_or_else(Vec::new, |mut log| {
        log.record_changes();
        log.operations.clone()
    })
}

/// Sets the log to the state after these operations, with these libraries.
///
/// The libraries need not all be mapped yet.
pub fn replace(
    log: &StateCell<Option<OperationLog>>,
    operations: &[Operation],
    libraries: &[Library],
) {
    if let Some(mut log) = log_of_this_process(log) {
        log.operations = operations.to_vec();
        log.libraries = libraries.to_vec();
    }
}

impl OperationLog {
    /// Records the result of the last call.
    fn record_changes(&mut self) {
        let now = loaded_libraries::libraries();
        if now != self.libraries {
            let added: Vec<Library> = difference(&now, &self.libraries).cloned().collect();
            let removed: Vec<u64> = difference(&self.libraries, &now)
                .map(|library| library.handle)
                .collect();
            if self.operations.is_empty() {
                self.operations.push(Operation {
                    call: LoaderCall::Nothing,
                    added: Vec::new(),
                    removed: Vec::new(),
                });
            }
            if let Some(last) = self.operations.last_mut() {
                last.added.extend(added);
                last.removed.extend(removed);
            }
            self.libraries = now;
        }
        self.shorten();
    }

    /// Removes the last two operations if the second one undoes the first one.
    fn shorten(&mut self) {
        if let [.., open, close] = &self.operations[..]
            && cancels(open, close)
        {
            self.operations.truncate(self.operations.len() - 2);
        }
    }
}

/// Returns the libraries of `list` that are not in `other`.
fn difference<'a>(list: &'a [Library], other: &'a [Library]) -> impl Iterator<Item = &'a Library> {
    list.iter().filter(|library| !other.contains(library))
}

/// True if the second operation undoes the first.
fn cancels(open: &Operation, close: &Operation) -> bool {
    let (LoaderCall::Open { .. }, LoaderCall::Close { handle }) = (&open.call, &close.call) else {
        return false;
    };
    let mut added: Vec<u64> = open.added.iter().map(|library| library.handle).collect();
    let mut removed = close.removed.clone();
    let is_opened_library = added.first() == Some(handle);
    added.sort_unstable();
    removed.sort_unstable();
    is_opened_library && added == removed && open.removed.is_empty() && close.added.is_empty()
}

/// True if `path` may be the name by which the library was opened.
///
/// The name may lack the directory.
pub fn is_named(library: &Library, path: &str) -> bool {
    Path::new(&library.path).file_name() == Path::new(path).file_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(handle: u64) -> Library {
        Library {
            path: format!("/lib/lib{handle}.so"),
            base: handle << 20,
            end: (handle << 20) + 4096,
            handle,
            tls_module: 0,
            alignment: 4096,
        }
    }

    fn open(made: &[u64]) -> Operation {
        let call = LoaderCall::Open {
            path: "lib1.so".into(),
            flags: 2,
            directory: None,
        };
        let made = made.iter().map(|&handle| library(handle)).collect();
        Operation {
            call,
            added: made,
            removed: Vec::new(),
        }
    }

    fn close(handle: u64, gone: &[u64]) -> Operation {
        let (call, gone) = (LoaderCall::Close { handle }, gone.to_vec());
        Operation {
            call,
            added: Vec::new(),
            removed: gone,
        }
    }

    #[test]
    fn a_library_that_is_closed_at_once_leaves_nothing() {
        assert!(cancels(&open(&[1, 2]), &close(1, &[2, 1])));
        assert!(
            !cancels(&open(&[1, 2]), &close(1, &[1])),
            "the library that it needs has stayed"
        );
        assert!(
            !cancels(&open(&[1]), &close(3, &[3])),
            "another library was closed"
        );
        assert!(
            !cancels(&open(&[]), &close(1, &[])),
            "the library was loaded before"
        );
        assert!(!cancels(&close(1, &[1]), &open(&[1])));
    }

    #[test]
    fn names_with_and_without_directory_are_the_same() {
        assert!(is_named(&library(1), "lib1.so") && is_named(&library(1), "./lib1.so"));
        assert!(!is_named(&library(1), "lib11.so"));
    }
}
