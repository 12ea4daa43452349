//! Generations of libraries with thread-local data, as recorded by threads.
//!
//! ld.so increases its *generation* whenever libraries are opened or closed. Its table contains the
//! generation in which each library was opened. Each thread has a vector of its thread-local blocks
//! and the generation up to which this vector is valid. If a library has a later generation, ld.so
//! updates the vector at the next access, and discards blocks of closed libraries whose numbers
//! have been reused.
//!
//! The vectors are in the image, but the table is not. In a replacement the libraries may have
//! other generations. So each vector gets a generation that divides the libraries into the two
//! groups of the cut: libraries that the vector includes, and later ones. Example: at the cut the
//! libraries had the generations 3 and 7, and the vector 5. If the libraries have the generations
//! 2 and 4 now, the vector gets 2.
//!
//! libc exports the format of the table for debuggers (nptl_db/structs.def).
#![allow(unsafe_code)]

use crate::user::loader;
use crate::{process_info, system_calls};
use understudy_abi::{LD_HEAP_SIZE, PROGRAM_LD_HEAP};

/// Offset of the second word of the control block.
const VECTOR: u64 = 8;

/// Number of a library of the program, and the generation in which it was opened.
pub type Generation = (u64, u64);

/// Reads a word.
///
/// # Safety
/// The word must be readable.
unsafe fn word(at: u64) -> u64 {
    // SAFETY: the caller guarantees that the word is readable.
    unsafe { (at as *const u64).read() }
}

/// Returns the generations of the program's libraries; `None` if libc does not export the format.
pub fn generations() -> Option<Vec<Generation>> {
    let size = system_calls::thread_db_size(c"_thread_db_sizeof_dtv_slotinfo")?;
    let global = process_info::user_symbol("_rtld_global");
    if global == 0 {
        return None;
    }
    let offset = system_calls::thread_db_offset;
    let first = global + offset(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?;
    let [length, next] = [
        c"_thread_db_dtv_slotinfo_list_len",
        c"_thread_db_dtv_slotinfo_list_next",
    ]
    .map(offset);
    let (length, next) = (length?, next?);
    let entries = offset(c"_thread_db_dtv_slotinfo_list_slotinfo")?;
    let generation = offset(c"_thread_db_dtv_slotinfo_gen")?;
    // SAFETY: ld.so's table is a list of arrays, which does not change, because all threads are
    // stopped.
    unsafe {
        let (mut all, mut node) = (Vec::new(), word(first));
        while node != 0 {
            all.extend(
                (0..word(node + length))
                    .map(|index| word(node + entries + index * size + generation)),
            );
            node = word(node + next);
        }
        let numbers = loader::libraries()
            .into_iter()
            .map(|library| library.tls_module)
            .filter(|&number| number != 0);
        numbers
            .map(|number| Some((number, *all.get(number as usize)?)))
            .collect()
    }
}

/// Returns the generation of a thread's vector.
///
/// `None` if the vector would not be in the image.
pub fn generation_of(block: u64) -> Option<u64> {
    let heap = PROGRAM_LD_HEAP as u64..(PROGRAM_LD_HEAP + LD_HEAP_SIZE) as u64;
    // SAFETY: `block` is the control block of a thread of the program, whose second word points to
    // the thread's vector.
    let vector = unsafe { word(block + VECTOR) };
    // SAFETY: the vector is mapped; its entry 0 is the generation.
    (!heap.contains(&vector)).then(|| unsafe { word(vector) })
}

/// Returns the generation for a thread's vector in this process.
///
/// At the cut the vector had the generation `saved`, and the libraries had the generations in
/// `libraries`. In this process the libraries have the generations in `now`. `None` if no
/// generation divides the libraries into the two groups of the cut.
fn translate(saved: u64, libraries: &[Generation], now: &[Generation]) -> Option<u64> {
    let current = |number: u64| {
        now.iter()
            .find(|(other, _)| *other == number)
            .map(|(_, generation)| *generation)
    };
    let (mut least, mut limit) = (0, u64::MAX);
    for &(number, generation) in libraries {
        let current = current(number)?;
        if generation <= saved {
            least = least.max(current);
        } else {
            limit = limit.min(current);
        }
    }
    if least <= saved && saved < limit {
        return Some(saved);
    }
    (least < limit).then_some(least)
}

/// Sets the generation of a thread's vector, translated from `saved`, its generation at the cut.
///
/// Returns false if there is no suitable generation.
///
/// # Safety
/// `block` must be the control block of a stopped thread.
pub unsafe fn set_generation(
    block: u64,
    saved: u64,
    libraries: &[Generation],
    now: &[Generation],
) -> bool {
    let Some(generation) = translate(saved, libraries, now) else {
        return false;
    };
    if generation != saved {
        // SAFETY: the caller guarantees that `block` is the control block of a stopped thread, so
        // its second word points to the vector, whose entry 0 no thread uses now.
        unsafe { (word(block + VECTOR) as *mut u64).write(generation) };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn a_restored_thread_has_the_same_libraries() {
        let then = [(1, 1), (2, 1), (5, 3), (6, 4)];
        assert_eq!(translate(3, &then, &then), Some(3));
        // The order is equal, and the generations are later.
        let later = [(1, 1), (2, 1), (5, 7), (6, 9)];
        assert_eq!(translate(3, &then, &later), Some(7));
        assert_eq!(translate(1, &then, &later), Some(1));
        assert_eq!(translate(4, &then, &later), Some(9));
        // The known libraries are covered in this process, although their generation is lower.
        assert_eq!(translate(9, &[(1, 1)], &[(1, 1)]), Some(9));
        // The order differs, or a library is missing.
        assert_eq!(translate(3, &then, &[(1, 1), (2, 1), (5, 9), (6, 7)]), None);
        assert_eq!(translate(3, &then, &[(1, 1), (2, 1), (5, 3)]), None);
    }
}
