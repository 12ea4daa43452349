//! Libraries that the MPI library opens: its components, name services, drivers.
#![allow(unsafe_code)]

use super::side_error::ResetError;
use crate::library::{self, Module};

/// Libraries of the MPI side that were loaded at the snapshot.
pub struct SavedModules(Vec<Module>);

impl SavedModules {
    pub fn take() -> SavedModules {
        SavedModules(library::modules())
    }

    /// Fails if a library is loaded that was not loaded at the snapshot.
    ///
    /// # Safety
    /// No other thread may open or close libraries.
    ///
    /// # Errors
    /// Fails with [`ResetError::LibraryOpened`], which names the first such library.
    pub unsafe fn check_none_opened(&self) -> Result<(), ResetError> {
        let loaded = library::modules();
        match loaded.iter().find(|module| !self.0.contains(module)) {
            None => Ok(()),
            Some(module) => Err(ResetError::LibraryOpened(module.name.clone())),
        }
    }
}
