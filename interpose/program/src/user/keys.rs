//! Protection keys (pkeys(7)): a register says which memory a thread may not touch, whatever the
//! mappings say.
#![allow(unsafe_code)]

use super::UserError;
use crate::told;

/// Whether the program has asked for any.
fn are_used() -> bool {
    // SAFETY: the face's counter lives as long as the process.
    unsafe { told::info().user_keys.read_volatile() != 0 }
}

/// Refuses a program that uses them.
pub fn check() -> Result<(), UserError> {
    if are_used() {
        return Err(UserError::ProtectionKeys);
    }
    Ok(())
}

/// From here on nothing is denied to this thread. For a load: it reaches all memory, and at the cut
/// that it leads to, the program has used no keys. (Where the program has got one, the register is
/// there.)
pub fn open() {
    // SAFETY: cpuid tells whether the kernel lets programs use the register (OSPKE); wrpkru wants
    // zeros in ecx and edx.
    unsafe {
        if are_used() && std::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 4 != 0 {
            std::arch::asm!("wrpkru", in("eax") 0, in("ecx") 0, in("edx") 0, options(nostack));
        }
    }
}
