//! Libraries that the MPI library opens: its components, name services, drivers.
#![allow(unsafe_code)]

use super::side_error::Error;
use crate::library::{self, Module};

/// Those that are loaded.
pub struct Saved(Vec<Module>);

impl Saved {
    pub fn take() -> Saved {
        Saved(library::modules())
    }

    /// Closes those that were opened since, without running their destructors.
    ///
    /// # Safety
    /// Nobody may use them any more.
    pub unsafe fn put_back(&self) -> Result<(), Error> {
        let now = library::modules();
        match now.iter().find(|module| !self.0.contains(module)) {
            None => Ok(()),
            Some(module) => Err(Error::Opened(module.name.clone())),
        }
    }
}
