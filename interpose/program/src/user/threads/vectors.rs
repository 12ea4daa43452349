//! What threads know of the libraries with thread-local data.
//!
//! Each thread has a vector of its blocks, with a *generation*: libraries that were opened after it
//! are news to the thread, for which ld.so brings the vector up to date, and forgets the blocks of
//! others that have the same numbers. Vectors are in the image, ld.so's table with the generations
//! of the libraries is not: in another process they may have been opened in other generations. The
//! form of the table is what libc tells debuggers (nptl_db/structs.def).
#![allow(unsafe_code)]

use crate::user::loader;
use crate::{sys, told};
use understudy_abi::{LD_HEAP_SIZE, USER_LD_HEAP};

/// The second word of the control block.
const VECTOR: u64 = 8;

/// A library of the program by its number, and the generation in which it was opened.
pub type Generation = (u64, u64);

/// # Safety
/// As of reading a word there.
unsafe fn word(at: u64) -> u64 {
    // SAFETY: guaranteed by the caller.
    unsafe { (at as *const u64).read() }
}

/// The generations of the program's libraries; `None`: this libc does not tell.
pub fn generations() -> Option<Vec<Generation>> {
    let size = sys::debuggers_size(c"_thread_db_sizeof_dtv_slotinfo")?;
    let global = told::user_symbol("_rtld_global");
    if global == 0 {
        return None;
    }
    let offset = sys::debuggers_offset;
    let first = global + offset(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?;
    let [length, next] = [
        c"_thread_db_dtv_slotinfo_list_len",
        c"_thread_db_dtv_slotinfo_list_next",
    ]
    .map(offset);
    let (length, next) = (length?, next?);
    let entries = offset(c"_thread_db_dtv_slotinfo_list_slotinfo")?;
    let generation = offset(c"_thread_db_dtv_slotinfo_gen")?;
    // SAFETY: ld.so's lists of pieces of its table, which do not change: all threads stand still.
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

/// The generation that a thread knows. `None`: its vector would not be in the image.
pub fn known_by(block: u64) -> Option<u64> {
    let heap = USER_LD_HEAP as u64..(USER_LD_HEAP + LD_HEAP_SIZE) as u64;
    // SAFETY: the control block of a thread of the program; entry 0 of its vector is the
    // generation.
    let vector = unsafe { word(block + VECTOR) };
    // SAFETY: as above.
    (!heap.contains(&vector)).then(|| unsafe { word(vector) })
}

/// The generation that a thread is to know here which knew `known` where libraries were opened in
/// the generations `then`.
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

/// Tells a thread the same of the libraries as it knew; false: that cannot be.
///
/// # Safety
/// `block` must be the control block of a thread that stands still.
pub unsafe fn tell(block: u64, known: u64, then: &[Generation], now: &[Generation]) -> bool {
    let Some(generation) = translate(known, then, now) else {
        return false;
    };
    if generation != known {
        // SAFETY: as in `known_by`.
        unsafe { (word(block + VECTOR) as *mut u64).write(generation) };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn a_thread_knows_the_same_libraries() {
        let then = [(1, 1), (2, 1), (5, 3), (6, 4)];
        assert_eq!(translate(3, &then, &then), Some(3));
        // The same order, later.
        let later = [(1, 1), (2, 1), (5, 7), (6, 9)];
        assert_eq!(translate(3, &then, &later), Some(7));
        assert_eq!(translate(1, &then, &later), Some(1));
        assert_eq!(translate(4, &then, &later), Some(9));
        // What it knew is known where it is, though the number is smaller.
        assert_eq!(translate(9, &[(1, 1)], &[(1, 1)]), Some(9));
        // Another order, or a library that is not there.
        assert_eq!(translate(3, &then, &[(1, 1), (2, 1), (5, 9), (6, 7)]), None);
        assert_eq!(translate(3, &then, &[(1, 1), (2, 1), (5, 3)]), None);
    }
}
