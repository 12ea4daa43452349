//! Threads of the MPI side, and their termination at any point.
//!
//! ld.so lists the stacks of the threads of all namespaces; stacks in the MPI side's half of the
//! reserved range belong to the library's threads. Offsets in `struct pthread` are those that libc
//! publishes for debuggers (glibc's nptl_db/structs.def).
#![allow(unsafe_code)]

use super::mpi_zone::is_mpi;
use super::side_error::ResetError;
use super::signals::{self, Action};
use crate::exit_word::exit_word;
use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use understudy_abi::assembly::return_from_signal;

/// SIGSETXID of glibc.
///
/// A thread cannot block this signal by libc's functions. The runtime uses the signal to stop
/// threads of the program, but sends it with rt_tgsigqueueinfo(2), not with tgkill(2).
const TERMINATION_SIGNAL: c_int = 33;
/// Time limit for the termination of all threads, and for each wait for ld.so's lock.
const DEADLINE: Duration = Duration::from_secs(2);

/// Offsets in `struct pthread`, and addresses of ld.so's lists.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Offset of the pointers to the blocks of values of pthread keys.
    pub specific: usize,
    /// Offset of the word with the state of cancellation.
    pub cancellation: usize,
    /// Offset of the links of the list of stacks.
    links: usize,
    /// Offset of the kernel's number of the thread.
    number: usize,
    /// Offset of the word that is zero when the thread has exited.
    exit_word: usize,
    /// Addresses of the two lists of stacks.
    ///
    /// libc has allocated the stacks of the first list. The creators of the threads have provided
    /// the stacks of the second list (pthread_attr_setstack(3)).
    lists: [usize; 2],
    /// Address of the lock of these lists.
    lock: usize,
}

/// Returns a symbol in the runtime's namespace; the libcs of all namespaces have equal layouts.
fn symbol(name: &CStr) -> Result<usize, ResetError> {
    // SAFETY: dlsym(3) with a C string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null())
        .then_some(address as usize)
        .ok_or(ResetError::UnknownThreads)
}

/// Returns the offset in a descriptor, which consists of size in bits, count, and offset.
fn offset(name: &CStr) -> Result<usize, ResetError> {
    // SAFETY: a descriptor of nptl_db, which has three 32-bit words.
    Ok(unsafe { (symbol(name)? as *const u32).add(2).read() } as usize)
}

impl Layout {
    /// Returns the layout that this libc publishes.
    pub fn get() -> Result<Layout, ResetError> {
        let global = symbol(c"_rtld_global")?;
        let used = global + offset(c"_thread_db_rtld_global__dl_stack_used")?;
        let user = global + offset(c"_thread_db_rtld_global__dl_stack_user")?;
        // glibc does not publish the lock's offset. The members of `struct rtld_global` up to the
        // lock are (glibc's sysdeps/generic/ldsodefs.h): lists used, user, cache; size of the
        // cache; stack in flight; lock. Of this order, only the first two members can be checked.
        const LIST: usize = 16;
        if user != used + LIST {
            return Err(ResetError::UnknownThreads);
        }
        let number = offset(c"_thread_db_pthread_tid")?;
        // SAFETY: nptl_db defines this symbol as a word of 32 bits: the size in bytes.
        let size = unsafe { (symbol(c"_thread_db_sizeof_pthread")? as *const u32).read() };
        Ok(Layout {
            specific: offset(c"_thread_db_pthread_specific")?,
            cancellation: offset(c"_thread_db_pthread_cancelhandling")?,
            links: offset(c"_thread_db_pthread_list")?,
            number,
            exit_word: exit_word(number, size as usize).ok_or(ResetError::UnknownThreads)?,
            lists: [used, user],
            lock: used + 3 * LIST + 2 * size_of::<usize>(),
        })
    }

    /// Returns the address of `struct pthread` of each thread of the MPI side.
    ///
    /// # Safety
    /// The lists must not change during the call.
    unsafe fn threads(&self) -> Vec<usize> {
        let mut threads = Vec::new();
        for list in self.lists {
            // SAFETY: a circular list of links: next, previous.
            unsafe {
                let mut link = (list as *const usize).read();
                while link != list {
                    let thread = link - self.links;
                    if is_mpi(thread) {
                        threads.push(thread);
                    }
                    link = (link as *const usize).read();
                }
            }
        }
        threads
    }

    /// Takes the lock of the lists, or breaks the lock at the deadline.
    fn lock(&self) -> Lock<'_> {
        // SAFETY: ld.so's lock, a futex (futex(2)): 0 free, 1 held, 2 held with waiters.
        let word = unsafe { &*(self.lock as *const AtomicU32) };
        let begin = Instant::now();
        while word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            if begin.elapsed() > DEADLINE {
                // Presumably a thread of the MPI side was terminated while it had the lock.
                break;
            }
            std::thread::yield_now();
        }
        Lock(word)
    }
}

