//! Clocks and other functions of libc whose results differ between runs.
//!
//! The functions are listed in [`understudy_abi::libc_procedures`]. Each of them is a jump through
//! [`TABLE`]. The target is libc's function, or the runtime while it records or replays the
//! program's set-up phase. The runtime handles such a call like a call of MPI.
//!
//! Only calls of the recorded thread enter the runtime, and only if they are made on the thread's
//! own stack. The runtime itself calls these functions on its own stack, and a signal handler on an
//! alternate stack may have interrupted the runtime.
#![allow(unsafe_code)]

use crate::libc::{c_name, next};
use crate::sys::{nr, sys};
use crate::{process_number, processor_time};
use core::arch::naked_asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use understudy_abi::control_block;
use understudy_abi::libc_procedures::{LIBC_PROCEDURE_COUNT, LIBC_PROCEDURES};

/// libc's procedures, once they have been looked up.
static REAL: [AtomicPtr<c_void>; LIBC_PROCEDURE_COUNT] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; LIBC_PROCEDURE_COUNT];
/// The runtime's entry.
static ENTRY: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// Slot of the first procedure.
static FIRST_SLOT: AtomicUsize = AtomicUsize::new(0);
/// True if calls enter the runtime.
static IS_RECORDING: AtomicBool = AtomicBool::new(false);
/// Control block of the thread whose calls are recorded (fs:0x10).
static RECORDED_THREAD: AtomicUsize = AtomicUsize::new(0);

macro_rules! procedures {
    ($($index:literal $name:ident $text:literal;)*) => {
        $(
            /// libc's procedure of this name.
            ///
            /// # Safety
            /// The requirements of libc's function apply.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "jmp qword ptr [rip + {table} + 8 * {index}]",
                    table = sym TABLE, index = const $index
                )
            }

            mod $name {
                use crate::libc_procedures::{ENTRY, FIRST_SLOT, RECORDED_THREAD, REAL, is_on_own_stack, real};
                use core::arch::naked_asm;
                use understudy_abi::{ZONE_SHIFT, ZONE_TAG};

                /// Looks up libc's procedure, then calls it.
                #[unsafe(naked)]
                pub unsafe extern "C" fn find() {
                    naked_asm!(
                        "push rdi", "push rsi", "push rdx",
                        "mov edi, {index}",
                        "call {real}",
                        "pop rdx", "pop rsi", "pop rdi",
                        "jmp rax",
                        index = const $index,
                        real = sym real,
                    )
                }

                /// Enters the runtime if the call must be recorded, else calls libc.
                #[unsafe(naked)]
                pub unsafe extern "C" fn enter() {
                    naked_asm!(
                        "mov rax, qword ptr fs:[0x10]",
                        "cmp rax, qword ptr [rip + {owner}]",
                        "jne 2f",
                        "mov rax, rsp",
                        "shr rax, {shift}",
                        "cmp eax, {tag}",
                        "je 2f",
                        "push rdi", "push rsi", "push rdx",
                        "call {is_on_own_stack}",
                        "pop rdx", "pop rsi", "pop rdi",
                        "test al, al",
                        "jz 2f",
                        "mov rax, qword ptr [rip + {first_slot}]",
                        "add rax, {index}",
                        "jmp qword ptr [rip + {entry}]",
                        "2: jmp qword ptr [rip + {reals} + 8 * {index}]",
                        owner = sym RECORDED_THREAD,
                        shift = const ZONE_SHIFT,
                        tag = const ZONE_TAG,
                        is_on_own_stack = sym is_on_own_stack,
                        first_slot = sym FIRST_SLOT,
                        entry = sym ENTRY,
                        reals = sym REAL,
                        index = const $index,
                    )
                }
            }
        )*

        static TABLE: [AtomicPtr<c_void>; LIBC_PROCEDURE_COUNT] =
            [$(AtomicPtr::new($name::find as *const () as *mut c_void)),*];
        const NAMES: [&core::ffi::CStr; LIBC_PROCEDURE_COUNT] = [$(c_name($text)),*];

        fn runtime_targets() -> [*mut c_void; LIBC_PROCEDURE_COUNT] {
            [$($name::enter as *const () as *mut c_void),*]
        }
    };
}

procedures! {
    0 clock_gettime "clock_gettime\0";
    1 gettimeofday "gettimeofday\0";
    2 time "time\0";
    3 timespec_get "timespec_get\0";
    4 clock "clock\0";
    5 times "times\0";
    6 getrusage "getrusage\0";
    7 getpid "getpid\0";
    8 getppid "getppid\0";
    9 gethostname "gethostname\0";
    10 uname "uname\0";
    11 getrandom "getrandom\0";
    12 getentropy "getentropy\0";
    13 sched_getcpu "sched_getcpu\0";
}

