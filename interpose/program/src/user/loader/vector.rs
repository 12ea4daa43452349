//! The main thread's dynamic thread vector (DTV), which both sides use.
//!
//! ld.so allocates a thread-local block when a library's thread-local data is used for the first
//! time, and enters it under the library's number. A rollback must restore the program side's
//! entries and keep the runtime side's. To prevent moves of the vector, it is replaced at the start
//! by a vector that is long enough for all libraries.
//!
//! The vector's format is an ABI between ld.so and libc: the control block's second word points to
//! entry 0, which contains a generation. The length is stored before entry 0 (Drepper, "ELF
//! Handling For Thread-Local Storage", 3; glibc's sysdeps/generic/dl-dtv.h).
#![allow(unsafe_code)]

use super::list::Module;
use crate::user::tls;

/// Entry of the vector.
///
/// The first word of entry 0 is the generation; the first word of the entry before it is the
/// length.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub block: u64,
    /// Memory to be freed; zero for static thread-local storage.
    pub allocated: u64,
}

/// Maximum number of libraries with thread-local data.
const LENGTH: usize = 4096;
/// Offset of the second word of the control block.
const VECTOR: u64 = 8;

fn place() -> *mut *mut Entry {
    (tls::control_block() + VECTOR) as *mut *mut Entry
}

fn vector() -> *mut Entry {
    // SAFETY: a word of this thread's control block.
    unsafe { place().read() }
}

/// Replaces ld.so's vector by a long one.
///
/// Returns false if the vector's format is unknown: its entries must agree with dl_iterate_phdr(3)
/// for these modules.
pub fn lengthen(modules: &[Module]) -> bool {
    let old = vector();
    // SAFETY: ld.so's vector, whose length is stored before it. The new vector is never freed, and
    // moved only if it overflows.
    unsafe {
        let length = old.sub(1).read().block as usize;
        let fits = |module: &&Module| (module.tls_module as usize) <= length;
        let with_block = || {
            modules
                .iter()
                .filter(|module| module.tls_module != 0 && module.tls_block != 0)
        };
        let agrees =
            |module: &Module| old.add(module.tls_module as usize).read().block == module.tls_block;
        if length >= LENGTH
            || with_block().next().is_none()
            || !with_block().filter(fits).all(agrees)
        {
            return false;
        }
        let new = Box::leak(vec![Entry::default(); LENGTH + 2].into_boxed_slice()).as_mut_ptr();
        new.copy_from_nonoverlapping(old.sub(1), length + 2);
        new.write(Entry {
            block: LENGTH as u64,
            allocated: 0,
        });
        place().write(new.add(1));
    }
    true
}

/// Returns the vector's entries from entry 0 on.
pub fn entries() -> Vec<Entry> {
    // SAFETY: the vector of `lengthen`, or a longer one.
    unsafe { std::slice::from_raw_parts(vector(), LENGTH + 1) }.to_vec()
}

/// Restores all entries except those of the modules `but`.
pub fn put_back(saved: &[Entry], but: &[Module]) {
    for (number, &entry) in saved.iter().enumerate() {
        if !but
            .iter()
            .any(|module| number != 0 && module.tls_module == number as u64)
        {
            // SAFETY: an entry within the vector of `lengthen`.
            unsafe { vector().add(number).write(entry) };
        }
    }
}
