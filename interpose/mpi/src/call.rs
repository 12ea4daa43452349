//! Calls of the real library that a signal handler can abandon.
//!
//! A call that waits for a failed process of the job never returns. After a failure, the node
//! manager stores the *generation number* of the next MPI instance in a page that it shares with
//! this process ([`SharedPage`]). It then sends [`INTERRUPT`] to the thread that is inside the
//! library, repeatedly, until that thread has left the library. The signal handler discards the
//! library's frames: it sets the stack pointer to the frame that `call_N` has made, and continues
//! in [`abandon`], which restores the registers from the frame. The call thus returns
//! [`ABANDONED`] to the runtime, like an error of the library. From then on every call returns
//! `ABANDONED` at once, until the MPI side has been reset (`side`) and [`enter_instance`] is
//! called with the new generation number.
//!
//! ```text
//!   caller ─► procedure (naked, generated) ─► call_N ── copies N stack words ──► the library
//!                                              │ frame: callee-saved registers, outer call's frame
//!                                              └◄─ from the handler: rsp = FRAME, eax = ABANDONED
//! ```
//!
//! Only one thread at a time calls the library. A callback of the program that the library calls is
//! not abandoned ([`Callback`]); the call of the library is abandoned when the callback has
//! returned.
#![allow(unsafe_code)]

use crate::cancellation;
pub use crate::cancellation::INTERRUPT;
use crate::library::Procedure;
use crate::side;
use crate::side::signals;
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use understudy_numbers::Generation;

/// Return code of an abandoned call.
///
/// The value is that of `MPIX_ERR_REVOKED`, which the library never returns: no communicator is
/// revoked, since the runtime refuses `MPIX_Comm_revoke`.
pub const ABANDONED: c_int = 77;

/// Time limit of [`await_over`] for the report of a failure.
const REPORT_LIMIT: Duration = Duration::from_secs(2);
/// Interval at which the report of a failure is polled for.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Number of the main thread; the number of any other thread is its thread id.
pub const MAIN_THREAD: u32 = 1;

/// Page that this process shares with its node manager.
#[repr(C)]
pub struct SharedPage {
    /// Generation number of the required MPI instance; written by the node manager.
    pub generation: AtomicU32,
    /// Number of the thread that is inside the library; zero if none is.
    ///
    /// Written by this process.
    pub is_inside: AtomicU32,
}

/// Page of a process without a node manager.
static DEFAULT_PAGE: SharedPage = SharedPage {
    generation: AtomicU32::new(0),
    is_inside: AtomicU32::new(0),
};

/// Address of the [`SharedPage`] in use; zero before [`use_default_page`].
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// Value that is not the generation number of any MPI instance.
const NO_GENERATION: u32 = u32::MAX;

/// Generation number of this process's MPI instance.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Number of the thread that calls the library, as in [`SharedPage`].
static CALLER: AtomicU32 = AtomicU32::new(MAIN_THREAD);
/// Function of [`set_outside_handler`], or null.
static OUTSIDE_HANDLER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Frame of the innermost call; zero if the library is not being called.
pub(crate) static FRAME: AtomicUsize = AtomicUsize::new(0);

/// Returns the word for the number of the thread that calls the library.
///
/// The main thread has the number 1. Only one thread at a time may call the library.
pub fn caller() -> &'static AtomicU32 {
    &CALLER
}

/// Sets the page of a process without a node manager, unless a page is set.
///
/// Calls of such a process are never abandoned.
pub(crate) fn use_default_page() {
    if PAGE.load(Ordering::Relaxed) == 0 {
        PAGE.store(&raw const DEFAULT_PAGE as usize, Ordering::Relaxed);
    }
}

/// Disables abandoning in a child process that is not part of the job.
pub fn disable_abandoning() {
    replace_page();
}

/// Replaces the page by one that requires the present MPI instance; returns the former page.
fn replace_page() -> usize {
    let present = GENERATION.load(Ordering::Relaxed);
    DEFAULT_PAGE.generation.store(present, Ordering::Relaxed);
    PAGE.swap(&raw const DEFAULT_PAGE as usize, Ordering::Relaxed)
}

/// Sets the page that this process shares with its node manager.
///
/// From now on, calls are abandoned if the page requires another MPI instance.
pub fn use_page(page: &'static SharedPage) {
    PAGE.store(std::ptr::from_ref(page) as usize, Ordering::Relaxed);
    cancellation::register(handle_interrupt);
}

