//! SIGCANCEL: cancellations of threads, and interruptions of calls of the MPI library.
//!
//! Signal 32 has two uses. A libc, of which there is one in each of the three namespaces, registers
//! its own handler of the signal at its first `pthread_cancel`. understudy uses the signal to
//! interrupt calls of the MPI library ([`INTERRUPT`]). The handler of this module is registered
//! again after each `pthread_cancel` ([`restore_handler`]). It passes a cancellation on to the
//! handler of the libc to which the thread belongs. A cancellation is a signal that this process
//! has sent by tgkill(2), which libc's handler also checks; any other signal is an interruption.
#![allow(unsafe_code)]

use crate::side::signals::{self, Action};
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use understudy_abi::assembly::return_from_signal;
use understudy_abi::{MPI_ZONE_START, ZONE_END, ZONE_START};

/// SIGCANCEL of glibc, which a program cannot block by libc's functions.
pub const INTERRUPT: c_int = 32;

/// Handler of interruptions.
static OWN_HANDLER: AtomicUsize = AtomicUsize::new(0);
/// Handlers of the libcs of the runtime, MPI and program sides, in this order.
///
/// Zero if unknown.
///
/// The address of a thread's stack determines the side to which the thread belongs.
static HANDLERS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
const PROGRAM: usize = 2;
/// The `sa_restorer` of the program side's libc; zero before the first cancellation.
///
/// A cancellation unwinds the stack, and the unwinder recognises only libc's own restorer. The
/// handler of this module is therefore installed with that restorer.
static RESTORER: AtomicUsize = AtomicUsize::new(0);
/// True once [`register`] has been called.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Shift that turns an address into the number of a half of the reserved range.
///
/// The first half has the number [`FIRST_HALF`], the second half the next number.
const HALF_SHIFT: u32 = 42;
const FIRST_HALF: usize = ZONE_START >> HALF_SHIFT;

const _: () = assert!(
    MPI_ZONE_START >> HALF_SHIFT == FIRST_HALF + 1 && ZONE_END >> HALF_SHIFT == FIRST_HALF + 2
);

/// Handler of a signal that was registered with SA_SIGINFO.
pub type Handler = unsafe extern "C" fn(c_int, *mut c_void, *mut libc::ucontext_t);

/// Registers the handler of interruptions.
pub fn register(own: Handler) {
    OWN_HANDLER.store(own as *const () as usize, Ordering::Relaxed);
    IS_REGISTERED.store(true, Ordering::Relaxed);
    record_libc_handler(signals::action(INTERRUPT, None));
    install();
}

/// Installs the handler of this module.
fn install() {
    const SA_SIGINFO: usize = 4;
    const SA_RESTORER: usize = 0x0400_0000;
    const SA_ONSTACK: usize = 0x0800_0000;
    const SA_RESTART: usize = 0x1000_0000;
    let restorer = match RESTORER.load(Ordering::Relaxed) {
        0 => return_from_signal as *const () as usize,
        libc_restorer => libc_restorer,
    };
    let flags = SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART;
    signals::action(
        INTERRUPT,
        Some(&[entry as *const () as usize, flags, restorer, 0]),
    );
}

/// Records a handler that a libc has registered; ignores all other actions.
fn record_libc_handler(action: Action) {
    const SIG_IGN: usize = 1;
    let handler = action[0];
    if handler <= SIG_IGN || handler == entry as *const () as usize {
        return;
    }
    let half = (handler >> HALF_SHIFT).wrapping_sub(FIRST_HALF);
    HANDLERS[half.min(PROGRAM)].store(handler, Ordering::Relaxed);
    if half >= PROGRAM {
        RESTORER.store(action[2], Ordering::Relaxed);
    }
}

/// Restores the handler if pthread_cancel(3) has replaced it.
///
/// May be called on any thread and stack.
pub extern "C" fn restore_handler() {
    let current = signals::action(INTERRUPT, None);
    if IS_REGISTERED.load(Ordering::Relaxed) && current[0] != entry as *const () as usize {
        record_libc_handler(current);
        install();
    }
}

/// Returns the program side's handler and its `sa_restorer`, which belong to the program's state.
pub fn of_program() -> [u64; 2] {
    [&HANDLERS[PROGRAM], &RESTORER].map(|word| word.load(Ordering::Relaxed) as u64)
}

/// Sets the values that [`of_program`] has returned, in this process or in another one.
pub fn restore_program(saved: [u64; 2]) {
    for (word, value) in [&HANDLERS[PROGRAM], &RESTORER].into_iter().zip(saved) {
        word.store(value as usize, Ordering::Relaxed);
    }
    if IS_REGISTERED.load(Ordering::Relaxed) {
        install();
    }
}

/// Handler of [`INTERRUPT`].
///
/// Leaves nothing on the stack when it jumps to libc's handler, which may unwind the stack.
#[unsafe(naked)]
unsafe extern "C" fn entry() {
    naked_asm!(
        "cmp dword ptr [rsi + 8], -6", // si_code: SI_TKILL
        "jne 2f",
        "mov eax, 39", // getpid(2)
        "syscall",
        "cmp eax, dword ptr [rsi + 16]", // si_pid
        "jne 2f",
        "mov rax, rsp",
        "shr rax, {shift}",
        "sub rax, {first}",
        "mov ecx, {program}",
        "cmp rax, rcx",
        "cmova rax, rcx",
        "lea rcx, [rip + {handlers}]",
        "mov rax, qword ptr [rcx + 8 * rax]",
        "test rax, rax",
        "je 3f",
        "jmp rax",
        "2: jmp qword ptr [rip + {own}]",
        "3: ret",
        shift = const HALF_SHIFT,
        first = const FIRST_HALF,
        program = const PROGRAM,
        handlers = sym HANDLERS,
        own = sym OWN_HANDLER,
    )
}
