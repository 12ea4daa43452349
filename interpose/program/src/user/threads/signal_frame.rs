//! Signal frame for a thread that must repeat its MPI call.
//!
//! At a cut all threads but one are stopped by a signal, so that their registers are in a signal
//! frame on their stacks. The remaining thread made the cut in an MPI call, and its registers are
//! in the call's [`Frame`]. If another thread performs the recovery, the thread that made the cut
//! also needs a signal frame. This module writes that frame below the live part of the thread's
//! stack. The thread then resumes by rt_sigreturn(2), like all other threads. The formats are the
//! kernel's (arch/x86/include/uapi/asm/sigcontext.h and ucontext.h) and the processor's (FXSAVE).
#![allow(unsafe_code)]

use crate::arch::Frame;
use crate::arch::mpi_lock;

/// State of the thread that made the cut.
#[derive(Clone, Copy, Debug)]
pub struct CutCaller<'a> {
    pub frame: &'a Frame,
    /// Signals that the thread has blocked.
    pub mask: u64,
    /// `stack_t` of the thread's signal stack.
    pub signal_stack: [u64; 3],
    /// MXCSR and the x87 control word.
    pub floating_point: (u32, u16),
}

const RED_ZONE: u64 = 128;
/// Size of the area that FXSAVE writes.
///
/// The words at its end, which the kernel uses for further registers, are zero.
const FXSAVE: u64 = 512;
/// Number of words of a return address and the kernel's `ucontext_t`.
const FRAME_WORDS: usize = 1 + 5 + 23 + 1 + 8 + 1;
/// Saved segment selectors.
const SEGMENTS: u64 = 0x002b_0000_0000_0033;
/// Flags of `ucontext_t`: the stack segment is saved (UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS).
const SEGMENT_FLAGS: u64 = 2 | 4;
/// Processor flags: interrupts enabled, and bit 1, which is always set.
const PROCESSOR_FLAGS: u64 = 0x202;

impl CutCaller<'_> {
    /// Writes the frame to the thread's stack, and returns its address.
    ///
    /// `None` if the call cannot be repeated.
    ///
    /// # Safety
    /// The stack must be as it was at the cut.
    pub unsafe fn write(&self) -> Option<u64> {
        let (words, registers) = self.words()?;
        let top = self.frame.rsp - RED_ZONE - FXSAVE;
        let area = top & !63;
        let at = (area - (FRAME_WORDS as u64) * 8) & !15;
        // SAFETY: memory below the live part of the stack.
        unsafe {
            (area as *mut [u8; FXSAVE as usize]).write(registers);
            let mut words = words;
            words[1 + 5 + 23] = area;
            (at as *mut [u64; FRAME_WORDS]).write(words);
        }
        Some(at)
    }

    /// Returns the kernel's frame, and the floating-point area to which it points.
    fn words(&self) -> Option<([u64; FRAME_WORDS], [u8; FXSAVE as usize])> {
        const REGISTERS: usize = 1 + 5;
        let Frame {
            slot,
            arguments: [rdi, rsi, rdx, rcx, r8, r9],
            preserved: [r15, r14, r13, r12, rbp, rbx],
            rsp,
        } = *self.frame;
        let rip = mpi_lock::address_of_call(self.frame)?;
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
        let mut area = [0u8; FXSAVE as usize];
        area[..2].copy_from_slice(&self.floating_point.1.to_le_bytes());
        area[24..28].copy_from_slice(&self.floating_point.0.to_le_bytes());
        Some((words, area))
    }
}
