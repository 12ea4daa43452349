//! How the real library is called: so that a call can be abandoned from a signal handler.
//!
//! When a process of the job has died, calls that wait for it never return. The process manager
//! then makes another *generation* of the job known in a page that it shares with this process
//! ([`Page`]), and sends [`INTERRUPT`] to the thread that is inside the library as long as it is.
//! The handler drops the library's frames: the call returns [`ABANDONED`] to the runtime, like an
//! error of the library. From then on every call returns so at once, until the library's side has
//! been put back (`side`) and [`enter`] is called with the new generation.
//!
//! ```text
//!   caller ─► procedure (naked, generated) ─► call_N ── copies N stack words ──► the library
//!                                              │ frame: callee-saved registers, the outer call's frame
//!                                              └◄─ the handler leads here: rsp = FRAME, eax = ABANDONED
//! ```
//!
//! Only one thread at a time calls the library. A callback of the program, called by the library,
//! is not part of a call ([`Callback`]): it is not abandoned, but the library is when the callback
//! has returned.
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

/// What an abandoned call returns: an error class that the library itself does not use.
pub const ABANDONED: c_int = 77;

/// How long an error or a fault of the library may come before the news of the death that has
/// caused it.
const NEWS_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks for such news.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The number of the main thread; that of any other one is its thread id.
pub const MAIN_THREAD: u32 = 1;

/// What this process and its process manager share.
#[repr(C)]
pub struct Page {
    /// The generation of the job that is to be; written by the manager.
    pub generation: AtomicU32,
    /// Not 0 while this process is inside the library: the number of the thread that is, 1 for the
    /// main one; written by this process.
    pub is_inside: AtomicU32,
}

/// Of a process without a process manager.
static ALONE: Page = Page {
    generation: AtomicU32::new(0),
    is_inside: AtomicU32::new(0),
};

static PAGE: AtomicUsize = AtomicUsize::new(0);
/// What no generation is numbered.
const NO_GENERATION: u32 = u32::MAX;

/// The generation that this process is in.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The thread that calls the library, as in [`Page`].
static CALLER: AtomicU32 = AtomicU32::new(MAIN_THREAD);
/// What is done with a thread that is not in the library when it is to leave that; null: nothing.
static LEAD_IN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// The innermost call's frame; 0: the library is not being called.
static FRAME: AtomicUsize = AtomicUsize::new(0);

/// Where the number of the thread is to be told that calls the library; 1 for the main one. Only
/// one may at a time.
pub fn caller() -> &'static AtomicU32 {
    &CALLER
}

/// Without a process manager nothing is ever abandoned.
pub(crate) fn stand_alone() {
    if PAGE.load(Ordering::Relaxed) == 0 {
        PAGE.store(&raw const ALONE as usize, Ordering::Relaxed);
    }
}

/// Nothing is abandoned any more, whatever becomes of the job: this process is a child that is no
/// part of it.
pub fn stand_apart() {
    PAGE.store(&raw const ALONE as usize, Ordering::Relaxed);
    GENERATION.store(0, Ordering::Relaxed);
}

/// From now on calls are abandoned as the page says.
pub fn listen(page: &'static Page) {
    PAGE.store(std::ptr::from_ref(page) as usize, Ordering::Relaxed);
    cancellation::register(interrupted);
}

#[inline]
fn page() -> &'static Page {
    // SAFETY: a page that lives as long as the process, or `ALONE`.
    unsafe { (PAGE.load(Ordering::Relaxed) as *const Page).as_ref() }.unwrap_or(&ALONE)
}

/// The generation that is to be.
#[inline]
pub fn wanted() -> Generation {
    Generation(page().generation.load(Ordering::Acquire))
}

/// The generation that this process is in.
#[inline]
pub fn current() -> Generation {
    Generation(GENERATION.load(Ordering::Relaxed))
}

/// Whether another generation is to be than that which this process is in.
#[inline]
pub fn is_over() -> bool {
    wanted().0 != GENERATION.load(Ordering::Relaxed)
}

/// Whether a thread of this process is inside of the library.
pub fn is_inside() -> bool {
    page().is_inside.load(Ordering::Relaxed) != 0
}