/// Compile-time check: the names are those of the table, in its order.
const _: () = {
    let mut index = 0;
    while index < LIBC_PROCEDURE_COUNT {
        let (name, expected) = (
            NAMES[index].to_bytes(),
            LIBC_PROCEDURES[index].name.as_bytes(),
        );
        assert!(name.len() == expected.len());
        let mut offset = 0;
        while offset < name.len() {
            assert!(name[offset] == expected[offset]);
            offset += 1;
        }
        index += 1;
    }
};

/// Looks up libc's procedure and enters it in the table.
///
/// This library's own function takes the place of getpid(2).
extern "C" fn real(index: usize) -> *mut c_void {
    if index == GETPID {
        let seen = process_number::seen as *const () as *mut c_void;
        REAL[index].store(seen, Ordering::Relaxed);
    }
    let function = next(&REAL[index], NAMES[index]);
    TABLE[index].store(function, Ordering::Relaxed);
    function
}

/// Replaces libc's functions by those of [`processor_time`], in a replacement.
///
/// # Safety
/// No thread of the program may run during the call.
pub unsafe extern "C" fn carry_processor_time() {
    for (index, name) in NAMES.iter().enumerate() {
        let Some(function) = processor_time::replacing_function(name) else {
            continue;
        };
        REAL[index].store(function, Ordering::Relaxed);
        if !IS_RECORDING.load(Ordering::Relaxed) {
            TABLE[index].store(function, Ordering::Relaxed);
        }
    }
}

/// Index of getpid(2), for which this library has its own function.
const GETPID: usize = 7;
/// Index of getrandom(2).
const GETRANDOM: usize = 11;

/// Sets the function that answers getrandom(2) until calls are recorded.
pub fn answer_getrandom_by(function: *const c_void) {
    TABLE[GETRANDOM].store(function.cast_mut(), Ordering::Relaxed);
}

/// Looks up libc's getrandom(2), and returns its address.
pub fn real_getrandom() -> *mut c_void {
    next(&REAL[GETRANDOM], NAMES[GETRANDOM])
}

/// Returns true unless the thread runs on the alternate stack of signal handlers.
extern "C" fn is_on_own_stack() -> bool {
    const SS_ONSTACK: i32 = 1;
    let mut stack = [0usize; 3];
    // SAFETY: sigaltstack(2) fills the structure, which has three words.
    unsafe { sys!(nr::SIGALTSTACK, 0, stack.as_mut_ptr()) };
    stack[1] as i32 & SS_ONSTACK == 0
}

/// Stores the runtime's entry for these procedures, and the slot of the first one.
pub fn connect(entry: *const c_void, first_slot: usize) {
    ENTRY.store(entry.cast_mut(), Ordering::Relaxed);
    FIRST_SLOT.store(first_slot, Ordering::Relaxed);
}

/// Stores the addresses of the procedures, in the order of the table.
///
/// The addresses are those of libc's functions, with two exceptions: functions of
/// [`processor_time`] for processor time and resource usage, and this library's getpid(2).
///
/// # Safety
/// `addresses` must have space for [`LIBC_PROCEDURE_COUNT`] addresses.
pub unsafe extern "C" fn addresses(addresses: *mut *mut c_void) {
    for (index, name) in NAMES.iter().enumerate() {
        let libc_function = real(index);
        let function = processor_time::replacing_function(name).unwrap_or(libc_function);
        // SAFETY: the caller guarantees that `addresses` has space for all addresses.
        unsafe { addresses.add(index).write(function) };
    }
}

/// Sets the entry through which calls enter the runtime.
pub fn enter_by(entry: *const c_void) {
    ENTRY.store(entry.cast_mut(), Ordering::Relaxed);
}

/// Stops the recording, because a thread other than the recorded one enters the runtime.
///
/// The order of the calls of several threads differs between runs, so it cannot be replayed.
#[inline]
pub fn stop_recording() {
    if IS_RECORDING.load(Ordering::Relaxed) && IS_RECORDING.swap(false, Ordering::Relaxed) {
        for (index, target) in TABLE.iter().enumerate() {
            target.store(real(index), Ordering::Relaxed);
        }
    }
}

/// Enables or disables the recording of calls of the calling thread.
///
/// # Safety
/// The runtime must have called [`addresses`].
pub unsafe extern "C" fn set_recording(on: bool) {
    RECORDED_THREAD.store(control_block::address(), Ordering::Relaxed);
    IS_RECORDING.store(on, Ordering::Relaxed);
    for (index, enter) in runtime_targets().into_iter().enumerate() {
        let target = if on { enter } else { real(index) };
        TABLE[index].store(target, Ordering::Relaxed);
    }
}
