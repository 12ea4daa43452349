//! Loaded ELF objects: link maps, dynamic sections, relocations, program headers.
//!
//! Sources: elf(5), dl_iterate_phdr(3), glibc's `<link.h>`. All structures are read in place. The
//! crate does not allocate memory and does not call the C library.
#![no_std]

#[cfg(test)]
extern crate std;

mod c_string;
mod dynamic;
mod link_map;
mod loaded_module;
mod loader_debug;
mod program_header;
#[cfg(test)]
mod tests;

pub use dynamic::Dynamic;
pub use link_map::LinkMap;
pub use loaded_module::{Callback, LoadedModule, for_each_module};
pub use loader_debug::LoaderDebug;
pub use program_header::{ProgramHeader, program_headers};
