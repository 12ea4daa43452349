//! Generations of libraries with thread-local data, as recorded by threads.
//!
//! Each thread has a vector of its blocks, with a *generation*. If a library was opened in a later
//! generation, ld.so updates the thread's vector, and discards blocks of other libraries that had
//! equal numbers. Vectors are in the image, but ld.so's table with the generations of the libraries
//! is not: in another process the libraries may have been opened in other generations. libc exports
//! the format of the table for debuggers (nptl_db/structs.def).
#![allow(unsafe_code)]

use crate::user::loader;
use crate::{process_info, system_calls};
use understudy_abi::{LD_HEAP_SIZE, PROGRAM_LD_HEAP};

/// Offset of the second word of the control block.
const VECTOR: u64 = 8;

/// Number of a library of the program, and the generation in which it was opened.
pub type Generation = (u64, u64);

/// # Safety
/// The word must be readable.
unsafe fn word(at: u64) -> u64 {
    // SAFETY: guaranteed by the caller.
    unsafe { (at as *const u64).read() }
}

/// Returns the generations of the program's libraries; `None` if libc does not export the format.
pub fn generations() -> Option<Vec<Generation>> {
    let size = system_calls::debuggers_size(c"_thread_db_sizeof_dtv_slotinfo")?;
    let global = process_info::user_symbol("_rtld_global");
    if global == 0 {
        return None;
    }
    let offset = system_calls::debuggers_offset;
    let first = global + offset(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?;
    let [length, next] = [
        c"_thread_db_dtv_slotinfo_list_len",
        c"_thread_db_dtv_slotinfo_list_next",
    ]
    .map(offset);
    let (length, next) = (length?, next?);
    let entries = offset(c"_thread_db_dtv_slotinfo_list_slotinfo")?;
    let generation = offset(c"_thread_db_dtv_slotinfo_gen")?;
    // SAFETY: ld.so's list of parts of its table, which does not change, because all threads are
    // stopped.
    unsafe {
        let (mut all, mut piece) = (Vec::new(), word(first));
        while piece != 0 {
            all.extend(
                (0..word(piece + length))
                    .map(|index| word(piece + entries + index * size + generation)),
            );
            piece = word(piece + next);
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
    // SAFETY: the control block of a thread of the program. Entry 0 of its vector is the
    // generation.
    let vector = unsafe { word(block + VECTOR) };
    // SAFETY: as above.
    (!heap.contains(&vector)).then(|| unsafe { word(vector) })
}

/// Returns the generation for a thread in this process.
///
/// The thread had generation `known` in a process where libraries were opened in the generations
/// `then`.
fn translate(known: u64, then: &[Generation], now: &[Generation]) -> Option<u64> {
    let here = |number: u64| {
        now.iter()
            .find(|(other, _)| *other == number)
            .map(|(_, generation)| *generation)
    };
    let (mut least, mut limit) = (0, u64::MAX);
    for &(number, generation) in then {
        let here = here(number)?;
        if generation <= known {
            least = least.max(here);
        } else {
            limit = limit.min(here);
        }
    }
    if least <= known && known < limit {
        return Some(known);
    }
    (least < limit).then_some(least)
}

/// Sets a generation so that a thread's vector covers the libraries as before.
///
/// Returns false if no generation does.
///
/// # Safety
/// `block` must be the control block of a stopped thread.
pub unsafe fn set_generation(
    block: u64,
    known: u64,
    then: &[Generation],
    now: &[Generation],
) -> bool {
    let Some(generation) = translate(known, then, now) else {
        return false;
    };
    if generation != known {
        // SAFETY: as in `generation_of`.
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
