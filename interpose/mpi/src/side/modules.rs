//! Libraries that the MPI library opens: its components, name services, drivers.
#![allow(unsafe_code)]

use super::side_error::Error;
use crate::library::{self, Module};

/// Libraries that are loaded.
pub struct Saved(Vec<Module>);

impl Saved {
    pub fn take() -> Saved {
        Saved(library::modules())
    }

    /// Checks that no library is open that has been opened since.
    ///
    /// # Safety
    /// No other code may use libraries that have been opened since.
    ///
    /// # Errors
    /// The first library that stays open.
    pub unsafe fn put_back(&self) -> Result<(), Error> {
        let now = library::modules();
        match now.iter().find(|module| !self.0.contains(module)) {
            None => Ok(()),
            Some(module) => Err(Error::Opened(module.name.clone())),
        }
    }
}
