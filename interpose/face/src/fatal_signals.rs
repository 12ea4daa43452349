//! Signals that terminate the program.
//!
//! The runtime records the instruction and the address that caused the signal. Then the default
//! action of the signal follows, unless the runtime prevents it ([`FatalHook`]).
//!
//! The handler is installed for signals that have their default action, and is hidden from the
//! program. If the program calls sigaction(2) or a similar function of libc, it sees the default
//! action in place of the handler; a handler that the program sets replaces this one. Only direct
//! system calls show the handler. At a signal, the handler first calls the runtime, then restores
//! the default action and queues the signal again with its `siginfo_t`. The signal is delivered
//! when the handler returns, at the interrupted instruction. The process is therefore terminated
//! at that instruction, and a core dump shows the program's frames.
//!
//! Signals that request a checkpoint (`UNDERSTUDY_CHECKPOINT_ON`) are *claimed*: they keep the
//! handler whatever the program sets. The program sees its own last action in place of the handler.
//!
//! The handler's address is equal in all ranks, so the kernel's table of signal actions can be
//! saved and restored unchanged.
#![allow(unsafe_code)]

use crate::libc::{c_name, next};
use crate::mpi_lock;
use crate::sys::{nr, sys};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU64, Ordering};
use understudy_abi::FatalHook;

/// `SIGILL`, `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGSEGV`
const SIGNALS: [c_int; 5] = [4, 6, 7, 8, 11];

const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SA_SIGINFO: c_int = 4;
const SA_ONSTACK: c_int = 0x0800_0000;
const SA_RESTART: c_int = 0x1000_0000;
/// Flags that the handler needs.
///
/// sigaction(2) does not report these flags to the program, not even if the program itself has set
/// them for the default action.
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

    /// Returns the action that the kernel receives in place of the program's default action.
    fn with_handler(self) -> Action {
        Action {
            handler: on_fatal as *const () as usize,
            flags: self.flags | OWN_FLAGS,
            ..self
        }
    }

    /// Returns the action that the program sees in place of the handler.
    fn without_handler(self) -> Action {
        Action {
            handler: SIG_DFL,
            flags: self.flags & !OWN_FLAGS,
            ..self
        }
    }
}

/// The runtime's function, or null in an unprotected process.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// Process for which the function is registered; child processes inherit the handler.
static PROCESS: AtomicIsize = AtomicIsize::new(0);

/// Lowest signal number that cannot be claimed.
const MAX_CLAIMED: usize = 16;
/// Signals that keep the handler whatever the program sets; bit `n - 1` is signal `n`.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

/// Actions that the program has set for claimed signals, by number.
struct ClaimedActions(UnsafeCell<[Action; MAX_CLAIMED]>);

// SAFETY: only the functions of this file that stand in for sigaction(2) use the actions. Threads
// that set actions of one signal at once get one of them, or parts of both, in a later query only.
unsafe impl Sync for ClaimedActions {}

static CLAIMED_ACTIONS: ClaimedActions =
    ClaimedActions(UnsafeCell::new([Action::DEFAULT; MAX_CLAIMED]));

/// Makes the handler call the runtime's function at fatal signals from now on.
///
/// `claimed` are the signals that keep the handler.
pub fn connect(hook: *const c_void, claimed: u64) {
    // SAFETY: getpid(2) has no preconditions.
    PROCESS.store(unsafe { sys!(nr::GETPID) }, Ordering::Relaxed);
    HOOK.store(hook.cast_mut(), Ordering::Release);
    for signal in SIGNALS {
        install_handler(signal);
    }
    for signal in (1..MAX_CLAIMED as c_int).filter(|signal| claimed >> (signal - 1) & 1 != 0) {
        let mut action = Action::DEFAULT.with_handler();
        action.flags |= SA_RESTART;
        let slot = claimed_action(signal);
        // SAFETY: the structures are valid, and the handler is made for these signals.
        unsafe { real_sigaction(signal, &action, slot) };
    }
    CLAIMED.store(claimed, Ordering::Release);
}

fn is_claimed(signal: c_int) -> bool {
    (1..MAX_CLAIMED as c_int).contains(&signal)
        && CLAIMED.load(Ordering::Relaxed) >> (signal - 1) & 1 != 0
}

/// Returns the action that the program has set for a claimed signal.
fn claimed_action(signal: c_int) -> *mut Action {
    // SAFETY: the index is less than the length, as `is_claimed` and `connect` ensure.
    unsafe {
        CLAIMED_ACTIONS
            .0
            .get()
            .cast::<Action>()
            .add(signal as usize)
    }
}

