//! Where a stopped thread stands: a stack in the zone, and what is told in both ways.
//!
//! ```text
//!   FREE ──► SENT ──► PARKED ──► FREE           the thread goes on from its frame, or from one that was loaded
//!     (signal)  (handler)  (command)
//! ```
//!
//! What runs on a slot's stack uses neither libc nor memory of the user side, which may be loaded
//! meanwhile.
#![allow(unsafe_code)]

use super::call_number::{LOAD, MAX_CODE, loaded_number};
use crate::arch::raw::{self, word};
use crate::arch::turn;
use crate::told;
use std::arch::naked_asm;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use understudy_abi::control_block;
use understudy_image::PAGE_SIZE;

/// As many threads can be stopped.
pub const SLOTS: usize = 1024;
const STACK: usize = 32 << 10;

/// Values of `state`.
pub const FREE: u32 = 0;
pub const SENT: u32 = 1;
pub const PARKED: u32 = 2;

/// Values of `command`.
pub const STAY: u32 = 0;
/// Nothing has been loaded.
pub const GO_ON: u32 = 1;
/// Memory has been loaded, and `frame` is the saved one.
pub const GO_BACK: u32 = 2;
pub const END: u32 = 3;

/// A thread and where it stands.
#[repr(C)]
pub struct Slot {
    /// The highest address of its stack; the face's handler wants it in the first place.
    stack: AtomicUsize,
    pub state: AtomicU32,
    pub command: AtomicU32,
    /// The kernel's number of the thread.
    pub number: AtomicI32,
    /// Not 0 as long as the thread that ends exists.
    pub exists: AtomicU32,
    /// The round in which it was stopped last.
    pub round: AtomicU32,
    /// The system call that it was in when the signal was sent, with program counter and stack
    /// pointer.
    pub call: [AtomicUsize; 3],
    pub frame: AtomicUsize,
    /// `struct pthread`, which the fs register points to.
    pub block: AtomicUsize,
    pub gs: AtomicUsize,
    /// Whether the interrupted call is continued with the time that is left.
    continues: AtomicU32,
    /// Only of a thread that is made again.
    pub robust: [AtomicUsize; 2],
    pub uses_tiles: AtomicU32,
}

/// Offset of the area for restartable sequences from the control block; 0: it is not used.
/// (`__rseq_offset` of glibc.)
static SEQUENCES: AtomicUsize = AtomicUsize::new(0);
/// The size with which glibc registers that area, and what it has as signature (glibc's
/// sysdeps/unix/sysv/linux/x86/bits/rseq.h).
const AREA: usize = 32;
const SIGNATURE: usize = 0x5305_3053;
/// What has not been registered has this for a processor's number, or one above.
const UNREGISTERED: u32 = -2i32 as u32;

/// In the kernel's frame ([`understudy_abi::StopCode`]).
pub const REGISTERS: usize = 8 + 40;
pub const RSP: usize = REGISTERS + 8 * libc::REG_RSP as usize;
pub const RAX: usize = REGISTERS + 8 * libc::REG_RAX as usize;
pub const RDI: usize = REGISTERS + 8 * libc::REG_RDI as usize;
pub const RIP: usize = REGISTERS + 8 * libc::REG_RIP as usize;

pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Makes the slots, which live as long as the process.
pub fn make() -> &'static [Slot] {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory; all zeros are valid slots. The caller is on a stack in the zone, so is
    // what is mapped.
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
        (map(SLOTS * size_of::<Slot>()), map(SLOTS * STACK))
    };
    assert!(
        slots != libc::MAP_FAILED && stacks != libc::MAP_FAILED,
        "no memory for threads"
    );
    // SAFETY: as above.
    let slots = unsafe { std::slice::from_raw_parts(slots.cast::<Slot>(), SLOTS) };
    for (index, slot) in slots.iter().enumerate() {
        slot.stack
            .store(stacks as usize + (index + 1) * STACK, Ordering::Relaxed);
    }
    SEQUENCES.store(sequences(), Ordering::Relaxed);
    // SAFETY: the face's word.
    unsafe { told::info().stop.park.write(park as *const () as usize) };
    slots
}

