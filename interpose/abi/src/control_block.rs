//! Control block of a thread (`struct pthread` of glibc).
#![allow(unsafe_code)]

/// Returns the address of the calling thread's control block.
///
/// The block's word at fs:0x10 is its own address (glibc on x86-64, `tcbhead_t`). The assembly code
/// of the entries reads this word itself, because a call of this function could change registers.
#[inline(always)]
pub fn address() -> usize {
    let block: usize;
    // SAFETY: reads a word of the thread's own block, which exists as long as the thread.
    unsafe {
        core::arch::asm!(
            "mov {}, fs:[0x10]",
            out(reg) block,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    block
}