/// Installs the handler if the signal has its default action.
fn install_handler(signal: c_int) {
    let mut current = Action::DEFAULT;
    // SAFETY: the structures are local variables of the type that sigaction(2) requires, and the
    // handler is made for these signals.
    unsafe {
        if real_sigaction(signal, core::ptr::null(), &mut current) == 0
            && current.handler == SIG_DFL
        {
            real_sigaction(signal, &current.with_handler(), core::ptr::null_mut());
        }
    }
}

fn is_handled(signal: c_int) -> bool {
    SIGNALS.contains(&signal) && !HOOK.load(Ordering::Relaxed).is_null()
}

unsafe extern "C" fn on_fatal(signal: c_int, info: *const c_void, context: *mut c_void) {
    let default = [0usize; 4];
    // SAFETY: the kernel passes valid arguments to the handler. `connect` has stored the runtime's
    // function of this type; the system calls concern this process only.
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
        // The signal is blocked now, and is delivered when this handler returns.
        sys!(
            nr::RT_TGSIGQUEUEINFO,
            process,
            sys!(nr::GETTID),
            signal,
            info
        );
    }
}

/// Notifies the MPI lock of a handler that the program is about to set.
fn announce_handler(signal: c_int, handler: usize) {
    /// Value of signal(2) for an error.
    const SIG_ERR: usize = usize::MAX;
    /// Value of sigset(3) for a blocked signal.
    const SIG_HOLD: usize = 2;
    if (1..=64).contains(&signal) && ![SIG_DFL, SIG_IGN, SIG_HOLD, SIG_ERR].contains(&handler) {
        mpi_lock::expect_handler(signal);
    }
}

/// libc's sigaction(2).
///
/// # Safety
/// The requirements of libc's function apply.
unsafe fn real_sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int =
            core::mem::transmute(next(&REAL, c"sigaction"));
        real(signal, new, old)
    }
}

/// sigaction(2) as the program sees it.
///
/// # Safety
/// The requirements of libc's function apply.
unsafe fn hidden_sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the caller meets the requirements of libc's function, so its structures are valid or
    // null.
    unsafe {
        if !new.is_null() {
            announce_handler(signal, (*new).handler);
        }
        if is_claimed(signal) {
            let slot = claimed_action(signal);
            let before = *slot;
            if !new.is_null() {
                *slot = *new;
            }
            if !old.is_null() {
                *old = before;
            }
            return 0;
        }
        if !is_handled(signal) {
            return real_sigaction(signal, new, old);
        }
        let replaced = (!new.is_null()).then(|| match *new {
            action @ Action {
                handler: SIG_DFL, ..
            } => action.with_handler(),
            action => action,
        });
        let result = real_sigaction(
            signal,
            replaced
                .as_ref()
                .map_or(core::ptr::null(), core::ptr::from_ref),
            old,
        );
        if result == 0 && !old.is_null() && (*old).is_ours() {
            *old = (*old).without_handler();
        }
        result
    }
}

/// Defines libc's functions with the signature of sigaction(2).
macro_rules! actions {
    ($($name:ident)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            signal: c_int, new: *const c_void, old: *mut c_void
        ) -> c_int {
            // SAFETY: the caller meets the requirements of libc's function; glibc's structure is
            // [`Action`].
            unsafe { hidden_sigaction(signal, new.cast(), old.cast()) }
        }
    )*};
}

actions! { sigaction __sigaction }

/// Defines libc's functions with the signature of signal(2), which take and return a handler.
macro_rules! handlers {
    ($($name:ident)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            announce_handler(signal, handler);
            const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
            if is_claimed(signal) {
                let action = Action { handler, flags: SA_RESTART, ..Action::DEFAULT };
                // SAFETY: the slot is an action of this signal.
                return unsafe { core::mem::replace(&mut *claimed_action(signal), action).handler };
            }
            // SAFETY: libc's function has this type, and the caller meets its requirements.
            let old = unsafe {
                let real: unsafe extern "C" fn(c_int, usize) -> usize =
                    core::mem::transmute(next(&REAL, NAME));
                real(signal, handler)
            };
            if !is_handled(signal) {
                return old;
            }
            if handler == SIG_DFL {
                install_handler(signal);
            }
            if old == on_fatal as *const () as usize { SIG_DFL } else { old }
        }
    )*};
}

handlers! { signal bsd_signal ssignal sysv_signal __sysv_signal sigset }
