//! Slots of stopped threads: a stack in the reserved range, and words for synchronisation.
//!
//! ```text
//!   FREE ──► SENT ──► PARKED ──► FREE     the thread resumes from its frame, or from a loaded one
//!     (signal)  (handler)  (command)
//! ```
//!
//! Code on a slot's stack does not use libc. From `PARKED` to the command, the code does not use
//! memory of the program side: a rollback overwrites that memory while the thread is parked.
#![allow(unsafe_code)]

use super::call_number::{LOAD, MAX_CODE, loaded_number};
use crate::arch::mpi_lock;
use crate::arch::raw_syscall::{self, word};
use crate::process_info;
use std::arch::naked_asm;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use understudy_abi::control_block;
use understudy_image::PAGE_SIZE;

/// Maximum number of threads that can be stopped.
pub const MAX_THREADS: usize = 1024;
const STACK_BYTES: usize = 32 << 10;

/// State of a slot that no thread uses.
pub const FREE: u32 = 0;
/// State of a slot whose thread was sent the signal and has not parked yet.
pub const SENT: u32 = 1;
/// State of a slot whose thread waits for a command.
pub const PARKED: u32 = 2;

/// No command: the thread stays parked.
pub const STAY: u32 = 0;
/// Command to resume; no memory has been loaded.
pub const RESUME: u32 = 1;
/// Command to resume from the saved `frame`; memory has been loaded.
pub const RESUME_FROM_IMAGE: u32 = 2;
/// Command to exit.
pub const END: u32 = 3;

/// Thread, and its state while it is stopped.
#[repr(C)]
pub struct Slot {
    /// Highest address of the stack. Must be the first field, for the preload library's handler.
    stack: AtomicUsize,
    pub state: AtomicU32,
    pub command: AtomicU32,
    /// The kernel's number of the thread.
    pub number: AtomicI32,
    /// Non-zero from the decision to end the thread until the kernel has removed the thread.
    pub exists: AtomicU32,
    /// Number of the latest stop of this thread.
    pub round: AtomicU32,
    /// System call in which the thread was when the signal was sent.
    ///
    /// The words are number, program counter and stack pointer.
    pub call: [AtomicUsize; 3],
    pub frame: AtomicUsize,
    /// Address of `struct pthread`, to which the fs register points.
    pub block: AtomicUsize,
    pub gs: AtomicUsize,
    /// Non-zero if the interrupted call is continued with its remaining time.
    continues: AtomicU32,
    /// Robust-mutex list and the length of its head, for a thread that is created.
    pub robust: [AtomicUsize; 2],
    pub uses_tiles: AtomicU32,
}

/// Offset of the area for restartable sequences from the control block.
///
/// Equal to glibc's `__rseq_offset`; zero if the area is not registered.
static RSEQ_OFFSET: AtomicUsize = AtomicUsize::new(0);
/// Size with which glibc registers the area for restartable sequences.
///
/// `RSEQ_SIGNATURE` is also glibc's (sysdeps/unix/sysv/linux/x86/bits/rseq.h).
const RSEQ_BYTES: usize = 32;
const RSEQ_SIGNATURE: usize = 0x5305_3053;
/// Lowest processor number that stands for "not registered"; the kernel's are -2 and -1.
const UNREGISTERED: u32 = -2i32 as u32;

/// Offset of the registers in the kernel's frame ([`understudy_abi::StopCode`]).
pub const REGISTERS: usize = 8 + 40;
pub const RSP: usize = REGISTERS + 8 * libc::REG_RSP as usize;
pub const RAX: usize = REGISTERS + 8 * libc::REG_RAX as usize;
pub const RDI: usize = REGISTERS + 8 * libc::REG_RDI as usize;
pub const RIP: usize = REGISTERS + 8 * libc::REG_RIP as usize;

pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Creates the slots, which live as long as the process.
pub fn create_slots() -> &'static [Slot] {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory; all zeros are valid slots. The mappings are placed in the reserved range,
    // because this code runs on a stack in the reserved range.
    let (slots, stacks) = unsafe {
        let map = |length| {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        (
            map(MAX_THREADS * size_of::<Slot>()),
            map(MAX_THREADS * STACK_BYTES),
        )
    };
    assert!(
        slots != libc::MAP_FAILED && stacks != libc::MAP_FAILED,
        "no memory for threads"
    );
    // SAFETY: the new memory for the slots.
    let slots = unsafe { std::slice::from_raw_parts(slots.cast::<Slot>(), MAX_THREADS) };
    for (index, slot) in slots.iter().enumerate() {
        slot.stack.store(
            stacks as usize + (index + 1) * STACK_BYTES,
            Ordering::Relaxed,
        );
    }
    RSEQ_OFFSET.store(rseq_offset(), Ordering::Relaxed);
    // SAFETY: a word of the preload library. Its handler reads the word only for a signal that
    // carries a slot, and the runtime has sent no such signal yet.
    unsafe {
        process_info::info()
            .stop
            .park
            .write(park as *const () as usize)
    };
    slots
}