/// [`is_over`], once the news of a death that may have caused an error or a fault of the library
/// has had time to come.
pub fn is_over_soon() -> bool {
    let start = Instant::now();
    while !is_over() {
        if start.elapsed() > NEWS_LIMIT {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

/// This process is in that generation: calls go to the library if it is the one that is to be.
pub fn enter(generation: Generation) {
    GENERATION.store(generation.0, Ordering::Release);
}

/// This process is in no generation.
pub fn leave() {
    GENERATION.store(NO_GENERATION, Ordering::Release);
}

/// As long as it lives, calls are never abandoned: local ones that do not wait, at any time, and
/// before any generation.
pub struct Apart {
    page: usize,
    generation: u32,
}

impl Apart {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Apart {
        let page = PAGE.swap(&raw const ALONE as usize, Ordering::Relaxed);
        let generation = GENERATION.swap(0, Ordering::Relaxed);
        Apart { page, generation }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        GENERATION.store(self.generation, Ordering::Relaxed);
        PAGE.store(self.page, Ordering::Relaxed);
    }
}

/// As long as it lives, a callback of the library is running, which cannot be abandoned.
pub struct Callback {
    frame: usize,
}

impl Callback {
    /// The library has called.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Callback {
        Callback {
            frame: FRAME.swap(0, Ordering::Relaxed),
        }
    }
}

impl Drop for Callback {
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

/// Registers of the frame that a signal has interrupted, in `ucontext_t`'s array (glibc's
/// `<sys/ucontext.h>`).
const REG_RSP: usize = libc::REG_RSP as usize;
const REG_RIP: usize = libc::REG_RIP as usize;

/// Whether this is the thread of that number, 1 for the main one.
pub fn is_thread(number: u32) -> bool {
    // SAFETY: gettid(2), getpid(2).
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

/// Whether this is the thread that calls the library: a late signal may come to another one.
fn is_caller() -> bool {
    is_thread(CALLER.load(Ordering::Relaxed))
}

unsafe extern "C" fn interrupted(_: c_int, _: *mut c_void, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel's record of this thread.
    let context = unsafe { &mut *context };
    if FRAME.load(Ordering::Relaxed) == 0 {
        let lead_in = LEAD_IN.load(Ordering::Relaxed);
        if !lead_in.is_null() {
            // SAFETY: set by `lead_in`.
            unsafe { std::mem::transmute::<*mut c_void, LeadIn>(lead_in)(context) };
        }
    } else if is_over() && is_caller() {
        abandon_at(context);
    }
}

/// May change where a thread goes on that is not in the library.
type LeadIn = fn(&mut libc::ucontext_t);

/// From now on this is called, in the handler of [`INTERRUPT`], if the library is not being called;
/// mostly since another generation is to be.
pub fn lead_in(function: LeadIn) {
    LEAD_IN.store(function as *mut c_void, Ordering::Relaxed);
}

/// The thread that calls the library abandons its call when the handler of a signal returns.
fn abandon_at(context: &mut libc::ucontext_t) {
    let registers = &mut context.uc_mcontext.gregs;
    registers[REG_RSP] = FRAME.load(Ordering::Relaxed) as i64;
    registers[REG_RIP] = abandon as *const () as i64;
}

/// Whether the library's fault, in whose handler this is called, was a consequence of another
/// process's death: then the call is abandoned when the handler returns.
///
/// Libraries are not made for peers that die, and may follow a null pointer where a message could
/// not be sent. The fault may come before this process has heard of the death: see
/// [`is_over_soon`]. A thread of the library's own does not return: it is ended with all others of
/// the library's side.
pub fn outlives_fault(context: &mut libc::ucontext_t) -> bool {
    let is_own = side::is_mpi(context.uc_mcontext.gregs[REG_RSP] as usize);
    let is_calling = FRAME.load(Ordering::Relaxed) != 0 && is_caller();
    if PAGE.load(Ordering::Relaxed) == &raw const ALONE as usize || !(is_own || is_calling) {
        return false;
    }
    signals::block(INTERRUPT);
    if !is_over_soon() {
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

/// Takes the frame off, and returns to the caller with `rax`. The registers in the frame are those
/// that the caller has.
///
/// Nothing that most calls store here was loaded: else each of them would wait for the one before.
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

/// Where the handler leads: the innermost call returns. What the library has made of the registers
/// does not matter.
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
        inside = const std::mem::offset_of!(Page, is_inside),
    )
}

/// `call_N`: calls the procedure whose address stands at r11, with N words of arguments on the
/// stack.
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
                // The frame has 64 bytes with the return address: aligned. An odd word needs
                // another one.
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
                inside = const std::mem::offset_of!(Page, is_inside),
                pad = const 8 * ($words & 1),
                pop = const 8 * ($words + ($words & 1)),
                abandoned = const ABANDONED,
            )
        }
    )*};
}

// The words lie above frame and return address, the last one first to be pushed; what has been
// pushed adds to the distance, so all have the same.
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

/// Where the address stands in a row of a table of procedures.
pub(crate) const ADDRESS: usize = Procedure::ADDRESS;
/// Length of a row.
pub(crate) const ROW: usize = size_of::<Procedure>();

/// Body of a procedure that is called through row `$slot` of `$table`, with `$call` (`call_N`).
macro_rules! through {
    ($table:path, $slot:expr, $call:ident) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "lea r11, [rip + {table} + {at}]",
            "jmp {call}",
            ".cfi_endproc",
            table = sym $table,
            at = const $crate::call::ROW * $slot + $crate::call::ADDRESS,
            call = sym $crate::call::$call,
        )
    };
}
pub(crate) use through;
