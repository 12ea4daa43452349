//! Thread numbers in the state of threads that wait for a mutex.
//!
//! Mutexes of several types record the number of their owner (gettid(2)) and compare it with the
//! caller's. libc may read the caller's number, wait for the mutex, and then record the number: so
//! do pthread_mutex_timedlock(3) and robust mutexes in all versions of glibc, and
//! pthread_mutex_lock(3) from 2.43 on. A thread that was saved during this wait has another number
//! in a replacement, so libc's copy of the number must be replaced. The copy is in a callee-saved
//! register, or in libc's part of the stack, which ends at the first return address into another
//! library or the program.
#![allow(unsafe_code)]

use super::slot::{RAX, RDI, REGISTERS, RIP, RSP, SYSCALL};
use crate::arch::raw_syscall::word;
use crate::user::lock_words::is_comparing_mutex;
use crate::user::thread_number::ThreadNumber;

/// Maximum size in bytes of libc's stack while it waits for a mutex.
const LIBC_STACK: usize = 512;
/// Callee-saved registers.
const PRESERVED: [i32; 6] = [
    libc::REG_RBX,
    libc::REG_RBP,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Replaces copies of the thread's number that libc has read.
///
/// Such copies exist only in a thread that waits for a mutex which compares owner and caller.
///
/// # Safety
/// `frame` must be the kernel's frame of a stopped thread, and the thread's memory must be that of
/// the image.
pub unsafe fn renumber(frame: usize, old: ThreadNumber, new: ThreadNumber) {
    // SAFETY: the caller guarantees that `frame` is the kernel's frame of a stopped thread, and
    // that the thread's memory, which includes its stack, is that of the image.
    unsafe {
        if !awaits_mutex(frame) {
            return;
        }
        let [pc, stack] = [RIP, RSP].map(|register| word(frame + register).read());
        let end = end_of_callee(pc, stack).unwrap_or(stack);
        let copies: Vec<usize> = (stack..end)
            .step_by(4)
            .filter(|&at| (at as *const i32).read() == old.get())
            .collect();
        for &at in &copies {
            (at as *mut i32).write(new.get());
        }
        let registers = PRESERVED
            .map(|register| word(frame + REGISTERS + 8 * register as usize))
            .into_iter()
            .filter(|register| register.read() == old.get() as usize);
        if copies.is_empty() {
            registers.for_each(|register| register.write(new.get() as usize));
        }
    }
}

/// Returns the system call that a stopped thread will repeat, and its first argument.
///
/// # Safety
/// `frame` must be the kernel's frame of a stopped thread, and the thread's memory must be that of
/// the image.
pub unsafe fn pending_call<'a>(frame: usize) -> (libc::c_long, &'a mut usize) {
    // SAFETY: words of the frame, and the code before which the kernel has stopped the thread.
    unsafe {
        let [pc, call] = [RIP, RAX].map(|register| word(frame + register).read());
        let is_call = (pc as *const [u8; 2]).read_unaligned() == SYSCALL;
        let call = if is_call { call as libc::c_long } else { -1 };
        (call, &mut *word(frame + RDI))
    }
}

/// True if the thread waits by futex(2) for a mutex that compares owner and caller.
///
/// # Safety
/// `frame` must be the kernel's frame of a stopped thread, and the thread's memory must be that of
/// the image.
unsafe fn awaits_mutex(frame: usize) -> bool {
    // SAFETY: words of the frame, and the code before which the kernel has stopped the thread.
    unsafe {
        let [pc, call, address] = [RIP, RAX, RDI].map(|register| word(frame + register).read());
        let is_futex =
            call == libc::SYS_futex as usize && (pc as *const [u8; 2]).read_unaligned() == SYSCALL;
        is_futex && read(address).is_some_and(is_comparing_mutex)
    }
}

/// Returns the end of the stack of the library at `pc`.
///
/// The end is the first return address into another library.
///
/// # Safety
/// The stack must be readable for [`LIBC_STACK`] bytes.
unsafe fn end_of_callee(pc: usize, stack: usize) -> Option<usize> {
    let own = library_of(pc)?;
    // SAFETY: the caller guarantees that these words of the stack are readable.
    (stack..stack + LIBC_STACK).step_by(8).find(|&at| unsafe {
        let address = word(at).read();
        library_of(address).is_some_and(|library| library != own) && is_behind_call(address)
    })
}

/// Returns the start of the library or program that contains this address (dladdr(3)).
fn library_of(address: usize) -> Option<usize> {
    // SAFETY: a structure of numbers and pointers, which dladdr fills; dladdr searches all
    // namespaces.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address as *const _, &mut info) != 0).then_some(info.dli_fbase as usize)
    }
}

