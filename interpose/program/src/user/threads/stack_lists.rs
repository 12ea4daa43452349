//! ld.so's lists of threads' stacks, which include threads of all namespaces, and its locks.
//!
//! The lists are doubly linked. Their nodes are in `struct pthread`, in the thread's stack, and
//! roll back with the program's memory. Their heads are in ld.so's data, and the nodes of the
//! runtime side's threads are on the runtime side: neither rolls back. So the program's nodes are
//! removed before memory is loaded, and inserted afterwards as they were at the cut. The order of
//! fields is glibc's from 2.34 on (sysdeps/generic/ldsodefs.h, `struct rtld_global`).
#![allow(unsafe_code)]

use crate::arch::mpi_lock;
use crate::arch::raw_syscall::{self, word};
use crate::user::loader;
use crate::user::thread_number::ThreadNumber;
use crate::{process_info, system_calls};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use understudy_abi::{ZONE_SHIFT, ZONE_TAG, control_block};
use understudy_mpi::exit_word::exit_word;

/// Number of lists.
///
/// The lists contain threads on stacks that the C library has allocated, threads on other stacks
/// (the main thread's, and stacks that the program provides), and stacks for reuse.
const LISTS: usize = 3;
/// Size of a list's head: two pointers.
const HEAD_BYTES: usize = 16;
/// Time limit for ld.so's lock while threads stop.
///
/// A thread that has already stopped may hold the lock.
const STOPPING_TIMEOUT: Duration = Duration::from_millis(100);
const STOPPED_TIMEOUT: Duration = Duration::from_secs(10);

/// Addresses and offsets that libc exports for debuggers (nptl_db/structs.def).
#[derive(Clone, Copy, Debug)]
pub struct ListOffsets {
    /// Address of the first list's head.
    heads: usize,
    /// Offset of the links in `struct pthread`.
    links: usize,
    /// Offset of the thread's number in `struct pthread`.
    pub number: usize,
    /// Offset of the word in `struct pthread` that is zero after the thread has ended.
    pub exit_word: usize,
}

/// The program's nodes of each list, and the size of stacks for reuse.
///
/// The nodes are in the order of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct StackLists {
    nodes: [Vec<u64>; LISTS],
    cached: u64,
}

/// Thread of any side.
#[derive(Clone, Copy, Debug)]
pub struct ListedThread {
    /// Address of the `struct pthread`.
    pub block: usize,
    /// Zero or less if the thread has ended.
    pub number: i32,
}

impl ListedThread {
    /// True for a thread of the runtime side or the MPI side.
    pub fn is_runtimes(&self) -> bool {
        self.block >> ZONE_SHIFT == ZONE_TAG
    }
}

/// Guard that holds the lock of the lists.
struct ListLock<'a>(&'a AtomicU32);

impl Drop for ListLock<'_> {
    fn drop(&mut self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            raw_syscall::futex_wake(self.0);
        }
    }
}

impl ListOffsets {
    /// Locates the lists; `None` if this libc has another format.
    ///
    /// Also `None` if libc does not export the offsets.
    pub fn find() -> Option<ListOffsets> {
        let global = process_info::user_symbol("_rtld_global") as usize;
        let offset = |name| system_calls::thread_db_offset(name).map(|offset| offset as usize);
        let used = offset(c"_thread_db_rtld_global__dl_stack_used")?;
        let user = offset(c"_thread_db_rtld_global__dl_stack_user")?;
        let number = offset(c"_thread_db_pthread_tid")?;
        let size = system_calls::thread_db_size(c"_thread_db_sizeof_pthread")? as usize;
        let offsets = ListOffsets {
            heads: global + used,
            links: offset(c"_thread_db_pthread_list")?,
            number,
            exit_word: exit_word(number, size)?,
        };
        (global != 0 && user == used + HEAD_BYTES && offsets.has_supported_format())
            .then_some(offsets)
    }

    /// True if the lists have the known format.
    ///
    /// The main thread must be in the second list, all lists must return to their heads, and no
    /// list operation may be in progress.
    fn has_supported_format(&self) -> bool {
        let Some(_lock) = self.lock(STOPPED_TIMEOUT) else {
            return false;
        };
        let main = control_block::address() + self.links;
        // SAFETY: the lock is held.
        unsafe {
            (0..LISTS).all(|list| self.is_ring(list))
                && self.nodes(1).contains(&main)
                && word(self.in_flight()).read() == 0
        }
    }

    /// True if a list leads back to its head in both directions.
    ///
    /// # Safety
    /// The lock must be held.
    unsafe fn is_ring(&self, list: usize) -> bool {
        const MAX_NODES: usize = 1 << 16;
        let head = self.heads + list * HEAD_BYTES;
        // SAFETY: the caller holds the lock, so no thread changes the list.
        unsafe {
            let mut at = head;
            for _ in 0..MAX_NODES {
                let next = word(at).read();
                if next == 0 || word(next + 8).read() != at {
                    return false;
                }
                if next == head {
                    return true;
                }
                at = next;
            }
        }
        false
    }

    /// Returns the address of the total size of stacks for reuse.
    fn cached(&self) -> usize {
        self.heads + LISTS * HEAD_BYTES
    }