/// Returns the offset of the area for restartable sequences, for all threads.
///
/// The offset is glibc's `__rseq_offset`; zero if the main thread's area is not registered.
fn rseq_offset() -> usize {
    let offset = crate::system_calls::symbol(c"__rseq_offset").cast::<isize>();
    let size = crate::system_calls::symbol(c"__rseq_size").cast::<u32>();
    if offset.is_null() || size.is_null() {
        return 0;
    }
    // SAFETY: constants of ld.so, and the area, whose second word is the processor's number.
    unsafe {
        let area = control_block::address().wrapping_add_signed(offset.read());
        let processor = ((area + 4) as *const u32).read_volatile();
        if size.read() == 0 || processor >= UNREGISTERED {
            0
        } else {
            offset.read() as usize
        }
    }
}

/// Frame from which a thread resumes.
#[repr(C)]
struct ResumePoint {
    frame: usize,
    /// 1 if the interrupted call continues with its remaining time (restart_syscall(2)).
    continues: usize,
}

/// True for a call that restart_syscall(2) continues with its remaining time.
fn is_timed(call: usize, frame: usize) -> bool {
    const RSI: usize = REGISTERS + 8 * libc::REG_RSI as usize;
    match call as i64 {
        libc::SYS_nanosleep | libc::SYS_poll | libc::SYS_futex => true,
        // SAFETY: the caller passes the kernel's frame, which contains the register.
        libc::SYS_clock_nanosleep => unsafe {
            word(frame + RSI).read() & libc::TIMER_ABSTIME as usize == 0
        },
        _ => false,
    }
}

/// Parks the calling thread until it receives a command; returns the frame to resume from.
///
/// The preload library's handler calls this function on the slot's stack, with all signals
/// blocked.
unsafe extern "C" fn park(slot: &Slot, frame: usize) -> ResumePoint {
    // SAFETY: the handler passes the kernel's frame of this thread.
    let point = unsafe { find_resume_point(slot, frame) };
    slot.frame.store(point.frame, Ordering::Relaxed);
    slot.continues
        .store(point.continues as u32, Ordering::Relaxed);
    let (block, mut gs) = (control_block::address(), 0usize);
    const ARCH_GET_GS: usize = 0x1004;
    // SAFETY: arch_prctl(2) writes one word, `gs`.
    unsafe {
        raw_syscall::syscall(
            libc::SYS_arch_prctl,
            [ARCH_GET_GS, &raw mut gs as usize, 0, 0, 0, 0],
        );
    }
    slot.block.store(block, Ordering::Relaxed);
    slot.gs.store(gs, Ordering::Relaxed);
    let command = wait_for_command(slot);
    let mut point = ResumePoint {
        frame: slot.frame.load(Ordering::Relaxed),
        continues: slot.continues.load(Ordering::Relaxed) as usize,
    };
    if command == END {
        // SAFETY: `block` is the control block of this thread.
        unsafe { end(slot, block) }
    }
    if command == RESUME_FROM_IMAGE {
        point.continues = 0;
        // SAFETY: `block` is the control block of this thread.
        unsafe { reregister_rseq(block) };
    }
    slot.state.store(FREE, Ordering::SeqCst);
    point
}

/// Waits for a command, and returns it.
fn wait_for_command(slot: &Slot) -> u32 {
    slot.state.store(PARKED, Ordering::SeqCst);
    raw_syscall::futex_wake(&slot.state);
    loop {
        match slot.command.load(Ordering::SeqCst) {
            STAY => raw_syscall::futex_wait(&slot.command, STAY, 0),
            command => return command,
        }
    }
}