#[inline]
fn page() -> &'static SharedPage {
    // SAFETY: `PAGE` is zero or the address of a static page.
    unsafe { (PAGE.load(Ordering::Relaxed) as *const SharedPage).as_ref() }.unwrap_or(&DEFAULT_PAGE)
}

/// Returns the generation number of the required MPI instance.
#[inline]
pub fn required_instance() -> Generation {
    Generation(page().generation.load(Ordering::Acquire))
}

/// Returns the generation number of this process's MPI instance.
#[inline]
pub fn own_instance() -> Generation {
    Generation(GENERATION.load(Ordering::Relaxed))
}

/// True if this process's MPI instance is over: another one is required.
#[inline]
pub fn is_over() -> bool {
    required_instance().0 != GENERATION.load(Ordering::Relaxed)
}

/// True if a thread of this process is inside the library.
pub fn is_inside() -> bool {
    page().is_inside.load(Ordering::Relaxed) != 0
}

/// Waits until [`is_over`] returns true, at most [`REPORT_LIMIT`]; returns false after that time.
///
/// Called after an error or a fault of the library, which the failure of another process may have
/// caused. The error may precede the report of the failure.
pub fn await_over() -> bool {
    let start = Instant::now();
    while !is_over() {
        if start.elapsed() > REPORT_LIMIT {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Sets the MPI instance of this process.
///
/// The library executes calls if this instance is the required instance.
pub fn enter_instance(generation: Generation) {
    GENERATION.store(generation.0, Ordering::Release);
}

/// Records that this process is in no MPI instance.
pub fn leave_instance() {
    GENERATION.store(NO_GENERATION, Ordering::Release);
}

/// Guard during which calls are never abandoned.
///
/// The guard is for local calls that do not wait, and for all calls before the first MPI instance.
pub struct NeverAbandoned {
    page: usize,
}

impl NeverAbandoned {
    #[allow(clippy::new_without_default)]
    pub fn new() -> NeverAbandoned {
        NeverAbandoned {
            page: replace_page(),
        }
    }
}

impl Drop for NeverAbandoned {
    fn drop(&mut self) {
        PAGE.store(self.page, Ordering::Relaxed);
    }
}

/// Guard for a callback that the library has called, and that must not be abandoned.
pub struct Callback {
    frame: usize,
}

impl Callback {
    /// Returns the guard; must be called at the beginning of the callback.
    #[allow(clippy::new_without_default)]
    #[inline]
    pub fn new() -> Callback {
        let frame = FRAME.load(Ordering::Relaxed);
        // An exchange would be an atomic instruction. It is not needed: only the thread that calls
        // the library, and its handler of `INTERRUPT`, use the variable. The handler either writes
        // nothing or does not return to this code.
        FRAME.store(0, Ordering::Relaxed);
        Callback { frame }
    }
}

impl Drop for Callback {
    #[inline]
    fn drop(&mut self) {
        FRAME.store(self.frame, Ordering::Relaxed);
        let inside = if self.frame == 0 {
            0
        } else {
            CALLER.load(Ordering::Relaxed)
        };
        page().is_inside.store(inside, Ordering::Relaxed);
    }
}

// Indices of registers in `ucontext_t` (glibc's `<sys/ucontext.h>`).
const REG_RSP: usize = libc::REG_RSP as usize;
const REG_RIP: usize = libc::REG_RIP as usize;

/// True in the thread with this number, which is 1 for the main thread.
pub fn is_thread(number: u32) -> bool {
    // SAFETY: gettid(2) and getpid(2) have no preconditions.
    let (thread, process) = unsafe {
        (
            libc::syscall(libc::SYS_gettid),
            libc::syscall(libc::SYS_getpid),
        )
    };
    thread
        == if number == MAIN_THREAD {
            process
        } else {
            number.into()
        }
}

/// True in the thread that calls the library; a late signal may reach another thread.
fn is_caller() -> bool {
    is_thread(CALLER.load(Ordering::Relaxed))
}

/// Handler of [`INTERRUPT`].
unsafe extern "C" fn handle_interrupt(_: c_int, _: *mut c_void, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel passes a record of this thread, which only this handler uses.
    let context = unsafe { &mut *context };
    if FRAME.load(Ordering::Relaxed) == 0 {
        let handler = OUTSIDE_HANDLER.load(Ordering::Relaxed);
        if !handler.is_null() {
            // SAFETY: a function of this type, stored by `set_outside_handler`.
            unsafe { std::mem::transmute::<*mut c_void, OutsideHandler>(handler)(context) };
        }
    } else if is_over() && is_caller() {
        abandon_at(context);
    }
}

/// Function that may change the address at which a thread outside of the library continues.
type OutsideHandler = fn(&mut libc::ucontext_t);

/// Sets the function that handles [`INTERRUPT`] outside of library calls.
pub fn set_outside_handler(function: OutsideHandler) {
    OUTSIDE_HANDLER.store(function as *mut c_void, Ordering::Relaxed);
}

/// Makes the calling thread abandon its library call when the signal handler returns.
fn abandon_at(context: &mut libc::ucontext_t) {
    let registers = &mut context.uc_mcontext.gregs;
    registers[REG_RSP] = FRAME.load(Ordering::Relaxed) as i64;
    registers[REG_RIP] = abandon as *const () as i64;
}

/// Handles a fault of the library that the failure of another process may have caused.
///
/// Must be called in the handler of a signal such as SIGSEGV. Waits for the report of a failure
/// ([`await_over`]). Returns true if the report arrives: the call is abandoned when the handler
/// returns. Returns false if the fault has another cause.
///
/// Libraries do not expect their peers to fail, and may dereference a null pointer where a message
/// could not be sent. In a thread that the library itself has created, this function does not
/// return after the report: the recovery terminates the thread with all others of the MPI side.
pub fn survive_fault(context: &mut libc::ucontext_t) -> bool {
    let is_library_thread = side::is_mpi(context.uc_mcontext.gregs[REG_RSP] as usize);
    let is_calling = FRAME.load(Ordering::Relaxed) != 0 && is_caller();
    if PAGE.load(Ordering::Relaxed) == &raw const DEFAULT_PAGE as usize
        || !(is_library_thread || is_calling)
    {
        return false;
    }
    signals::block(INTERRUPT);
    if !await_over() {
        return false;
    }
    if is_calling {
        abandon_at(context);
        return true;
    }
    loop {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Removes the frame of `call_N`, and returns to the caller with the result in `rax`.
///
/// The callee-saved registers already have the caller's values, so they are not loaded. If there is
/// no outer call, `FRAME` and `is_inside` become zero. For `FRAME`, the constant zero is stored
/// instead of the zero on the stack: a loaded value would make each call wait for the store of the
/// previous one. If there is an outer call, `is_inside` keeps the number of the thread.
macro_rules! leave {
    () => {
        "cmp qword ptr [rsp], 0\n\
         mov rcx, qword ptr [rip + {page}]\n\
         jne 7f\n\
         mov qword ptr [rip + {frame}], 0\n\
         mov dword ptr [rcx + {inside}], 0\n\
         add rsp, 56\n\
         .cfi_adjust_cfa_offset -56\n\
         ret\n\
         7:\n\
         .cfi_adjust_cfa_offset 56\n\
         pop qword ptr [rip + {frame}]\n\
         add rsp, 48\n\
         .cfi_adjust_cfa_offset -56\n\
         ret"
    };
}

/// Returns from the innermost call with [`ABANDONED`]; the signal handler returns to this code.
///
/// All callee-saved registers are restored from the frame.
#[unsafe(naked)]
unsafe extern "C" fn abandon() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 64",
        ".cfi_offset rbp, -16",
        ".cfi_offset rbx, -24",
        ".cfi_offset r12, -32",
        ".cfi_offset r13, -40",
        ".cfi_offset r14, -48",
        ".cfi_offset r15, -56",
        "mov eax, {abandoned}",
        "mov r15, qword ptr [rsp + 8]",
        "mov r14, qword ptr [rsp + 16]",
        "mov r13, qword ptr [rsp + 24]",
        "mov r12, qword ptr [rsp + 32]",
        "mov rbx, qword ptr [rsp + 40]",
        "mov rbp, qword ptr [rsp + 48]",
        leave!(),
        ".cfi_endproc",
        abandoned = const ABANDONED,
        frame = sym FRAME,
        page = sym PAGE,
        inside = const std::mem::offset_of!(SharedPage, is_inside),
    )
}

/// Defines `call_N`, which calls the procedure whose address is stored at r11.
///
/// The procedure has N words of arguments on the stack. The defined function returns `ABANDONED` at
/// once if the page requires another MPI instance. Otherwise the function pushes the callee-saved
/// registers and the outer call's frame, stores the stack pointer in `FRAME`, copies the N words
/// below the frame, and calls the procedure.
macro_rules! calls {
    ($($name:ident: $words:literal $(, $copy:literal)*;)*) => {$(
        #[doc = concat!("Calls a procedure with ", $words, " words of arguments on the stack.")]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, qword ptr [rip + {page}]",
                "mov r10d, dword ptr [rip + {generation}]",
                "cmp dword ptr [rax], r10d",
                "jne 9f",
                ".cfi_remember_state",
                "push rbp",
                "push rbx",
                "push r12",
                "push r13",
                "push r14",
                "push r15",
                "push qword ptr [rip + {frame}]",
                "mov qword ptr [rip + {frame}], rsp",
                "mov r10d, dword ptr [rip + {caller}]",
                "mov dword ptr [rax + {inside}], r10d",
                // The frame has 64 bytes with the return address, which keeps the stack aligned. An
                // odd number of words needs another word.
                "sub rsp, {pad}",
                $($copy,)*
                ".cfi_adjust_cfa_offset 56 + {pop}",
                "call qword ptr [r11]",
                "add rsp, {pop}",
                ".cfi_adjust_cfa_offset -{pop}",
                leave!(),
                ".cfi_restore_state",
                "9: mov eax, {abandoned}",
                "ret",
                ".cfi_endproc",
                page = sym PAGE,
                generation = sym GENERATION,
                caller = sym CALLER,
                frame = sym FRAME,
                inside = const std::mem::offset_of!(SharedPage, is_inside),
                pad = const 8 * ($words & 1),
                pop = const 8 * ($words + ($words & 1)),
                abandoned = const ABANDONED,
            )
        }
    )*};
}

// The words lie above the frame and the return address (64 bytes together), and the last word is
// pushed first. After each push, the stack pointer is one word lower. The word to be pushed next is
// also one word lower, so all pushes of a function have the same offset.
calls! {
    call_0: 0;
    call_1: 1, "push qword ptr [rsp + 64 + 8]";
    call_2: 2, "push qword ptr [rsp + 64 + 8]", "push qword ptr [rsp + 64 + 8]";
    call_3: 3, "push qword ptr [rsp + 64 + 24]", "push qword ptr [rsp + 64 + 24]", "push qword \
        ptr [rsp + 64 + 24]";
    call_4: 4, "push qword ptr [rsp + 64 + 24]", "push qword ptr [rsp + 64 + 24]", "push qword \
        ptr [rsp + 64 + 24]",
        "push qword ptr [rsp + 64 + 24]";
    call_5: 5, "push qword ptr [rsp + 64 + 40]", "push qword ptr [rsp + 64 + 40]", "push qword \
        ptr [rsp + 64 + 40]",
        "push qword ptr [rsp + 64 + 40]", "push qword ptr [rsp + 64 + 40]";
    call_6: 6, "push qword ptr [rsp + 64 + 40]", "push qword ptr [rsp + 64 + 40]", "push qword \
        ptr [rsp + 64 + 40]",
        "push qword ptr [rsp + 64 + 40]", "push qword ptr [rsp + 64 + 40]", "push qword ptr [rsp \
            + 64 + 40]";
    call_7: 7, "push qword ptr [rsp + 64 + 56]", "push qword ptr [rsp + 64 + 56]", "push qword \
        ptr [rsp + 64 + 56]",
        "push qword ptr [rsp + 64 + 56]", "push qword ptr [rsp + 64 + 56]", "push qword ptr [rsp \
            + 64 + 56]",
        "push qword ptr [rsp + 64 + 56]";
}

/// Offset of the address in a row of a table of procedures.
pub(crate) const ADDRESS: usize = Procedure::ADDRESS;
/// Size of a row in bytes.
pub(crate) const ROW_SIZE: usize = size_of::<Procedure>();

/// Body of a procedure that is called through row `$slot` of `$table`, with `$call` (`call_N`).
macro_rules! through {
    ($table:path, $slot:expr, $call:ident) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "lea r11, [rip + {table} + {at}]",
            "jmp {call}",
            ".cfi_endproc",
            table = sym $table,
            at = const $crate::call::ROW_SIZE * $slot + $crate::call::ADDRESS,
            call = sym $crate::call::$call,
        )
    };
}
pub(crate) use through;
