//! Records a fatal signal of this process and its position in the program.
//!
//! The record is written to the ledger, from which the surviving processes read it.
//!
//! All functions run in a signal handler, which may have interrupted any code, on the interrupted
//! stack or on an alternate stack of the program. Therefore they neither allocate memory nor take a
//! lock. The steps are ordered by risk, the safest first: recording the signal, then the position,
//! then the backtrace. A walk over a damaged stack may fault; then the handler is entered again and
//! ends the walk ([`arch::guarded`]).
#![allow(unsafe_code)]

mod file_position;

use crate::{arch, request_signals, unwinder, user};
use file_position::FilePosition;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use understudy_abi::{ZONE_END, ZONE_START};
use understudy_mpi::call;
use understudy_relay::{FRAMES, NoteCell};

/// Faults that may occur while a damaged stack is walked.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// True while a signal is being recorded.
static IS_RECORDING: AtomicBool = AtomicBool::new(false);

/// Addresses of the frames of a walk, innermost first.
struct StackWalk {
    /// Address of the instruction that the signal interrupted.
    ///
    /// Frames that the walk finds before this instruction's frame belong to the handler.
    interrupted_at: u64,
    /// True once the walk has reached the interrupted frame.
    is_past_handler: bool,
    count: usize,
    frames: [u64; FRAMES],
}

/// Handles a fatal signal for the preload library.
///
/// Returns true if the caller must execute the signal's default action.
///
/// # Safety
/// Must be called in a signal handler, with the kernel's arguments.
pub unsafe extern "C" fn on_signal(
    signal: c_int,
    info: *const c_void,
    context: *mut c_void,
) -> bool {
    if request_signals::is_claimed(signal) && !request_signals::record(signal) {
        return false;
    }
    // SAFETY: the caller passes the kernel's structures, which are valid during the handler.
    let (info, context) = unsafe {
        (
            &*info.cast::<libc::siginfo_t>(),
            &mut *context.cast::<libc::ucontext_t>(),
        )
    };
    if is_caused_by_program(info) && call::survive_fault(context) {
        return false;
    }
    if is_caused_by_program(info) && arch::is_stoppable() && !is_on_runtime_stack(context) {
        return !arch::stop(context, arch::StopReason::Fault);
    }
    // The handler is already recording, so its stack walk has caused this fault.
    if IS_RECORDING.swap(true, Ordering::Relaxed) {
        return !arch::escape_from(context);
    }
    if let Some(note) = user::note_cell() {
        // SAFETY: the kernel has filled the structure, whose bytes are a valid address in any case.
        // The field contains an address only for faults; for other signals the number has no
        // meaning.
        note.begin(signal, info.si_code, unsafe { info.si_addr() } as u64);
        if is_caused_by_program(info) {
            record_backtrace(note, arch::interrupted_address(context));
        }
    }
    IS_RECORDING.store(false, Ordering::Relaxed);
    true
}

/// True if this process itself is the cause of the signal.
///
/// False if another process sent the signal, or the hardware reported a memory error
/// (sigaction(2)). In these cases no position is recorded.
fn is_caused_by_program(info: &libc::siginfo_t) -> bool {
    const BUS_MCEERR_AR: c_int = 4;
    const BUS_MCEERR_AO: c_int = 5;
    if info.si_signo == libc::SIGBUS && matches!(info.si_code, BUS_MCEERR_AR | BUS_MCEERR_AO) {
        return false;
    }
    // SAFETY: the kernel has filled the whole structure. A signal with a code of zero or less was
    // sent by a process, so the field contains the sender's process id (sigaction(2)).
    info.si_code > 0 || unsafe { info.si_pid() == libc::getpid() }
}

/// True if the interrupted stack is on the runtime side or the MPI side.
fn is_on_runtime_stack(context: &libc::ucontext_t) -> bool {
    (ZONE_START..ZONE_END).contains(&(context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize))
}

/// Records the interrupted instruction and its callers.
fn record_backtrace(note: &NoteCell, from: u64) {
    let mut walk = StackWalk {
        interrupted_at: from,
        is_past_handler: false,
        count: 1,
        frames: [0; FRAMES],
    };
    walk.frames[0] = from;
    let mut positions = [const { FilePosition::UNKNOWN }; FRAMES];
    // The interrupted instruction is recorded before the walk, because the walk may fail.
    file_position::find(&walk.frames[..1], &mut positions);
    note.add_frame(from, positions[0].offset, positions[0].module());
    with_faults_allowed(|| {
        // SAFETY: `add_caller` only writes to `walk`, so a walk may be ended at any point.
        unsafe { arch::guarded((&raw mut walk).cast(), walk_stack) };
    });
    let callers = &walk.frames[1..walk.count.min(FRAMES)];
    file_position::find(callers, &mut positions);
    for (&address, position) in callers.iter().zip(&positions) {
        note.add_frame(address, position.offset, position.module());
    }
}

/// Unblocks the signals of faults during `walk`.
///
/// The kernel blocks a signal while the signal's handler runs.
fn with_faults_allowed(walk: impl FnOnce()) {
    // SAFETY: zeros are valid signal sets, and sigprocmask(2) accesses only these sets.
    unsafe {
        let (mut faults, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&mut faults);
        for fault in FAULTS {
            libc::sigaddset(&mut faults, fault);
        }
        libc::sigprocmask(libc::SIG_UNBLOCK, &faults, &mut before);
        walk();
        libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

unsafe extern "C" fn walk_stack(walk: *mut c_void) {
    // SAFETY: _Unwind_Backtrace passes this argument to `add_caller`.
    unsafe { unwinder::_Unwind_Backtrace(add_caller, walk) };
}

/// Adds a frame to the [`StackWalk`]; the unwinder calls this function for each frame.
unsafe extern "C" fn add_caller(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `record_backtrace` passes its `StackWalk`, the unwinder a valid context.
    let (walk, address) = unsafe {
        (
            &mut *walk.cast::<StackWalk>(),
            unwinder::_Unwind_GetIP(context) as u64,
        )
    };
    if !walk.is_past_handler {
        walk.is_past_handler = address == walk.interrupted_at;
        return unwinder::CONTINUE_WALK;
    }
    if walk.count >= FRAMES || address == 0 {
        return unwinder::END_OF_STACK;
    }
    walk.frames[walk.count] = address;
    walk.count += 1;
    unwinder::CONTINUE_WALK
}
