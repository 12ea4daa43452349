//! Observation of every call of the library, for tests of what a network device writes.
//!
//! An observer is told before and after each call of the library, and can then hide the library's
//! writes from the kernel's tracking, as if a device had made them.
//!
//! The call goes through [`observed_call`], whose address replaces that of the procedure. An
//! abandoned call ([`crate::call`]) drops its frame, so the observer runs while the signal that
//! abandons calls is blocked.
#![allow(unsafe_code)]

use crate::call::{FRAME, INTERRUPT};
use crate::library::Procedure;
use crate::procedures::PROCEDURES;
use crate::side::signals::SignalGuard;
use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::Mutex;

/// Observer of the library's calls.
pub trait CallObserver: Send {
    /// Called before the library is called.
    fn before(&mut self);
    /// Called when the library has returned.
    fn after(&mut self);
}

/// Observer of this process, which tests may set.
static OBSERVER: Mutex<Option<Box<dyn CallObserver>>> = Mutex::new(None);

/// Sets the observer of the procedures in these slots.
pub fn observe(slots: impl Iterator<Item = usize>, observer: Box<dyn CallObserver>) {
    if let Ok(mut present) = OBSERVER.lock() {
        *present = Some(observer);
    }
    for slot in slots {
        PROCEDURES[slot].lead_through(observed_call as *mut c_void);
    }
}

/// Passes the observer to a function, unless the observer itself is making a call.
fn with_observer(notify: impl FnOnce(&mut dyn CallObserver)) {
    let _guard = SignalGuard::for_signal(INTERRUPT);
    if let Ok(mut observer) = OBSERVER.try_lock()
        && let Some(observer) = &mut *observer
    {
        notify(&mut **observer);
    }
}

extern "C" fn before_call() {
    with_observer(|observer| observer.before());
}

extern "C" fn after_call() {
    with_observer(|observer| observer.after());
}

/// Calls a procedure, with the observer before and after.
///
/// r11 has the address of the field [`Procedure::ADDRESS`] in the procedure's row. The return
/// address is kept in rbx, because the stack arguments must follow the procedure's own return
/// address; the caller's frame ([`FRAME`]) has the value that rbx must have again.
#[unsafe(naked)]
unsafe extern "C" fn observed_call() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push r11",
        "call {before}",
        "pop r11",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbx",
        "call qword ptr [r11 + {library}]",
        "push rbx",
        "push rax",
        "call {after}",
        "pop rax",
        "mov rcx, qword ptr [rip + {frame}]",
        "mov rbx, qword ptr [rcx + 40]",
        "ret",
        before = sym before_call,
        after = sym after_call,
        frame = sym FRAME,
        library = const Procedure::LIBRARY - Procedure::ADDRESS,
    )
}
