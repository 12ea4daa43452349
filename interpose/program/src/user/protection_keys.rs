//! Protection keys (pkeys(7)).
//!
//! A processor register forbids a thread to access memory, independently of the mappings.
#![allow(unsafe_code)]

use super::UserError;
use crate::process_info;

/// True if the program has allocated a protection key.
fn are_used() -> bool {
    // SAFETY: the preload library's counter lives as long as the process.
    unsafe { process_info::info().program_protection_keys.read_volatile() != 0 }
}

/// Refuses a program that uses protection keys.
pub fn check() -> Result<(), UserError> {
    if are_used() {
        return Err(UserError::ProtectionKeys);
    }
    Ok(())
}

/// Permits this thread to access memory with any protection key.
///
/// Needed before a load, which writes to all memory: the program may have allocated a key after the
/// cut that is loaded. At the cut itself the program had no key ([`check`]).
pub fn permit_all_keys() {
    // SAFETY: cpuid reports whether the kernel enables the register (OSPKE). wrpkru requires zeros
    // in ecx and edx.
    unsafe {
        if are_used() && std::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 4 != 0 {
            std::arch::asm!("wrpkru", in("eax") 0, in("ecx") 0, in("edx") 0, options(nostack));
        }
    }
}