    /// Returns the address of the word that names a list operation in progress.
    fn in_flight(&self) -> usize {
        self.cached() + 8
    }

    fn lock_word(&self) -> &AtomicU32 {
        // SAFETY: ld.so's lock, a futex: 0 if free, 1 if held, 2 if held and waited for.
        unsafe { &*((self.in_flight() + 8) as *const AtomicU32) }
    }

    fn lock(&self, timeout: Duration) -> Option<ListLock<'_>> {
        let (word, begin) = (self.lock_word(), Instant::now());
        while word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            if begin.elapsed() > timeout {
                return None;
            }
            std::thread::yield_now();
        }
        Some(ListLock(word))
    }

    /// True if a thread holds a lock of ld.so or of its lists. All threads must be stopped.
    pub fn is_locked(&self) -> bool {
        // SAFETY: the word lies in ld.so's data, which is mapped.
        let in_flight = unsafe { word(self.in_flight()).read_volatile() };
        in_flight != 0 || self.lock_word().load(Ordering::Relaxed) != 0 || loader::is_locked()
    }

    /// Returns the nodes of a list.
    ///
    /// # Safety
    /// The lock must be held.
    unsafe fn nodes(&self, list: usize) -> Vec<usize> {
        let head = self.heads + list * HEAD_BYTES;
        let mut nodes = Vec::new();
        // SAFETY: the caller holds the lock, so no thread changes the list.
        unsafe {
            let mut at = word(head).read();
            while at != head {
                nodes.push(at);
                at = word(at).read();
            }
        }
        nodes
    }

    /// Lists all threads except the one that is in the runtime.
    ///
    /// `None` if the lock stays held.
    pub fn threads(&self) -> Option<Vec<ListedThread>> {
        let _lock = self.lock(STOPPING_TIMEOUT)?;
        let own = mpi_lock::current_block();
        // SAFETY: the lock is held, so no thread changes the lists.
        let listed = unsafe { [self.nodes(0), self.nodes(1)].concat() };
        // SAFETY: the lock is held, and each node lies at this offset in a thread's structure.
        let listed = listed
            .iter()
            .map(|node| unsafe { self.thread(node - self.links) });
        Some(listed.filter(|thread| thread.block != own).collect())
    }

    /// Reads a thread's number.
    ///
    /// # Safety
    /// `block` must be a thread's structure, and the lock must be held.
    unsafe fn thread(&self, block: usize) -> ListedThread {
        // SAFETY: the caller guarantees that `block` is a thread's structure, which has these
        // words.
        let [number, exit_word] = [self.number, self.exit_word]
            .map(|offset| unsafe { ((block + offset) as *const i32).read_volatile() });
        ListedThread {
            block,
            number: if exit_word == 0 { 0 } else { number },
        }
    }

    /// Writes the calling thread's number to its `struct pthread`, and returns it.
    pub fn write_number(&self, block: u64) -> ThreadNumber {
        let number = ThreadNumber::own();
        // SAFETY: `block` is the calling thread's structure, which has this word.
        unsafe { ((block as usize + self.number) as *mut i32).write_volatile(number.get()) };
        number
    }

    /// True for the node of a thread of the program other than the main thread.
    fn is_programs(&self, node: usize) -> bool {
        let thread = ListedThread {
            block: node - self.links,
            number: 0,
        };
        !thread.is_runtimes() && thread.block != control_block::address()
    }

    /// Returns the program's nodes; `None` if the lock stays held.
    ///
    /// # Safety
    /// All threads of the program must be stopped.
    pub unsafe fn save(&self) -> Option<StackLists> {
        let _lock = self.lock(STOPPED_TIMEOUT)?;
        // SAFETY: the lock is held, and the caller guarantees that the program's threads are
        // stopped.
        unsafe {
            let programs = |list| {
                let nodes = self.nodes(list).into_iter();
                nodes
                    .filter(|&node| self.is_programs(node))
                    .map(|node| node as u64)
                    .collect()
            };
            Some(StackLists {
                nodes: [0, 1, 2].map(programs),
                cached: word(self.cached()).read() as u64,
            })
        }
    }

    /// Replaces the program's nodes in the lists; returns false if the lock stays held.
    ///
    /// # Safety
    /// All threads of the program must be stopped. The nodes that are in the lists must be intact,
    /// because the lists are walked. The saved nodes must be mapped; their content is overwritten.
    pub unsafe fn replace(&self, saved: &StackLists) -> bool {
        let Some(_lock) = self.lock(STOPPED_TIMEOUT) else {
            return false;
        };
        // SAFETY: the lock is held, and the caller guarantees that the program's threads are
        // stopped. The saved nodes lie in the stacks of the program's threads.
        unsafe {
            for (list, programs) in saved.nodes.iter().enumerate() {
                let head = self.heads + list * HEAD_BYTES;
                let others = self
                    .nodes(list)
                    .into_iter()
                    .filter(|&node| !self.is_programs(node));
                let mut before = head;
                for node in programs
                    .iter()
                    .map(|&node| node as usize)
                    .chain(others)
                    .chain([head])
                {
                    word(before).write(node);
                    word(node + 8).write(before);
                    before = node;
                }
            }
            word(self.cached()).write(saved.cached as usize);
        }
        true
    }
}