/// Where the main thread's area is registered, other threads' are.
fn sequences() -> usize {
    let offset = crate::sys::symbol(c"__rseq_offset").cast::<isize>();
    let size = crate::sys::symbol(c"__rseq_size").cast::<u32>();
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

/// How a thread goes on.
#[repr(C)]
struct Way {
    frame: usize,
    continues: usize,
}

/// Continued by restart_syscall(2), with the time that is left.
fn is_timed(call: usize, frame: usize) -> bool {
    const RSI: usize = REGISTERS + 8 * libc::REG_RSI as usize;
    match call as i64 {
        libc::SYS_nanosleep | libc::SYS_poll | libc::SYS_futex => true,
        // SAFETY: the kernel's frame.
        libc::SYS_clock_nanosleep => unsafe {
            word(frame + RSI).read() & libc::TIMER_ABSTIME as usize == 0
        },
        _ => false,
    }
}

/// What the face's handler calls, on the slot's stack, with all signals blocked.
unsafe extern "C" fn park(slot: &Slot, frame: usize) -> Way {
    // SAFETY: the kernel's frame of this thread.
    let way = unsafe { look(slot, frame) };
    slot.frame.store(way.frame, Ordering::Relaxed);
    slot.continues
        .store(way.continues as u32, Ordering::Relaxed);
    let (block, mut gs) = (control_block::address(), 0usize);
    const ARCH_GET_GS: usize = 0x1004;
    // SAFETY: arch_prctl(2) writes one word.
    unsafe {
        raw::call(
            libc::SYS_arch_prctl,
            [ARCH_GET_GS, &raw mut gs as usize, 0, 0, 0, 0],
        );
    }
    slot.block.store(block, Ordering::Relaxed);
    slot.gs.store(gs, Ordering::Relaxed);
    let command = stay(slot);
    let mut way = Way {
        frame: slot.frame.load(Ordering::Relaxed),
        continues: slot.continues.load(Ordering::Relaxed) as usize,
    };
    if command == END {
        // SAFETY: this thread's own.
        unsafe { end(slot, block) }
    }
    if command == GO_BACK {
        way.continues = 0;
        // SAFETY: this thread's area.
        unsafe { register_again(block) };
    }
    slot.state.store(FREE, Ordering::SeqCst);
    way
}

/// Until there is a command.
fn stay(slot: &Slot) -> u32 {
    slot.state.store(PARKED, Ordering::SeqCst);
    raw::wake(&slot.state);
    loop {
        match slot.command.load(Ordering::SeqCst) {
            STAY => raw::wait(&slot.command, STAY, 0),
            command => return command,
        }
    }
}

/// Finds the frame that counts, and puts the system call back that the signal has interrupted: in
/// an image it is made again.
///
/// # Safety
/// The frame must be the kernel's.
unsafe fn look(slot: &Slot, frame: usize) -> Way {
    let code = &told::info().stop;
    // SAFETY: words of frames, and the program's code before its program counter.
    unsafe {
        let [pc, sp, result] = [RIP, RSP, RAX].map(|register| word(frame + register).read());
        if (code.restart..code.end).contains(&pc) {
            // It was being let go: the frame of before counts, which the stack pointer leads to.
            let mut way = Way {
                frame: sp,
                continues: 0,
            };
            if pc < code.restarted
                || pc == code.restarted && result as isize == -libc::EINTR as isize
            {
                way.continues = 1;
            } else if pc == code.restarted {
                word(sp + RAX).write(result);
                *word(sp + RIP) += 2;
            } else if pc == code.noted {
                *word(sp + RIP) += 2;
            } else if pc >= code.restorer {
                way.frame -= 8;
            }
            return way;
        }
        let interrupted = result as isize == -libc::EINTR as isize
            && (pc as *const [u8; 2]).sub(1).read_unaligned() == SYSCALL;
        let mut way = Way {
            frame,
            continues: 0,
        };
        if interrupted && let Some(call) = interrupted_call(slot, pc, sp) {
            word(frame + RAX).write(call);
            *word(frame + RIP) -= 2;
            way.continues = usize::from(is_timed(call, frame));
        }
        way
    }
}

/// The number of the system call before `pc`: the kernel has told it, or the code does.
unsafe fn interrupted_call(slot: &Slot, pc: usize, sp: usize) -> Option<usize> {
    let [call, its_pc, its_sp] =
        [0, 1, 2].map(|index: usize| slot.call[index].load(Ordering::Relaxed));
    if its_pc == pc && its_sp == sp {
        return Some(call);
    }
    // SAFETY: code of the program before a system call.
    unsafe {
        let end = pc - SYSCALL.len();
        // The page before may not be there.
        let length = (end % PAGE_SIZE).clamp(LOAD, MAX_CODE);
        loaded_number(std::slice::from_raw_parts(
            (end - length) as *const u8,
            length,
        ))
    }
}

/// Registers the area for restartable sequences anew: loaded memory has the processor's number of
/// another time.
///
/// # Safety
/// `block` must be the caller's control block.
unsafe fn register_again(block: usize) {
    // SAFETY: rseq(2) of this thread; the second word of its area is the sequence that is under
    // way.
    unsafe {
        if let Some(area) = unregister(block) {
            word(area + 8).write(0);
            raw::call(libc::SYS_rseq, [area, AREA, 0, SIGNATURE, 0, 0]);
        }
    }
}

/// The area is not used any more; nothing if it never was.
///
/// # Safety
/// As [`register_again`].
pub unsafe fn unregister(block: usize) -> Option<usize> {
    const UNREGISTER: usize = 1;
    let offset = SEQUENCES.load(Ordering::Relaxed);
    let area = (offset != 0).then(|| block.wrapping_add(offset))?;
    // SAFETY: rseq(2) of this thread.
    unsafe { raw::call(libc::SYS_rseq, [area, AREA, UNREGISTER, SIGNATURE, 0, 0]) };
    Some(area)
}

/// Ends the calling thread; the kernel touches nothing of the program's afterwards.
unsafe fn end(slot: &Slot, block: usize) -> ! {
    const LIST_HEAD: usize = 24;
    // SAFETY: system calls on this thread.
    unsafe {
        raw::call(libc::SYS_set_robust_list, [0, LIST_HEAD, 0, 0, 0, 0]);
        raw::call(
            libc::SYS_set_tid_address,
            [slot.exists.as_ptr() as usize, 0, 0, 0, 0, 0],
        );
        unregister(block);
        loop {
            raw::call(libc::SYS_exit, [0; 6]);
        }
    }
}

/// Makes a thread that parks in the slot, with `block` as its control block.
///
/// Returns the number of the thread, or an error.
///
/// The word at `number` gets the number; that at `exit_word` is cleared when the thread ends.
///
/// # Safety
/// All signals must be blocked; the slot must be free.
#[unsafe(naked)]
pub unsafe extern "C" fn make_thread(
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
        flags = const libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SYSVSEM | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD | libc::CLONE_SETTLS | libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_CLEARTID,
        begin = sym begin,
    )
}

