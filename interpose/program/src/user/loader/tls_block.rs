//! Blocks of thread-local data that ld.so has allocated for libraries.
#![allow(unsafe_code)]

use super::dtv;
use super::loaded_libraries::{self, Library};
use crate::process_info;
use crate::user::UserError;

/// Block of thread-local data of one library.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct TlsBlock {
    path: String,
    module: u64,
    address: u64,
    /// Address of ld.so's allocation; zero if the block is in static thread-local storage.
    pub allocated: u64,
}

impl TlsBlock {
    /// Returns the address of the block in this process.
    pub fn current(&self) -> Option<u64> {
        let modules = loaded_libraries::modules();
        let module = modules
            .iter()
            .find(|module| module.tls_module == self.module);
        module
            .map(|module| module.tls_block)
            .filter(|&block| block != 0)
    }

    /// Makes ld.so allocate the block at its saved address.
    ///
    /// # Errors
    /// Fails if ld.so allocates the block at another address.
    pub fn allocate(&self) -> Result<(), UserError> {
        let next = process_info::info().loader_heap.next_block;
        // SAFETY: the preload library's word; the block was reserved.
        let block = unsafe {
            next.write_volatile(self.allocated as usize);
            let block = loaded_libraries::allocate_block(self.module);
            next.write_volatile(0);
            block
        };
        if block == self.address && dtv::entries()[self.module as usize].allocated == self.allocated
        {
            return Ok(());
        }
        Err(UserError::ThreadLocals(self.path.clone()))
    }
}

/// Returns the program side's blocks of thread-local data.
pub fn all(libraries: &[Library]) -> Vec<TlsBlock> {
    let entries = dtv::entries();
    let path = |module: u64| {
        libraries
            .iter()
            .find(|library| library.tls_module == module)
            .map(|library| library.path.clone())
    };
    let made = loaded_libraries::modules()
        .into_iter()
        .filter(|module| module.tls_block != 0);
    made.map(|module| TlsBlock {
        path: path(module.tls_module).unwrap_or_default(),
        module: module.tls_module,
        address: module.tls_block,
        allocated: entries
            .get(module.tls_module as usize)
            .map_or(0, |entry| entry.allocated),
    })
    .collect()
}
