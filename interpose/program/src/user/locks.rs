//! Locks of the program that record their owner.
//!
//! glibc records the number of the owner (gettid(2)) in recursive, error-checking, robust and
//! priority-inheriting mutexes, and in read-write locks that are held for writing, and compares it
//! with the caller's number. Threads have other numbers in a replacement, where unlocking would
//! therefore fail, or unlock as a reader. So after an image is loaded, its memory is searched for
//! such locks, and the numbers in them are replaced. The changed pages count as modified by the
//! program. A rollback before the next checkpoint restores the old numbers, and leads to another
//! search.
//!
//! A word that equals the number of a thread may be other data of the program. So all words of the
//! lock must have values that are possible with the program's number of threads. The layouts are
//! glibc's from 2.25 on, x86-64 (`struct_mutex.h`, `struct_rwlock.h`; pthread_mutex_lock.c and
//! pthread_rwlock_common.c).
#![allow(unsafe_code)]

use super::lock_words::{INHERIT, ROBUST, halves, is_mutex_of_owner, is_written_lock, join};
use super::thread_number::{ThreadNumber, ThreadNumberChange};
use understudy_image::layout::{Area, Backing, Layout};
use understudy_image::pages::{self, AddrRange, PageRun};

/// Number of words that are compared at once, before a match is examined.
const CHUNK_WORDS: usize = 512;

/// Range of the numbers of threads that may hold locks.
///
/// Used while memory is loaded, before it is known which numbers have changed.
#[derive(Clone, Copy, Debug)]
pub struct LockOwners {
    min: u32,
    max: u32,
}

impl LockOwners {
    pub fn new(numbers: impl Iterator<Item = ThreadNumber>) -> LockOwners {
        let none = LockOwners {
            min: u32::MAX,
            max: 0,
        };
        numbers.fold(none, |all, ThreadNumber(number)| LockOwners {
            min: all.min.min(number),
            max: all.max.max(number),
        })
    }

    /// True if a page may contain the word of a lock with its owner.
    ///
    /// The loop has no branch, so that the compiler can vectorise it.
    pub fn may_be_in(&self, page: &[u8]) -> bool {
        let LockOwners {
            min: least,
            max: most,
        } = *self;
        let (words, _) = page.as_chunks();
        let words = words.iter().map(|&word| u32::from_ne_bytes(word));
        words.fold(false, |any, word| {
            any | (word.wrapping_sub(least) <= most.wrapping_sub(least))
        })
    }
}

