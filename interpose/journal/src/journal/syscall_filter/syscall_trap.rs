//! Start and end of the system call filter, and its signal handler.
#![allow(unsafe_code)]

use super::filter_state::{CallDisposition, FilterState, syscall};
use super::{emulate, files, queries};
use crate::journal::inputs::{Inputs, ReplayInputs};
use crate::journal::replay_progress;
use crate::{DOOR, Runtime};
use std::ffi::{c_int, c_long, c_void};
use std::io;
use understudy_abi::assembly::return_from_signal;
use understudy_abi::{STUB_PAGE, ZONE_END, ZONE_START};
use understudy_policy::syscall_dispositions::{self, Disposition};

const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
const DISPATCH_OFF: libc::c_ulong = 0;
const DISPATCH_ON: libc::c_ulong = 1;

/// `SYSCALL_DISPATCH_FILTER_BLOCK`: dispatch every call from outside of the range.
static SELECTOR: u8 = 1;
const PAGE: usize = 4096;

/// Length in bytes of the kernel's set of signals.
const SIGNAL_SET: i64 = 8;

/// Starts to filter the system calls of the program side.
///
/// `inputs` is the record of the outcomes of system calls. Files in memory of an earlier phase
/// stay.
pub fn start(rt: &Runtime, inputs: Inputs) -> io::Result<()> {
    let new_state = || {
        let mut filter = FilterState::default();
        let old = filter.on_sigsys.as_mut_ptr() as i64;
        // SAFETY: rt_sigaction(2) fills the structure.
        unsafe {
            syscall(
                libc::SYS_rt_sigaction,
                &[libc::SIGSYS.into(), 0, old, SIGNAL_SET, 0, 0],
            )
        };
        filter
    };
    rt.journal
        .filter
        .borrow_mut()
        .get_or_insert_with(new_state)
        .inputs = ReplayInputs::new(inputs);
    // SAFETY: `on_sigsys` has the kernel's type of a handler. The handler may be entered while it
    // runs (SA_NODEFER): the runtime's own libc makes its system calls from the stub page, which is
    // outside of the reserved range. The handler may therefore interrupt the runtime's allocator,
    // and does not allocate for calls from that page.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigsys as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGSYS);
        if libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) != 0
            || libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) != 0
        {
            return Err(io::Error::last_os_error());
        }
        dispatch(
            DISPATCH_ON,
            ZONE_START as u64,
            (ZONE_END - ZONE_START) as u64,
            &raw const SELECTOR,
        )
    }
}

/// Stops the filter that [`start`] started, and returns the record of the inputs.
pub fn stop(rt: &Runtime) -> io::Result<Inputs> {
    // SAFETY: prctl(2) with null pointers accesses no memory.
    unsafe { dispatch(DISPATCH_OFF, 0, 0, std::ptr::null())? };
    let inputs = std::mem::take(
        &mut rt
            .journal
            .filter
            .borrow_mut()
            .get_or_insert_default()
            .inputs,
    );
    Ok(inputs.into_inputs())
}

/// Replaces a file that was open before the phase, at its old position.
pub fn replace_open_file(
    rt: &Runtime,
    descriptor: c_int,
    flags: c_int,
    offset: i64,
) -> Result<(), String> {
    files::replace_open_file(
        rt.journal.filter.borrow_mut().get_or_insert_default(),
        descriptor,
        flags,
        offset,
    )
}

/// Returns the message about a file that has changed, by its number.
pub fn changed_message(rt: &Runtime, input: u64) -> String {
    files::changed_message(
        &rt.journal
            .filter
            .borrow_mut()
            .get_or_insert_default()
            .inputs
            .path(input as u32),
    )
}

unsafe fn dispatch(
    mode: libc::c_ulong,
    from: u64,
    length: u64,
    selector: *const u8,
) -> io::Result<()> {
    // SAFETY: prctl(2) writes no memory; the caller's selector is null or a static variable.
    match unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, from, length, selector) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_sigsys(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let rt = DOOR.get();
    // SAFETY: the kernel passes a context that belongs to this call of the handler.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let number = registers[libc::REG_RAX as usize];
    let order = [
        libc::REG_RDI,
        libc::REG_RSI,
        libc::REG_RDX,
        libc::REG_R10,
        libc::REG_R8,
        libc::REG_R9,
    ];
    let arguments = order.map(|register| registers[register as usize]);
    let from = registers[libc::REG_RIP as usize] as usize;
    if (STUB_PAGE..STUB_PAGE + PAGE).contains(&from) {
        // SAFETY: this is the call that the program, or this library's libc, made.
        registers[libc::REG_RAX as usize] = unsafe { syscall(number, &arguments) };
        return;
    }
    if number == libc::SYS_rt_sigreturn {
        // The call needs the program's stack, but must come from inside of the reserved range.
        registers[libc::REG_RIP as usize] = return_from_signal as *const () as i64;
        return;
    }
    registers[libc::REG_RAX as usize] = match decide(rt, number, &arguments) {
        // SAFETY: this is the call that the program made.
        CallDisposition::Pass => unsafe { syscall(number, &arguments) },
        CallDisposition::ReturnValue(value) => value,
        CallDisposition::EndReplay => replay_progress::end_for_system_call(number as u64),
        CallDisposition::InputChanged(input) => replay_progress::end_for_input(input),
    };
}

/// Returns the disposition of a system call.
///
/// The state of the filter is taken out of its cell while the call is handled. If a signal handler
/// of the program interrupts this function and makes a call that needs the state, the replay ends.
/// System calls of the runtime's allocator do not need the state.
fn decide(rt: &Runtime, number: c_long, arguments: &[i64; 6]) -> CallDisposition {
    let answer = match syscall_dispositions::disposition_of(number) {
        Disposition::Pass => return CallDisposition::Pass,
        Disposition::ReportSuccess => return CallDisposition::ReturnValue(0),
        Disposition::Abort => return CallDisposition::EndReplay,
        Disposition::Emulate if emulate::is_anonymous_mmap(number, arguments) => {
            return CallDisposition::Pass;
        }
        Disposition::Query => queries::decide,
        Disposition::Emulate => emulate::decide,
    };
    let Some(mut filter) = rt.journal.filter.take() else {
        return CallDisposition::EndReplay;
    };
    let disposition = answer(&mut filter, number, arguments);
    rt.journal.filter.set(Some(filter));
    disposition
}
