//! The main thread's dynamic thread vector (DTV), which all three sides use.
//!
//! The vector has one entry for each library with thread-local data, of any side, under the
//! library's number. ld.so allocates a library's block at its first use and enters the address. A
//! rollback must restore the entries of the program side's libraries and keep those of the runtime
//! and MPI sides. ld.so moves a vector that is too short. Therefore ld.so's vector is replaced at
//! the start by a vector that is long enough for all libraries.
//!
//! The vector's format is an ABI between ld.so and libc: the control block's second word points to
//! entry 0, which contains a generation. The length is stored before entry 0 (Drepper, "ELF
//! Handling For Thread-Local Storage", 3; glibc's sysdeps/generic/dl-dtv.h).
#![allow(unsafe_code)]

use super::loaded_libraries::ModuleInfo;
use crate::user::tls;

/// Entry of the vector.
///
/// The first word of entry 0 is the generation; the first word of the entry before it is the
/// length.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DtvEntry {
    pub block: u64,
    /// Memory to be freed; zero for static thread-local storage.
    pub allocated: u64,
}

/// Maximum number of libraries with thread-local data.
const VECTOR_LENGTH: usize = 4096;
/// Offset of the second word of the control block.
const VECTOR_OFFSET: u64 = 8;

/// Returns the word of the control block that points to entry 0.
fn pointer() -> *mut *mut DtvEntry {
    (tls::control_block() + VECTOR_OFFSET) as *mut *mut DtvEntry
}

fn vector() -> *mut DtvEntry {
    // SAFETY: a word of this thread's control block.
    unsafe { pointer().read() }
}

/// Replaces ld.so's vector by a long one.
///
/// Returns false if the vector's format is unknown: its entries must agree with dl_iterate_phdr(3)
/// for these modules.
pub fn lengthen(modules: &[ModuleInfo]) -> bool {
    let old = vector();
    // SAFETY: ld.so's vector, whose length is stored before it. The new vector is never freed, and
    // moved only if it overflows.
    unsafe {
        let length = old.sub(1).read().block as usize;
        let fits = |module: &&ModuleInfo| (module.tls_module as usize) <= length;
        let with_block = || {
            modules
                .iter()
                .filter(|module| module.tls_module != 0 && module.tls_block != 0)
        };
        let agrees = |module: &ModuleInfo| {
            old.add(module.tls_module as usize).read().block == module.tls_block
        };
        if length >= VECTOR_LENGTH
            || with_block().next().is_none()
            || !with_block().filter(fits).all(agrees)
        {
            return false;
        }
        let new =
            Box::leak(vec![DtvEntry::default(); VECTOR_LENGTH + 2].into_boxed_slice()).as_mut_ptr();
        new.copy_from_nonoverlapping(old.sub(1), length + 2);
        new.write(DtvEntry {
            block: VECTOR_LENGTH as u64,
            allocated: 0,
        });
        pointer().write(new.add(1));
    }
    true
}

/// Returns the vector's entries from entry 0 on.
pub fn entries() -> Vec<DtvEntry> {
    // SAFETY: the vector of `lengthen`, or a longer vector by which ld.so has replaced it, has at
    // least this length.
    unsafe { std::slice::from_raw_parts(vector(), VECTOR_LENGTH + 1) }.to_vec()
}

/// Restores all entries except those of the modules `excepted`.
pub fn restore_except(saved: &[DtvEntry], excepted: &[ModuleInfo]) {
    for (number, &entry) in saved.iter().enumerate() {
        if !excepted
            .iter()
            .any(|module| number != 0 && module.tls_module == number as u64)
        {
            // SAFETY: an entry within the vector of `lengthen`.
            unsafe { vector().add(number).write(entry) };
        }
    }
}
