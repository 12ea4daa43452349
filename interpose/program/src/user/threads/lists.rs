//! ld.so's lists of threads' stacks, which include threads of all namespaces, and its locks.
//!
//! The nodes are links in `struct pthread`, which is located in the thread's stack. The heads are
//! in ld.so's data, which does not roll back. So the program's nodes are removed before memory is
//! loaded, and afterwards inserted as they were at the cut. The order of fields is glibc's from
//! 2.34 on (sysdeps/generic/ldsodefs.h, `struct rtld_global`).
#![allow(unsafe_code)]

use crate::arch::raw::{self, word};
use crate::arch::turn;
use crate::user::loader;
use crate::user::thread_number::ThreadNumber;
use crate::{sys, told};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use understudy_abi::{ZONE_SHIFT, ZONE_TAG, control_block};
use understudy_mpi::exit_word::exit_word;

/// Number of lists.
///
/// The lists contain threads on stacks of ld.so, threads on stacks of their callers, and stacks for
/// reuse.
const LISTS: usize = 3;
const LIST: usize = 16;
/// Time limit for ld.so's lock while threads stop, one of which may hold it.
const STOPPING_TIMEOUT: Duration = Duration::from_millis(100);
const STILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Addresses and offsets that libc exports for debuggers (nptl_db/structs.def).
#[derive(Clone, Copy, Debug)]
pub struct Places {
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
pub struct Saved {
    nodes: [Vec<u64>; LISTS],
    cached: u64,
}

/// Thread of either side.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Address of the `struct pthread`.
    pub block: usize,
    /// Zero or less if the thread has ended.
    pub number: i32,
}

impl Listed {
    /// True for a thread of the runtime side.
    pub fn is_runtimes(&self) -> bool {
        self.block >> ZONE_SHIFT == ZONE_TAG
    }
}

/// Guard that holds the lock of the lists.
struct Lock<'a>(&'a AtomicU32);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            raw::wake(self.0);
        }
    }
}

impl Places {
    /// Locates the lists; `None` if this libc has another format.
    ///
    /// Also `None` if libc does not export the offsets.
    pub fn find() -> Option<Places> {
        let global = told::user_symbol("_rtld_global") as usize;
        let offset = |name| sys::debuggers_offset(name).map(|offset| offset as usize);
        let used = offset(c"_thread_db_rtld_global__dl_stack_used")?;
        let user = offset(c"_thread_db_rtld_global__dl_stack_user")?;
        let number = offset(c"_thread_db_pthread_tid")?;
        let size = sys::debuggers_size(c"_thread_db_sizeof_pthread")? as usize;
        let places = Places {
            heads: global + used,
            links: offset(c"_thread_db_pthread_list")?,
            number,
            exit_word: exit_word(number, size)?,
        };
        (global != 0 && user == used + LIST && places.is_known()).then_some(places)
    }

    /// True if the lists have the known format.
    ///
    /// The main thread must be in the second list, all lists must return to their heads, and no
    /// list operation may be in progress.
    fn is_known(&self) -> bool {
        let Some(_lock) = self.lock(STILL_TIMEOUT) else {
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

    /// # Safety
    /// The lock must be held.
    unsafe fn is_ring(&self, list: usize) -> bool {
        const MOST: usize = 1 << 16;
        let head = self.heads + list * LIST;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut at = head;
            for _ in 0..MOST {
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

    fn cached(&self) -> usize {
        self.heads + LISTS * LIST
    }

    fn in_flight(&self) -> usize {
        self.cached() + 8
    }

    fn lock_word(&self) -> &AtomicU32 {
        // SAFETY: ld.so's lock, a futex: 0 if free, 1 if held, 2 if held and waited for.
        unsafe { &*((self.in_flight() + 8) as *const AtomicU32) }
    }

    fn lock(&self, timeout: Duration) -> Option<Lock<'_>> {
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
        Some(Lock(word))
    }

    /// True if a thread holds a lock of ld.so or of its lists. All threads must be stopped.
    pub fn is_locked(&self) -> bool {
        // SAFETY: words of ld.so's data.
        let in_flight = unsafe { word(self.in_flight()).read_volatile() };
        in_flight != 0 || self.lock_word().load(Ordering::Relaxed) != 0 || loader::is_locked()
    }

    /// # Safety
    /// The lock must be held.
    unsafe fn nodes(&self, list: usize) -> Vec<usize> {
        let head = self.heads + list * LIST;
        let mut nodes = Vec::new();
        // SAFETY: guaranteed by the caller.
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
    pub fn threads(&self) -> Option<Vec<Listed>> {
        let _lock = self.lock(STOPPING_TIMEOUT)?;
        let own = turn::block();
        // SAFETY: the lock is held; a node is part of a thread's structure.
        let listed = unsafe { [self.nodes(0), self.nodes(1)].concat() };
        // SAFETY: as above.
        let listed = listed
            .iter()
            .map(|node| unsafe { self.thread(node - self.links) });
        Some(listed.filter(|thread| thread.block != own).collect())
    }

    /// # Safety
    /// `block` must be a thread's structure, and the lock must be held.
    unsafe fn thread(&self, block: usize) -> Listed {
        // SAFETY: words of the structure.
        let [number, exit_word] = [self.number, self.exit_word]
            .map(|offset| unsafe { ((block + offset) as *const i32).read_volatile() });
        Listed {
            block,
            number: if exit_word == 0 { 0 } else { number },
        }
    }

    /// Writes the calling thread's number to its `struct pthread`, and returns it.
    pub fn tell_number(&self, block: u64) -> ThreadNumber {
        let number = ThreadNumber::own();
        // SAFETY: a word of the structure.
        unsafe { ((block as usize + self.number) as *mut i32).write_volatile(number.get()) };
        number
    }

    fn is_programs(&self, node: usize) -> bool {
        let thread = Listed {
            block: node - self.links,
            number: 0,
        };
        !thread.is_runtimes() && thread.block != control_block::address()
    }

    /// # Safety
    /// All threads of the program must be stopped.
    pub unsafe fn save(&self) -> Option<Saved> {
        let _lock = self.lock(STILL_TIMEOUT)?;
        // SAFETY: the lock is held.
        unsafe {
            let programs = |list| {
                let nodes = self.nodes(list).into_iter();
                nodes
                    .filter(|&node| self.is_programs(node))
                    .map(|node| node as u64)
                    .collect()
            };
            Some(Saved {
                nodes: [0, 1, 2].map(programs),
                cached: word(self.cached()).read() as u64,
            })
        }
    }

    /// Replaces the program's nodes. The previous nodes are not read.
    ///
    /// # Safety
    /// All threads of the program must be stopped. The program's memory need not be restored before
    /// the nodes are inserted.
    pub unsafe fn replace(&self, saved: &Saved) -> bool {
        let Some(_lock) = self.lock(STILL_TIMEOUT) else {
            return false;
        };
        // SAFETY: the lock is held.
        unsafe {
            for (list, programs) in saved.nodes.iter().enumerate() {
                let head = self.heads + list * LIST;
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