/// Guard for the lock of the lists of stacks.
struct Lock<'a>(&'a AtomicU32);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            // SAFETY: futex(2) on a word of ld.so.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.0.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                )
            };
        }
    }
}

/// Terminates the calling thread by exit(2), if the signal was sent by tgkill(2).
///
/// Signals with other codes are intended for threads of the program.
#[unsafe(naked)]
unsafe extern "C" fn end_thread() {
    naked_asm!(
        "cmp dword ptr [rsi + 8], {tgkill}",
        "jne 2f",
        "xor edi, edi",
        "mov eax, 60",
        "syscall",
        "ud2",
        "2: ret",
        tgkill = const libc::SI_TKILL,
    )
}

/// rt_sigaction(2): the kernel requires a restorer on x86-64.
const SA_RESTORER: usize = 0x0400_0000;
const SA_SIGINFO: usize = 4;

/// Terminates all threads of the MPI side, and removes them from ld.so's lists.
///
/// # Safety
/// No other code may need anything that these threads own. The threads' stacks stay mapped.
pub unsafe fn end_all() -> Result<(), ResetError> {
    let layout = Layout::get()?;
    let termination: Action = [
        end_thread as *const () as usize,
        SA_RESTORER | SA_SIGINFO,
        return_from_signal as *const () as usize,
        0,
    ];
    let previous = signals::action(TERMINATION_SIGNAL, Some(&termination));
    // SAFETY: the caller guarantees that no other code needs anything that these threads own.
    let result = unsafe { layout.end_all() };
    signals::action(TERMINATION_SIGNAL, Some(&previous));
    result
}

impl Layout {
    /// Terminates the threads by the signal, whose handler must be installed.
    ///
    /// # Safety
    /// The requirements of the function [`end_all`] apply.
    unsafe fn end_all(&self) -> Result<(), ResetError> {
        let begin = Instant::now();
        loop {
            // A thread may be creating another one, so the lists are read until no thread is left.
            let threads = {
                let _lock = self.lock();
                // SAFETY: the lock is held, so ld.so does not change the lists.
                unsafe { self.threads() }
            };
            let mut alive = threads
                .into_iter()
                .map(|thread| self.number(thread))
                .filter(|&number| is_alive(number));
            let Some(first) = alive.next() else { break };
            for number in alive.chain([first]) {
                // SAFETY: tgkill(2) to a thread of this process.
                unsafe {
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), number, TERMINATION_SIGNAL)
                };
            }
            if begin.elapsed() > DEADLINE {
                return Err(ResetError::ThreadStays(first));
            }
            while is_alive(first) && begin.elapsed() <= DEADLINE {
                std::thread::yield_now();
            }
        }
        // SAFETY: all threads have exited.
        unsafe { self.remove_threads() }
    }

    /// Returns the kernel's number of the thread; zero if it has exited.
    fn number(&self, thread: usize) -> i32 {
        // SAFETY: words of the thread's structure, which stays mapped after the thread's exit.
        let [number, exit_word] = [self.number, self.exit_word].map(|offset| unsafe {
            (*((thread + offset) as *const AtomicI32)).load(Ordering::Relaxed)
        });
        if exit_word == 0 { 0 } else { number }
    }

    /// Removes the threads from the lists, and frees their thread-local data.
    ///
    /// # Safety
    /// All threads of the MPI side must have exited.
    unsafe fn remove_threads(&self) -> Result<(), ResetError> {
        type Deallocate = unsafe extern "C" fn(*mut c_void, bool);
        // SAFETY: ld.so's function has this type; libc calls the function for threads whose stacks
        // libc does not keep.
        let deallocate: Deallocate =
            unsafe { std::mem::transmute::<usize, Deallocate>(symbol(c"_dl_deallocate_tls")?) };
        let _lock = self.lock();
        // SAFETY: the lock is held, so ld.so does not change the lists, which are circular. The
        // threads have exited, so none uses its thread-local data.
        unsafe {
            for thread in self.threads() {
                let [next, previous] = ((thread + self.links) as *const [usize; 2]).read();
                (previous as *mut usize).write(next);
                (next as *mut usize).add(1).write(previous);
                deallocate(thread as *mut c_void, false);
            }
        }
        Ok(())
    }
}

fn is_alive(number: i32) -> bool {
    // SAFETY: tgkill(2) with signal 0.
    number > 0 && unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) == 0 }
}