/// True if the instruction before the address is a call.
///
/// Calls are `e8` with 4 bytes, or `ff /2` with up to 5.
fn is_behind_call(address: usize) -> bool {
    let Some(before) = address.checked_sub(8).and_then(read) else {
        return false;
    };
    let bytes = before[0].to_le_bytes();
    let is_indirect = |length: usize| {
        let [opcode, operand] = [bytes[8 - length], bytes[9 - length]];
        opcode == 0xff && operand >> 3 & 7 == 2
    };
    bytes[3] == 0xe8 || (2..=7).any(is_indirect)
}

/// Reads three words; `None` if the memory is not mapped.
fn read(address: usize) -> Option<[u64; 3]> {
    let mut words = [0u64; 3];
    let length = size_of_val(&words);
    let own = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: length,
    };
    let theirs = libc::iovec {
        iov_base: address as *mut _,
        iov_len: length,
    };
    // SAFETY: process_vm_readv(2) of this process, which fails for unmapped memory.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &own, 1, &theirs, 1, 0) };
    (got == length as isize).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: ThreadNumber = ThreadNumber::new(4711);
    const NEW: ThreadNumber = ThreadNumber::new(815);
    const RECURSIVE: u64 = 1;
    const NORMAL: u64 = 0;

    /// Frame, the stack to which it leads, and a locked mutex.
    struct Waiter {
        frame: [usize; 64],
        stack: [usize; 128],
        mutex: [u64; 5],
    }

    /// Returns an address after a `syscall` in libc, and a return address in this program.
    fn addresses() -> (usize, usize) {
        let code = libc::syscall as *const () as usize;
        // SAFETY: the addresses lie in the code of libc, which is readable.
        let offset = (0..200).find(
            |&offset| unsafe { ((code + offset) as *const [u8; 2]).read_unaligned() } == SYSCALL,
        );
        (
            code + offset.expect("syscall(2) makes one"),
            return_address(),
        )
    }

    /// Returns the address of the instruction after the call of this function.
    #[unsafe(naked)]
    extern "C" fn return_address() -> usize {
        std::arch::naked_asm!("mov rax, [rsp]", "ret")
    }

    impl Waiter {
        fn new(kind: u64) -> Box<Waiter> {
            let mut waiter = Box::new(Waiter {
                frame: [0; 64],
                stack: [0; 128],
                mutex: [2, 77 | 1 << 32, kind, 0, 0],
            });
            let (syscall, caller) = addresses();
            let [stack, mutex] = [waiter.stack.as_ptr().addr(), waiter.mutex.as_ptr().addr()];
            waiter.stack[10] = caller;
            let frame = &mut waiter.frame;
            frame[RIP / 8] = syscall;
            frame[RAX / 8] = libc::SYS_futex as usize;
            frame[RDI / 8] = mutex;
            frame[RSP / 8] = stack;
            waiter
        }

        fn renumber(&mut self) {
            // SAFETY: a frame in the kernel's format, and memory to which it leads.
            unsafe { renumber(self.frame.as_ptr().addr(), OLD, NEW) }
        }

        fn preserved(&mut self) -> &mut usize {
            &mut self.frame[REGISTERS / 8 + libc::REG_RBP as usize]
        }
    }

    #[test]
    fn a_number_in_libcs_stack_is_replaced() {
        let mut waiter = Waiter::new(RECURSIVE);
        waiter.stack[4] = OLD.get() as usize | 0xdead << 32;
        waiter.stack[20] = OLD.get() as usize;
        *waiter.preserved() = OLD.get() as usize;
        waiter.renumber();
        assert_eq!(waiter.stack[4], NEW.get() as usize | 0xdead << 32);
        assert_eq!(waiter.stack[20], OLD.get() as usize, "the caller's");
        assert_eq!(*waiter.preserved(), OLD.get() as usize);
    }

    #[test]
    fn a_number_in_a_register_is_replaced() {
        let mut waiter = Waiter::new(RECURSIVE);
        *waiter.preserved() = OLD.get() as usize;
        waiter.renumber();
        assert_eq!(*waiter.preserved(), NEW.get() as usize);
    }

    #[test]
    fn a_thread_that_waits_for_another_lock_stays_as_it_is() {
        let mut waiter = Waiter::new(NORMAL);
        waiter.stack[4] = OLD.get() as usize;
        *waiter.preserved() = OLD.get() as usize;
        waiter.renumber();
        assert_eq!(waiter.stack[4], OLD.get() as usize);
        assert_eq!(*waiter.preserved(), OLD.get() as usize);
    }
}
