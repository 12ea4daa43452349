//! Signals that the program dies of: the runtime notes where it was, then the signal's default
//! action follows.
//!
//! A handler stands where the program has none, and nobody can tell: sigaction(2) and its
//! relatives, called by the program, show the default instead, and what the program sets replaces
//! it. (Only system calls made directly see it.) It makes the signal pending once more, as it came,
//! with the default action: so the process dies where it was, with the same `siginfo_t`, and a core
//! dump shows the program's frames.
//!
//! The handler's address is the same in all ranks, so the kernel's table of signals can be saved
//! and put back as it is.
#![allow(unsafe_code)]

use crate::libc::{c_name, next};
use crate::sys::{nr, sys};
use crate::turns;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};
use understudy_abi::FatalHook;

/// `SIGILL`, `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGSEGV`
const SIGNALS: [c_int; 5] = [4, 6, 7, 8, 11];

const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SA_SIGINFO: c_int = 4;
const SA_ONSTACK: c_int = 0x0800_0000;
/// What the handler needs. A program that sets these for the default action does not see them
/// again.
const OWN_FLAGS: c_int = SA_SIGINFO | SA_ONSTACK;

/// glibc's `struct sigaction` on x86-64.
#[repr(C)]
#[derive(Clone, Copy)]
struct Action {
    handler: usize,
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

impl Action {
    const DEFAULT: Action = Action {
        handler: SIG_DFL,
        mask: [0; 16],
        flags: 0,
        restorer: 0,
    };

    fn is_ours(&self) -> bool {
        self.handler == on_fatal as *const () as usize
    }

    /// What the kernel is to have where the program wants this.
    fn armed(self) -> Action {
        Action {
            handler: on_fatal as *const () as usize,
            flags: self.flags | OWN_FLAGS,
            ..self
        }
    }

    /// What the program is to see where the kernel has this.
    fn shown(self) -> Action {
        Action {
            handler: SIG_DFL,
            flags: self.flags & !OWN_FLAGS,
            ..self
        }
    }
}

/// The runtime's function; null: this process is not protected.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// The process that it is for; children inherit the handler.
static PROCESS: AtomicIsize = AtomicIsize::new(0);

/// Lets the runtime know of fatal signals from now on.
pub fn listen(hook: *const c_void) {
    // SAFETY: getpid(2).
    PROCESS.store(unsafe { sys!(nr::GETPID) }, Ordering::Relaxed);
    HOOK.store(hook.cast_mut(), Ordering::Release);
    for signal in SIGNALS {
        arm(signal);
    }
}

/// Sets the handler if the signal is at its default.
fn arm(signal: c_int) {
    let mut now = Action::DEFAULT;
    // SAFETY: valid structures; the handler is made for these signals.
    unsafe {
        if real_sigaction(signal, core::ptr::null(), &mut now) == 0 && now.handler == SIG_DFL {
            real_sigaction(signal, &now.armed(), core::ptr::null_mut());
        }
    }
}

fn is_listening(signal: c_int) -> bool {
    SIGNALS.contains(&signal) && !HOOK.load(Ordering::Relaxed).is_null()
}

unsafe extern "C" fn on_fatal(signal: c_int, info: *const c_void, context: *mut c_void) {
    let default = [0usize; 4];
    // SAFETY: system calls on this process; the runtime's function is called with the kernel's
    // arguments.
    unsafe {
        let process = sys!(nr::GETPID);
        let hook = HOOK.load(Ordering::Acquire);
        if process == PROCESS.load(Ordering::Relaxed) && !hook.is_null() {
            let hook: FatalHook = core::mem::transmute(hook);
            if !hook(signal, info, context) {
                return;
            }
        }
        sys!(
            nr::RT_SIGACTION,
            signal,
            default.as_ptr(),
            core::ptr::null_mut::<c_void>(),
            8usize,
            0,
            0
        );
        // Blocked now, and delivered when this handler returns.
        sys!(
            nr::RT_TGSIGQUEUEINFO,
            process,
            sys!(nr::GETTID),
            signal,
            info
        );
    }
}

/// The program is about to set this.
fn expect(signal: c_int, handler: usize) {
    /// Of signal(2): an error.
    const SIG_ERR: usize = usize::MAX;
    /// Of sigset(3): blocked.
    const SIG_HOLD: usize = 2;
    if (1..=64).contains(&signal) && ![SIG_DFL, SIG_IGN, SIG_HOLD, SIG_ERR].contains(&handler) {
        turns::expect_handler(signal);
    }
}

/// libc's sigaction(2).
///
/// # Safety
/// As libc's.
unsafe fn real_sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's function has this type.
    unsafe {
        let real: unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int =
            core::mem::transmute(next(&REAL, c"sigaction"));
        real(signal, new, old)
    }
}

/// sigaction(2) as the program sees it.
///
/// # Safety
/// As libc's.
unsafe fn hidden_sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the caller's structures are valid or null.
    unsafe {
        if !new.is_null() {
            expect(signal, (*new).handler);
        }
        if !is_listening(signal) {
            return real_sigaction(signal, new, old);
        }
        let wanted = (!new.is_null()).then(|| match *new {
            action @ Action {
                handler: SIG_DFL, ..
            } => action.armed(),
            action => action,
        });
        let result = real_sigaction(
            signal,
            wanted
                .as_ref()
                .map_or(core::ptr::null(), core::ptr::from_ref),
            old,
        );
        if result == 0 && !old.is_null() && (*old).is_ours() {
            *old = (*old).shown();
        }
        result
    }
}

/// libc's functions of these names.
macro_rules! actions {
    ($($name:ident)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, new: *const c_void, old: *mut c_void) -> c_int {
            // SAFETY: handed on to the caller; glibc's structure is the one above.
            unsafe { hidden_sigaction(signal, new.cast(), old.cast()) }
        }
    )*};
}

actions! { sigaction __sigaction }

/// libc's functions of the kind of signal(2): a handler for a handler.
macro_rules! handlers {
    ($($name:ident)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            expect(signal, handler);
            const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
            // SAFETY: libc's function has this type.
            let old = unsafe {
                let real: unsafe extern "C" fn(c_int, usize) -> usize = core::mem::transmute(next(&REAL, NAME));
                real(signal, handler)
            };
            if !is_listening(signal) {
                return old;
            }
            if handler == SIG_DFL {
                arm(signal);
            }
            if old == on_fatal as *const () as usize { SIG_DFL } else { old }
        }
    )*};
}

handlers! { signal bsd_signal ssignal sysv_signal __sysv_signal sigset }
