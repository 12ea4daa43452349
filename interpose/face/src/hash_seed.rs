//! Random numbers that seed Python's hash tables, equal in all ranks of a job.
//!
//! The numbers determine the order of Python's sets. That order can in turn determine the order in
//! which a program loads libraries and allocates memory before `MPI_Init`, and thus its addresses.
//! A rank whose memory has other addresses cannot be replaced.
//!
//! Only one request for random numbers is answered from a seed that all ranks have in common: the
//! interpreter's first request of the length of its hash secret. The kernel answers all other
//! requests, such as for keys, names of files and seeds of generators.
#![allow(unsafe_code)]

use crate::environ;
use crate::libc_procedures;
use crate::link::{self, Path};
use core::arch::naked_asm;
use core::ffi::{c_char, c_uint, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Length of CPython's hash secret (`_Py_HashSecret_t`).
const SECRET_LENGTH: usize = 24;
/// Prefixes of the names of the interpreter's program and library.
const INTERPRETERS: [&[u8]; 2] = [b"python", b"libpython"];
/// Variable in which the user sets the seed.
///
/// The interpreter then requests no random numbers, unless the value is `random`.
const SEED_VARIABLE: &[u8] = b"PYTHONHASHSEED=";

/// Seed of the random numbers, equal in all ranks.
static SEED: AtomicU64 = AtomicU64::new(0);
/// True from [`begin`] until the request has been answered.
pub static IS_PENDING: AtomicBool = AtomicBool::new(false);

/// Enables the answer to the request, unless the user has set Python's seed.
///
/// # Safety
/// `environment` must be a valid environment.
pub unsafe fn begin(seed: u64, environment: *const *const c_char) {
    // SAFETY: the caller guarantees that `environment` is a valid environment.
    let user_seed = unsafe { environ::value(environment, SEED_VARIABLE) }.unwrap_or(b"");
    if user_seed.is_empty() || user_seed == b"random" {
        SEED.store(seed, Ordering::Relaxed);
        IS_PENDING.store(true, Ordering::Relaxed);
        libc_procedures::answer_getrandom_by(getrandom as *const c_void);
    }
}

/// getrandom(2), which passes its return address to [`answer`] as a fourth argument.
#[unsafe(naked)]
unsafe extern "C" fn getrandom() {
    naked_asm!("mov rcx, qword ptr [rsp]", "jmp {answer}", answer = sym answer)
}

/// Answers the interpreter's request, or passes a request on.
///
/// `caller` is an address in the code that requests the numbers. The function is also called for
/// getrandom(2) by syscall(2): interpreters that were built for older libcs make such calls.
pub unsafe extern "C" fn answer(
    buffer: *mut u8,
    length: usize,
    flags: c_uint,
    caller: usize,
) -> isize {
    let is_request = length == SECRET_LENGTH
        && IS_PENDING.load(Ordering::Relaxed)
        && is_interpreter(caller)
        && IS_PENDING.swap(false, Ordering::Relaxed);
    // SAFETY: the program passes a buffer of this length, as getrandom(2) requires; libc's function
    // has this type.
    unsafe {
        if !is_request {
            let real: unsafe extern "C" fn(*mut u8, usize, c_uint) -> isize =
                core::mem::transmute(libc_procedures::real_getrandom());
            return real(buffer, length, flags);
        }
        for index in 0..SECRET_LENGTH / size_of::<u64>() {
            let word = splitmix64(SEED.load(Ordering::Relaxed), index as u64 + 1);
            buffer.cast::<u64>().add(index).write_unaligned(word);
        }
    }
    length as isize
}

/// Returns the value of the generator SplitMix64 after the given number of steps.
fn splitmix64(seed: u64, steps: u64) -> u64 {
    let mut value = seed.wrapping_add(steps.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Returns true if the address is in the interpreter: the program or its library.
fn is_interpreter(address: usize) -> bool {
    let base = link::base_of(address);
    let mut program = Path::new();
    let name = match link::objects().find(|object| object.base() == base) {
        Some(object) if !object.name().is_empty() => object.name(),
        _ if program.read_link(c"/proc/self/exe") => program.as_bytes(),
        _ => return false,
    };
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    INTERPRETERS.iter().any(|start| file.starts_with(start))
}
