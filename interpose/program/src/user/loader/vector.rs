//! The main thread's vector of thread-local blocks (dynamic thread vector, DTV), which both sides
//! use.
//!
//! ld.so makes a block when a library's thread-local data are used for the first time, and enters
//! it under the library's number. A rollback must put the user side's entries back and leave those
//! of the runtime side alone. So that the vector never moves, it is replaced at the start by one
//! that is long enough for all libraries.
//!
//! Its form is ABI between ld.so and libc: the control block's second word points to entry 0, which
//! holds a generation; before it stands the length (Drepper, "ELF Handling For Thread-Local
//! Storage", 3; glibc's sysdeps/generic/dl-dtv.h).
#![allow(unsafe_code)]

use super::list::Module;
use crate::user::tls;

/// An entry; of entry 0 the first word is the generation, of the one before it the length.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub block: u64,
    /// What is to be freed; 0 for static thread-local storage.
    pub allocated: u64,
}

/// How many libraries may have thread-local data.
const LENGTH: usize = 4096;
/// The second word of the control block.
const VECTOR: u64 = 8;

fn place() -> *mut *mut Entry {
    (tls::control_block() + VECTOR) as *mut *mut Entry
}

fn vector() -> *mut Entry {
    // SAFETY: a word of this thread's control block.
    unsafe { place().read() }
}

/// Puts a long vector into the place of ld.so's own. False if that does not have the known form: it
/// must agree with what dl_iterate_phdr(3) says of these modules.
pub fn lengthen(modules: &[Module]) -> bool {
    let old = vector();
    // SAFETY: ld.so's vector, whose length stands before it; the new one is never freed, or moved
    // unless it overflows.
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

/// The vector's entries from 0 on.
pub fn entries() -> Vec<Entry> {
    // SAFETY: our vector, or a longer one.
    unsafe { std::slice::from_raw_parts(vector(), LENGTH + 1) }.to_vec()
}

/// Puts all entries back but these.
pub fn put_back(saved: &[Entry], but: &[Module]) {
    for (number, &entry) in saved.iter().enumerate() {
        if !but
            .iter()
            .any(|module| number != 0 && module.tls_module == number as u64)
        {
            // SAFETY: within our vector.
            unsafe { vector().add(number).write(entry) };
        }
    }
}