/// The first and last thing that such a thread does.
unsafe extern "C" fn begin(slot: &Slot) -> ! {
    const ARCH_SET_GS: usize = 0x1001;
    // SAFETY: system calls on this thread, with what was saved.
    unsafe {
        if slot.uses_tiles.load(Ordering::Relaxed) != 0 {
            touch_tiles();
        }
        let [head, length] = [0, 1].map(|index: usize| slot.robust[index].load(Ordering::Relaxed));
        if head != 0 {
            raw::call(libc::SYS_set_robust_list, [head, length, 0, 0, 0, 0]);
        }
        let gs = slot.gs.load(Ordering::Relaxed);
        if gs != 0 {
            raw::call(libc::SYS_arch_prctl, [ARCH_SET_GS, gs, 0, 0, 0, 0]);
        }
        let block = slot.block.load(Ordering::Relaxed);
        let command = stay(slot);
        if command == END {
            end(slot, block)
        }
        register_again(block);
        let frame = slot.frame.load(Ordering::Relaxed);
        slot.state.store(FREE, Ordering::SeqCst);
        return_to(frame)
    }
}

/// Goes on from a signal frame (rt_sigreturn(2)).
///
/// # Safety
/// The frame must be one that the calling thread may go on from.
#[inline(always)]
unsafe fn return_to(frame: usize) -> ! {
    // SAFETY: guaranteed by the caller.
    unsafe {
        std::arch::asm!("mov rsp, {}", "mov eax, 15", "syscall", "ud2", in(reg) frame + 8, options(noreturn))
    }
}

/// Leaves the runtime: the calling thread goes on from the slot's frame, or ends if that is 0. On
/// the slot's stack, with all signals blocked; as soon as the turn is given back, another thread
/// may use all that the runtime has.
unsafe extern "C" fn leave(slot: &Slot) -> ! {
    let (block, frame) = (
        slot.block.load(Ordering::Relaxed),
        slot.frame.load(Ordering::Relaxed),
    );
    // SAFETY: the caller's control block, and what was saved of it.
    unsafe {
        if frame != 0 {
            turn::set_thread(block);
            register_again(block);
            slot.state.store(FREE, Ordering::SeqCst);
        }
        turn::leave();
        if frame == 0 {
            end(slot, block)
        }
        return_to(frame)
    }
}

/// Moves to the slot's stack, and leaves the runtime.
///
/// # Safety
/// As [`leave`]; nothing is dropped.
#[unsafe(naked)]
pub unsafe extern "C" fn leave_by(slot: &Slot, stack: usize) -> ! {
    naked_asm!("mov rsp, rsi", "xor ebp, ebp", "call {leave}", "ud2", leave = sym leave)
}

/// The kernel gives a thread room for its tiles at the first use; without that it would drop them
/// from the frame.
unsafe fn touch_tiles() {
    let mut shape = [0u8; 64];
    // One palette; tile 0 with one row of 64 bytes.
    (shape[0], shape[16], shape[48]) = (1, 64, 1);
    // SAFETY: the program has the permission to use tiles, so the processor has them. ldtilecfg,
    // tilezero, tilerelease.
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
    /// The highest address of its stack.
    pub fn stack(&self) -> usize {
        self.stack.load(Ordering::Relaxed)
    }

    /// Tells the thread that is parked here how to go on.
    pub fn order(&self, command: u32) {
        self.command.store(command, Ordering::SeqCst);
        raw::wake(&self.command);
    }
}
