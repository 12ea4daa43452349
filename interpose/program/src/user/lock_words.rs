//! Recognition of glibc's locks by the values of their words (x86-64, glibc 2.25 and later).

/// Bit of a robust mutex's type. The lock word contains the owner's number.
pub const ROBUST: u32 = 16;
/// Bit of the type of a mutex with priority inheritance.
///
/// The lock word contains the owner's number.
pub const INHERIT: u32 = 32;

/// Returns the halves of a word, the half at the lower address first.
pub fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Returns the word with these halves.
pub fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

const TYPE: u32 = 3;
const RECURSIVE: u32 = 1;
const ERRORCHECK: u32 = 2;
const SHARED: u32 = 128;
/// Bit that results from a request for PTHREAD_MUTEX_NORMAL.
const NO_ELISION: u32 = 512;

/// True for a valid kind of mutex that compares its owner with the caller.
fn is_comparing(kind: u32) -> bool {
    kind & !(TYPE | ROBUST | INHERIT | SHARED | NO_ELISION) == 0
        && (kind & (ROBUST | INHERIT) != 0 || matches!(kind & TYPE, RECURSIVE | ERRORCHECK))
}

/// True if the words may be the first three words of a locked mutex.
///
/// Applies to mutexes that compare owner and caller.
pub fn is_comparing_mutex([first, _, third]: [u64; 3]) -> bool {
    halves(first).0 != 0 && is_comparing(halves(third).0)
}

/// True for the words of a mutex that `owner` holds.
///
/// Applies to mutexes that compare owner and caller. At most `users` threads may use the mutex.
pub fn is_mutex_of_owner(words: &[u64], owner: u32, users: u32) -> bool {
    let &[first, second, third, previous, next, ..] = words else {
        return false;
    };
    let (lock, count) = halves(first);
    let (kind, spins) = halves(third);
    let has = |bits| kind & bits != 0;
    let (held_by, used_by) = halves(second);
    if held_by != owner || !(1..=users).contains(&used_by) || !is_comparing(kind) || spins != 0 {
        return false;
    }
    let is_locked = if has(ROBUST | INHERIT) {
        lock & libc::FUTEX_TID_MASK == owner
    } else {
        lock == 1 || lock == 2
    };
    let is_counted = if kind & TYPE == RECURSIVE {
        count > 0
    } else {
        count <= 1
    };
    // Robust mutexes are members of a list that starts in the thread's control block. The lowest
    // bit of a link marks mutexes with priority inheritance.
    let is_link = |word: u64| word != 0 && word & 6 == 0 && word < 1 << 47;
    let is_listed = if has(ROBUST) {
        is_link(previous) && is_link(next)
    } else {
        previous == 0 && next == 0
    };
    is_locked && is_counted && is_listed
}

/// True for the words of a read-write lock that `owner` holds for writing.
///
/// At most `users` threads may use the lock.
pub fn is_written_lock(words: &[u64], owner: u32, users: u32) -> bool {
    // Bits for the writers' phase and for a writer that holds the lock. The higher bits count
    // waiting readers.
    const WRITE_LOCKED: u32 = 3;
    const READER: u32 = 8;
    /// True for a futex word of a held lock.
    ///
    /// The word is 1, plus 2 if a thread may have slept on it (PTHREAD_RWLOCK_FUTEX_USED).
    fn is_futex(word: u32) -> bool {
        word & !2 == 1
    }
    let &[
        counts,
        futexes,
        padding,
        held_by,
        elision,
        more_padding,
        flags,
        ..,
    ] = words
    else {
        return false;
    };
    let (readers, waiting) = halves(counts);
    let (phase, writers) = halves(futexes);
    let (writer, shared) = halves(held_by);
    let (preference, _) = halves(flags);
    readers % READER == WRITE_LOCKED
        && readers / READER < users
        && waiting < users
        && is_futex(phase)
        && is_futex(writers)
        && writer == owner
        && shared <= 1
        && padding | elision | more_padding == 0
        && preference <= 2
}
