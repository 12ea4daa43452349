//! Libraries that the MPI library opens: its components, name services, drivers.
#![allow(unsafe_code)]

use super::side_error::ResetError;
use crate::library::{self, Module};

/// Libraries that are loaded.
pub struct SavedModules(Vec<Module>);

impl SavedModules {
    pub fn take() -> SavedModules {
        SavedModules(library::modules())
    }

    /// Checks that no library is open that has been opened since.
    ///
    /// # Safety
    /// No other code may use libraries that have been opened since.
    ///
    /// # Errors
    /// The first library that stays open.
    pub unsafe fn check_none_opened(&self) -> Result<(), ResetError> {
        let now = library::modules();
        match now.iter().find(|module| !self.0.contains(module)) {
            None => Ok(()),
            Some(module) => Err(ResetError::LibraryOpened(module.name.clone())),
        }
    }
}