/// Finds the held locks among `words` (aligned memory) whose owner's number has changed.
///
/// The word with the owner must be one of the first `length`. Returns the indices of these words,
/// and the new numbers.
fn find_owners(
    words: &[u64],
    length: usize,
    changed: &[ThreadNumberChange],
    users: u32,
) -> Vec<(usize, ThreadNumber)> {
    /// Number of words of a mutex before the owner's word.
    const MUTEX_PREFIX: usize = 1;
    /// Number of words of a read-write lock before the owner's word.
    const WRITE_LOCK_PREFIX: usize = 3;
    let old = || changed.iter().map(|(old, _)| old.0);
    let (Some(least), Some(most)) = (old().min(), old().max()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for start in (0..length).step_by(CHUNK_WORDS) {
        let chunk = start..(start + CHUNK_WORDS).min(length);
        // Compares all words of the chunk without a branch, for vectorisation. In a lock the upper
        // half of the owner's word is small.
        let hits = |word: u64| {
            (word as u32).wrapping_sub(least) <= most - least && word >> 32 <= u64::from(users)
        };
        if !words[chunk.clone()]
            .iter()
            .fold(false, |any, &word| any | hits(word))
        {
            continue;
        }
        for at in chunk.filter(|&at| hits(words[at])) {
            let Some(&(old, new)) = changed.iter().find(|(old, _)| old.0 == words[at] as u32)
            else {
                continue;
            };
            let from = |before: usize| {
                at.checked_sub(before)
                    .map_or(&[][..], |first| &words[first..])
            };
            if is_mutex_of_owner(from(MUTEX_PREFIX), old.0, users)
                || is_written_lock(from(WRITE_LOCK_PREFIX), old.0, users)
            {
                found.push((at, new));
            }
        }
    }
    found
}

/// Sets the owner of a lock.
///
/// # Safety
/// `words` must be three words of a lock that [`find_owners`] has found: the word before the
/// owner's, the owner's word, and the word after it.
unsafe fn set_owner(words: *mut [u64; 3], new: ThreadNumber) {
    // SAFETY: the caller guarantees that the three words are those of a lock, and the program's
    // threads, which may use the lock, are stopped.
    let [before, owner, behind] = unsafe { &mut *words };
    *owner = join(new.0, halves(*owner).1);
    // The lock word of robust and priority-inheriting mutexes also contains the number, and above
    // it two bits of the kernel, which are kept. (In a read-write lock the word after the owner's
    // is zero, so no other word changes.)
    let (lock, count) = halves(*before);
    if halves(*behind).0 & (ROBUST | INHERIT) != 0 {
        *before = join(lock & !libc::FUTEX_TID_MASK | new.0, count);
    }
}

/// Size of the largest lock that is searched for, in bytes.
const MAX_LOCK_BYTES: u64 = 56;

/// Returns the ranges in which the program may hold locks, each with its readable end.
///
/// The ranges are the writable part of the loaded pages, and the thread-local storage. Words
/// between the range and its readable end may be examined as well: a lock may end in a page that
/// was never written, or in another area.
fn searched_ranges(
    layout: &Layout,
    pages: &[PageRun],
    thread_locals: &[AddrRange],
) -> Vec<(AddrRange, u64)> {
    let writable = || {
        layout
            .areas()
            .iter()
            .filter(|area| area.prot.read && area.prot.write)
    };
    // A file may be shorter than its mapping.
    let is_file = |area: &Area| matches!(area.backing, Backing::SharedFile { .. });
    let is_mapped =
        |address: u64| writable().any(|area| area.range.contains(address) && !is_file(area));
    let with_rest = |range: AddrRange| match is_mapped(range.end) {
        true => (range, range.end + MAX_LOCK_BYTES),
        false => (range, range.end),
    };
    let loaded = writable().flat_map(|area| pages::within(pages, area.pages()));
    let loaded = loaded.map(PageRun::range).map(with_rest);
    let aligned = thread_locals
        .iter()
        .map(|range| AddrRange::new(range.start.next_multiple_of(8), range.end & !7))
        .filter(|range| range.start < range.end);
    loaded
        .chain(aligned.map(|range| (range, range.end)))
        .collect()
}

/// Replaces the owners' numbers in locks of the loaded memory, where they have changed.
///
/// `changed` contains all threads, including those with unchanged numbers, and `pages` (sorted) all
/// pages that may contain locks that these threads hold.
pub fn renumber_owners(
    changed: &[ThreadNumberChange],
    layout: &Layout,
    pages: &[PageRun],
    thread_locals: &[AddrRange],
) {
    let users = changed.len() as u32;
    let changed: Vec<ThreadNumberChange> = changed
        .iter()
        .copied()
        .filter(|(old, new)| old != new)
        .collect();
    if changed.is_empty() {
        return;
    }
    let mut found = Vec::new();
    for (range, end) in searched_ranges(layout, pages, thread_locals) {
        let length = (end - range.start) as usize / 8;
        // SAFETY: readable and writable memory of the program side, which is stopped; aligned to
        // words.
        let words = unsafe { std::slice::from_raw_parts(range.start as *const u64, length) };
        let owners = find_owners(words, range.len() as usize / 8, &changed, users);
        found.extend(
            owners
                .into_iter()
                .map(|(at, new)| (range.start + 8 * at as u64, new)),
        );
    }
    for (address, new) in found {
        // SAFETY: words of a lock that `find_owners` has found.
        unsafe { set_owner((address as *mut u64).sub(1).cast(), new) };
        log::debug!("the lock whose owner is at {address:#x} has passed to another thread");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;

    const ELSEWHERE: ThreadNumber = ThreadNumber(4_000_001);
    const WORDS: usize = 3 * CHUNK_WORDS;

    /// Memory with a lock in the middle.
    struct Memory(Box<[u64; WORDS]>);

    fn replace_owner(words: &mut [u64], old: ThreadNumber, new: ThreadNumber) -> Vec<usize> {
        let found = find_owners(words, words.len(), &[(old, new)], 1);
        for &(at, new) in &found {
            // SAFETY: `find_owners` has just found the lock in these words.
            unsafe { set_owner(words.as_mut_ptr().add(at - 1).cast(), new) };
        }
        found.into_iter().map(|(at, _)| at).collect()
    }

    impl Memory {
        fn new() -> Self {
            Self(Box::new([0; WORDS]))
        }

        /// Returns the address of the lock, which crosses the border of two chunks.
        fn lock<T>(&mut self) -> *mut T {
            (&raw mut self.0[CHUNK_WORDS - 1]).cast()
        }

        fn pass(&mut self) -> usize {
            replace_owner(&mut self.0[..], ThreadNumber::own(), ELSEWHERE).len()
        }
    }

    /// Creates a held mutex of this type, robustness and protocol.
    fn mutex(
        memory: &mut Memory,
        kind: i32,
        robust: i32,
        protocol: i32,
    ) -> *mut libc::pthread_mutex_t {
        let lock = memory.lock();
        let mut attributes = MaybeUninit::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: a mutex and attributes in memory of the test.
        unsafe {
            libc::pthread_mutexattr_init(attributes);
            libc::pthread_mutexattr_settype(attributes, kind);
            libc::pthread_mutexattr_setrobust(attributes, robust);
            libc::pthread_mutexattr_setprotocol(attributes, protocol);
            libc::pthread_mutex_init(lock, attributes);
            assert_eq!(libc::pthread_mutex_lock(lock), 0);
        }
        lock
    }

    /// Lists types, robustness and protocols of mutexes that compare owner and caller.
    fn comparing() -> impl Iterator<Item = (i32, i32, i32)> {
        use libc::{PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE};
        let types = [
            PTHREAD_MUTEX_NORMAL,
            PTHREAD_MUTEX_RECURSIVE,
            PTHREAD_MUTEX_ERRORCHECK,
        ];
        let robustness = [libc::PTHREAD_MUTEX_STALLED, libc::PTHREAD_MUTEX_ROBUST];
        let protocols = [libc::PTHREAD_PRIO_NONE, libc::PTHREAD_PRIO_INHERIT];
        let all = types.into_iter().flat_map(move |kind| {
            robustness.into_iter().flat_map(move |robust| {
                protocols
                    .into_iter()
                    .map(move |protocol| (kind, robust, protocol))
            })
        });
        all.filter(|&(kind, robust, protocol)| {
            kind != PTHREAD_MUTEX_NORMAL || robust + protocol > 0
        })
    }

    #[test]
    fn locked_mutexes_pass_to_another_thread_and_back() {
        for (kind, robust, protocol) in comparing() {
            let mut memory = Memory::new();
            let lock = mutex(&mut memory, kind, robust, protocol);
            let before = memory.0.clone();
            assert_eq!(memory.pass(), 1, "{kind} {robust} {protocol}");
            // SAFETY: the mutex created above.
            assert_eq!(unsafe { libc::pthread_mutex_unlock(lock) }, libc::EPERM);
            assert_eq!(
                replace_owner(&mut memory.0[..], ELSEWHERE, ThreadNumber::own()).len(),
                1
            );
            assert!(memory.0 == before, "{kind} {robust} {protocol}");
            // SAFETY: the mutex was created above, and this thread is its owner again.
            assert_eq!(unsafe { libc::pthread_mutex_unlock(lock) }, 0);
            assert_eq!(
                memory.pass(),
                0,
                "an unlocked one: {kind} {robust} {protocol}"
            );
        }
    }

    #[test]
    fn a_write_lock_passes_and_a_read_lock_does_not() {
        let mut memory = Memory::new();
        let lock: *mut libc::pthread_rwlock_t = memory.lock();
        // SAFETY: a lock in memory of the test; all zeros, like its initialiser.
        unsafe {
            for _ in 0..2 {
                assert_eq!(libc::pthread_rwlock_rdlock(lock), 0);
                assert_eq!(memory.pass(), 0);
                assert_eq!(libc::pthread_rwlock_unlock(lock), 0);
                assert_eq!(libc::pthread_rwlock_wrlock(lock), 0);
                assert_eq!(memory.pass(), 1);
                assert_eq!(
                    replace_owner(&mut memory.0[..], ELSEWHERE, ThreadNumber::own()).len(),
                    1
                );
                assert_eq!(libc::pthread_rwlock_wrlock(lock), libc::EDEADLK);
                assert_eq!(libc::pthread_rwlock_unlock(lock), 0);
                assert_eq!(memory.pass(), 0);
            }
        }
    }

    /// The page with the owner's word of a held lock is reported.
    ///
    /// Pages of zeros are not reported.
    #[test]
    fn an_owner_is_seen_in_its_page_whatever_the_lock() {
        let owners = LockOwners::new(
            [
                ThreadNumber(7),
                ThreadNumber::own(),
                ThreadNumber(ThreadNumber::own().0 + 1),
            ]
            .into_iter(),
        );
        let seen = |memory: &Memory| {
            let bytes: Vec<u8> = memory
                .0
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            bytes
                .chunks(8 * CHUNK_WORDS)
                .map(|page| owners.may_be_in(page))
                .collect::<Vec<_>>()
        };
        for (kind, robust, protocol) in comparing() {
            let mut memory = Memory::new();
            assert_eq!(seen(&memory), [false; 3]);
            mutex(&mut memory, kind, robust, protocol);
            assert!(seen(&memory)[1], "{kind} {robust} {protocol}");
        }
        let mut memory = Memory::new();
        // SAFETY: the lock is in memory of the test, and its words are zero, like its initialiser.
        assert_eq!(unsafe { libc::pthread_rwlock_wrlock(memory.lock()) }, 0);
        assert_eq!(seen(&memory), [false, true, false]);
    }

    #[test]
    fn a_mutex_that_does_not_compare_stays_as_it_is() {
        let (stalled, plain) = (libc::PTHREAD_MUTEX_STALLED, libc::PTHREAD_PRIO_NONE);
        let mut memory = Memory::new();
        mutex(&mut memory, libc::PTHREAD_MUTEX_NORMAL, stalled, plain);
        assert_eq!(memory.pass(), 0);
    }

    /// Owner numbers in words that are other data of the program stay unchanged.
    ///
    /// The test includes words that differ in one bit from a held lock.
    #[test]
    fn data_stay_as_they_are() {
        let own = ThreadNumber::own().0;
        for word in [join(own, 0), join(own, 1), join(1, own), join(own, own)] {
            let mut memory = Memory(Box::new([word; WORDS]));
            assert_eq!(memory.pass(), 0);
        }
        let (robust, stalled) = (libc::PTHREAD_MUTEX_ROBUST, libc::PTHREAD_MUTEX_STALLED);
        for robustness in [robust, stalled] {
            let mut memory = Memory::new();
            let kind = libc::PTHREAD_MUTEX_ERRORCHECK;
            let lock = mutex(&mut memory, kind, robustness, libc::PTHREAD_PRIO_NONE);
            let held = memory.0.clone();
            // SAFETY: the mutex created above; unlocking removes it from the list of robust
            // mutexes.
            assert_eq!(unsafe { libc::pthread_mutex_unlock(lock) }, 0);
            // Lock word and type have several valid values; their other bits are fixed.
            let fixed: [u64; 3] = [!0 << 33, !0, !0 << 10];
            let links = if robustness == stalled { !0 } else { 0 };

            for (word, bits) in fixed.into_iter().chain([links; 2]).enumerate() {
                for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
                    let mut data = Memory(held.clone());
                    data.0[CHUNK_WORDS - 1 + word] ^= 1 << bit;
                    let before = data.0.clone();
                    assert_eq!(data.pass(), 0, "word {word}, bit {bit}");
                    assert!(data.0 == before);
                }
            }
        }
    }

    /// The owner's number equals the lock word; only the owner's word is replaced.
    #[test]
    fn a_small_number_is_not_taken_for_a_lock() {
        let recursive = |owner| [join(2, 1), join(owner, 1), join(1, 0), 0, 0];
        let mut words = recursive(2);
        assert_eq!(
            replace_owner(&mut words, ThreadNumber(2), ThreadNumber(9)),
            [1]
        );
        assert_eq!(words, recursive(9));
    }

    /// Words after `length` are examined, but an owner in these words is not reported.
    #[test]
    fn a_lock_over_the_end_is_found_once() {
        let mut memory = Memory::new();
        let lock = mutex(&mut memory, libc::PTHREAD_MUTEX_RECURSIVE, 0, 0);
        let changed = [(ThreadNumber::own(), ELSEWHERE)];
        let found = |length| find_owners(&memory.0[..], length, &changed, 1).len();
        assert_eq!(
            [CHUNK_WORDS, CHUNK_WORDS + 1, CHUNK_WORDS + 2].map(found),
            [0, 1, 1]
        );
        // SAFETY: the mutex created above.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(lock) }, 0);
    }

    /// A lock that extends over the border of the memory is not found.
    #[test]
    fn a_lock_at_the_border_is_none() {
        let mut memory = Memory::new();
        let lock = mutex(&mut memory, libc::PTHREAD_MUTEX_RECURSIVE, 0, 0);
        for (range, expected) in [
            (CHUNK_WORDS - 1..CHUNK_WORDS + 4, 1),
            (CHUNK_WORDS..WORDS, 0),
            (0..CHUNK_WORDS + 3, 0),
        ] {
            let mut words = memory.0[range].to_vec();
            let found = replace_owner(&mut words, ThreadNumber::own(), ELSEWHERE);
            assert_eq!(found.len(), expected);
        }
        // SAFETY: the mutex created above.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(lock) }, 0);
    }
}
