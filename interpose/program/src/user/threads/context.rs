//! A thread that is to make a call once more, as a signal frame: like those of threads that were
//! stopped.
//!
//! The thread that has made the cut, and its call, are known by the call's [`Frame`]. If another
//! thread leads the way back, the frame below is written under the live part of its stack, and it
//! goes on from there by rt_sigreturn(2). The forms are the kernel's
//! (arch/x86/include/uapi/asm/sigcontext.h and ucontext.h) and the processor's (FXSAVE).
#![allow(unsafe_code)]

use crate::arch::Frame;
use crate::arch::turn;

/// What is known of the thread that has made the cut.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub frame: &'a Frame,
    /// The signals that it has blocked.
    pub mask: u64,
    /// `stack_t` of its signals.
    pub signal_stack: [u64; 3],
    /// MXCSR and the x87 control word.
    pub floating_point: (u32, u16),
}

const RED_ZONE: u64 = 128;
/// A page of registers as FXSAVE stores it; the words at its end that the kernel puts there for
/// more registers are 0.
const FXSAVE: u64 = 512;
/// Return address, `ucontext_t` as the kernel has it.
const FRAME_WORDS: usize = 1 + 5 + 23 + 1 + 8 + 1;
/// The segments as they are saved, and as they are to be put back.
const SEGMENTS: u64 = 0x002b_0000_0000_0033;
const SEGMENT_FLAGS: u64 = 2 | 4;
/// Interrupts are on, and bit 1 always is.
const PROCESSOR_FLAGS: u64 = 0x202;

impl Caller<'_> {
    /// Writes it to the thread's stack, and returns its address, if the call can be made again.
    ///
    /// # Safety
    /// The stack must be as it was at the cut.
    pub unsafe fn write(&self) -> Option<u64> {
        let (words, registers) = self.words()?;
        let top = self.frame.rsp - RED_ZONE - FXSAVE;
        let page = top & !63;
        let at = (page - (FRAME_WORDS as u64) * 8) & !15;
        // SAFETY: below the live part of the stack.
        unsafe {
            (page as *mut [u8; FXSAVE as usize]).write(registers);
            let mut words = words;
            words[1 + 5 + 23] = page;
            (at as *mut [u64; FRAME_WORDS]).write(words);
        }
        Some(at)
    }

    fn words(&self) -> Option<([u64; FRAME_WORDS], [u8; FXSAVE as usize])> {
        const REGISTERS: usize = 1 + 5;
        let Frame {
            slot,
            arguments: [rdi, rsi, rdx, rcx, r8, r9],
            preserved: [r15, r14, r13, r12, rbp, rbx],
            rsp,
        } = *self.frame;
        let rip = turn::address_of_call(self.frame)?;
        let mut words = [0u64; FRAME_WORDS];
        words[1] = SEGMENT_FLAGS;
        words[3..6].copy_from_slice(&self.signal_stack);
        let registers = [
            r8,
            r9,
            0,
            0,
            r12,
            r13,
            r14,
            r15,
            rdi,
            rsi,
            rbp,
            rbx,
            rdx,
            slot,
            rcx,
            rsp,
            rip,
            PROCESSOR_FLAGS,
            SEGMENTS,
        ];
        words[REGISTERS..REGISTERS + registers.len()].copy_from_slice(&registers);
        words[FRAME_WORDS - 1] = self.mask;
        let mut page = [0u8; FXSAVE as usize];
        page[..2].copy_from_slice(&self.floating_point.1.to_le_bytes());
        page[24..28].copy_from_slice(&self.floating_point.0.to_le_bytes());
        Some((words, page))
    }
}