/// Determines the frame to resume from.
///
/// After an interrupted system call, the frame is changed so that the thread repeats the call: rax
/// gets the call's number, and the program counter the address of the call.
///
/// # Safety
/// The frame must be the kernel's.
unsafe fn find_resume_point(slot: &Slot, frame: usize) -> ResumePoint {
    let code = &process_info::info().stop;
    // SAFETY: words of frames, and the program's code before its program counter.
    unsafe {
        let [pc, sp, result] = [RIP, RSP, RAX].map(|register| word(frame + register).read());
        if (code.restart..code.end).contains(&pc) {
            // The signal has interrupted the code that resumes a thread from an earlier stop. The
            // thread must resume from its earlier frame, to which the stack pointer points.
            let mut point = ResumePoint {
                frame: sp,
                continues: 0,
            };
            if pc < code.restarted
                || pc == code.restarted && result as isize == -libc::EINTR as isize
            {
                point.continues = 1; // The call is not restarted yet, or interrupted again.
            } else if pc == code.restarted {
                word(sp + RAX).write(result); // The result is not stored yet.
                *word(sp + RIP) += 2;
            } else if pc == code.result_stored {
                *word(sp + RIP) += 2; // rip is not advanced yet.
            } else if pc >= code.restorer {
                point.frame -= 8; // The return address has been popped.
            }
            return point;
        }
        let interrupted = result as isize == -libc::EINTR as isize
            && (pc as *const [u8; 2]).sub(1).read_unaligned() == SYSCALL;
        let mut point = ResumePoint {
            frame,
            continues: 0,
        };
        if interrupted && let Some(call) = interrupted_call(slot, pc, sp) {
            word(frame + RAX).write(call);
            *word(frame + RIP) -= 2;
            point.continues = usize::from(is_timed(call, frame));
        }
        point
    }
}

/// Returns the number of the system call before `pc`.
///
/// The number was recorded when the signal was sent, or is read from the code.
unsafe fn interrupted_call(slot: &Slot, pc: usize, sp: usize) -> Option<usize> {
    let [call, call_pc, call_sp] =
        [0, 1, 2].map(|index: usize| slot.call[index].load(Ordering::Relaxed));
    if call_pc == pc && call_sp == sp {
        return Some(call);
    }
    // SAFETY: code of the program before a system call.
    unsafe {
        let end = pc - SYSCALL.len();
        // Stays in the page of `end` if possible, because the previous page may not be mapped.
        let length = (end % PAGE_SIZE).clamp(LOAD, MAX_CODE);
        loaded_number(std::slice::from_raw_parts(
            (end - length) as *const u8,
            length,
        ))
    }
}

/// Registers the area for restartable sequences anew.
///
/// The registration makes the kernel update the processor's number in the loaded memory.
///
/// # Safety
/// `block` must be the caller's control block.
unsafe fn reregister_rseq(block: usize) {
    // SAFETY: the caller guarantees that the area is this thread's. The word after the processor
    // numbers is the current sequence; zero means none.
    unsafe {
        if let Some(area) = unregister_rseq(block) {
            word(area + 8).write(0);
            raw_syscall::syscall(libc::SYS_rseq, [area, RSEQ_BYTES, 0, RSEQ_SIGNATURE, 0, 0]);
        }
    }
}

/// Unregisters the area for restartable sequences.
///
/// Does nothing and returns `None` if the area was never used.
///
/// # Safety
/// `block` must be the caller's control block.
pub unsafe fn unregister_rseq(block: usize) -> Option<usize> {
    const UNREGISTER: usize = 1;
    let offset = RSEQ_OFFSET.load(Ordering::Relaxed);
    let area = (offset != 0).then(|| block.wrapping_add(offset))?;
    // SAFETY: the caller guarantees that the area is this thread's. rseq(2) only ends its use.
    unsafe {
        raw_syscall::syscall(
            libc::SYS_rseq,
            [area, RSEQ_BYTES, UNREGISTER, RSEQ_SIGNATURE, 0, 0],
        )
    };
    Some(area)
}

/// Ends the calling thread. At its exit, the kernel writes only to the slot (`exists`).
unsafe fn end(slot: &Slot, block: usize) -> ! {
    const LIST_HEAD: usize = 24;
    // SAFETY: the system calls concern only this thread, and `block` is its control block.
    unsafe {
        raw_syscall::syscall(libc::SYS_set_robust_list, [0, LIST_HEAD, 0, 0, 0, 0]);
        raw_syscall::syscall(
            libc::SYS_set_tid_address,
            [slot.exists.as_ptr() as usize, 0, 0, 0, 0, 0],
        );
        unregister_rseq(block);
        loop {
            raw_syscall::syscall(libc::SYS_exit, [0; 6]);
        }
    }
}

/// Creates a thread that parks in the slot, with `block` as its control block.
///
/// Returns the number of the thread, or a negative error.
///
/// The number is stored at `number`. The kernel clears the word at `exit_word` when the thread
/// ends.
///
/// # Safety
/// All signals must be blocked; the slot must be free.
#[unsafe(naked)]
pub unsafe extern "C" fn create_thread(
    slot: &Slot,
    stack: usize,
    number: usize,
    exit_word: usize,
    block: usize,
) -> isize {
    naked_asm!(
        "mov r10, rcx",
        "mov r9, rdi",
        "mov edi, {flags}",
        "mov eax, 56",
        "syscall",
        "test rax, rax",
        "jne 2f",
        "xor ebp, ebp",
        "mov rdi, r9",
        "call {begin}",
        "ud2",
        "2: ret",
        flags = const libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SYSVSEM
            | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SETTLS
            | libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_CLEARTID,
        begin = sym run_created_thread,
    )
}

/// Body of a thread that [`create_thread`] has created.
unsafe extern "C" fn run_created_thread(slot: &Slot) -> ! {
    const ARCH_SET_GS: usize = 0x1001;
    // SAFETY: the system calls concern only this thread, and set values that were saved for it.
    unsafe {
        if slot.uses_tiles.load(Ordering::Relaxed) != 0 {
            touch_tiles();
        }
        let [head, length] = [0, 1].map(|index: usize| slot.robust[index].load(Ordering::Relaxed));
        if head != 0 {
            raw_syscall::syscall(libc::SYS_set_robust_list, [head, length, 0, 0, 0, 0]);
        }
        let gs = slot.gs.load(Ordering::Relaxed);
        if gs != 0 {
            raw_syscall::syscall(libc::SYS_arch_prctl, [ARCH_SET_GS, gs, 0, 0, 0, 0]);
        }
        let block = slot.block.load(Ordering::Relaxed);
        let command = wait_for_command(slot);
        if command == END {
            end(slot, block)
        }
        reregister_rseq(block);
        let frame = slot.frame.load(Ordering::Relaxed);
        slot.state.store(FREE, Ordering::SeqCst);
        return_to(frame)
    }
}

/// Resumes from a signal frame (rt_sigreturn(2)).
///
/// # Safety
/// The calling thread must be permitted to resume from this frame.
#[inline(always)]
unsafe fn return_to(frame: usize) -> ! {
    // SAFETY: the caller guarantees that the thread may resume from this signal frame.
    unsafe {
        std::arch::asm!(
            "mov rsp, {}",
            "mov eax, 15",
            "syscall",
            "ud2",
            in(reg) frame + 8,
            options(noreturn)
        )
    }
}

/// Leaves the runtime: the calling thread resumes from the slot's frame.
///
/// The thread ends if the frame is zero. All signals are blocked. After it has released the MPI
/// lock, the function does not use the runtime's state, which another thread may then use.
unsafe extern "C" fn leave(slot: &Slot) -> ! {
    let (block, frame) = (
        slot.block.load(Ordering::Relaxed),
        slot.frame.load(Ordering::Relaxed),
    );
    // SAFETY: `block` is the caller's control block, and `frame` its signal frame or zero.
    unsafe {
        if frame != 0 {
            mpi_lock::set_thread(block);
            reregister_rseq(block);
            slot.state.store(FREE, Ordering::SeqCst);
        }
        mpi_lock::release_lock();
        if frame == 0 {
            end(slot, block)
        }
        return_to(frame)
    }
}

/// Switches to the slot's stack and leaves the runtime.
///
/// # Safety
/// Signals must be blocked, and the slot must contain the caller's control block and frame. No
/// value on the caller's stack may need to be dropped: the function does not return.
#[unsafe(naked)]
pub unsafe extern "C" fn leave_by(slot: &Slot, stack: usize) -> ! {
    naked_asm!("mov rsp, rsi", "xor ebp, ebp", "call {leave}", "ud2", leave = sym leave)
}

/// Uses the tile registers once.
///
/// The kernel allocates a thread's space for tiles at the first use. Without that space it would
/// ignore the tiles in the frame.
unsafe fn touch_tiles() {
    let mut shape = [0u8; 64];
    // Byte 0: palette 1. Bytes 16 and 48: 64 bytes in a row of tile 0, and one row.
    (shape[0], shape[16], shape[48]) = (1, 64, 1);
    // SAFETY: the program has the permission to use tiles, so the processor supports ldtilecfg,
    // tilezero and tilerelease.
    unsafe {
        std::arch::asm!(
            ".byte 0xc4, 0xe2, 0x78, 0x49, 0x00",
            ".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc0",
            ".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0",
            in("rax") shape.as_mut_ptr(),
        );
    }
}

impl Slot {
    /// Returns the highest address of the stack.
    pub fn stack(&self) -> usize {
        self.stack.load(Ordering::Relaxed)
    }

    /// Sends a command to the thread that is parked in this slot.
    pub fn send_command(&self, command: u32) {
        self.command.store(command, Ordering::SeqCst);
        raw_syscall::futex_wake(&self.command);
    }
}
