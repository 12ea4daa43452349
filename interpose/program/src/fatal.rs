//! Records a fatal signal of this process and its place in the program.
//!
//! The record goes to the ledger, from which the surviving processes read it.
//!
//! All functions run in a signal handler, on the stack that the program used, and may have
//! interrupted any code. The functions therefore neither allocate memory nor take a lock. The
//! signal is recorded first, then its place, then the backtrace: in the order of increasing risk.
//! If the stack is damaged, walking it may fault, which only ends the walk.
#![allow(unsafe_code)]

mod places;

use crate::{arch, unwinder, user};
use places::Place;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use understudy_abi::{ZONE_END, ZONE_START};
use understudy_mpi::call;
use understudy_relay::{FRAMES, NoteCell};

/// Faults that may occur while a damaged stack is walked.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// True while a signal is being recorded.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Addresses of the frames, innermost first.
struct Walk {
    /// Address of the instruction that the signal interrupted.
    ///
    /// Frames further in belong to the handler.
    from: u64,
    /// True once the walk has reached the interrupted frame.
    is_past_handler: bool,
    count: usize,
    frames: [u64; FRAMES],
}

/// Handles a fatal signal for the preload library.
///
/// Returns true if the signal's default action has to follow.
///
/// # Safety
/// Must be called in a signal handler, with the kernel's arguments.
pub unsafe extern "C" fn on_signal(
    signal: c_int,
    info: *const c_void,
    context: *mut c_void,
) -> bool {
    // SAFETY: the kernel's structures, which are valid during the handler.
    let (info, context) = unsafe {
        (
            &*info.cast::<libc::siginfo_t>(),
            &mut *context.cast::<libc::ucontext_t>(),
        )
    };
    if is_of_the_program(info) && call::outlives_fault(context) {
        return false;
    }
    if is_of_the_program(info) && arch::is_at_risk() && !is_in_zone(context) {
        return !arch::stop(context, arch::Stopped::Fault);
    }
    if BUSY.swap(true, Ordering::Relaxed) {
        return !arch::escape_from(context);
    }
    if let Some(note) = user::note_cell() {
        // SAFETY: the kernel has set the address for faults. For other signals the field contains a
        // process id and is not used.
        note.begin(signal, info.si_code, unsafe { info.si_addr() } as u64);
        if is_of_the_program(info) {
            note_places(note, arch::interrupted_at(context));
        }
    }
    BUSY.store(false, Ordering::Relaxed);
    true
}

/// True if this process itself is the cause.
///
/// False if another process sent the signal, or the hardware reported a memory error
/// (sigaction(2)). In these cases no place is recorded.
fn is_of_the_program(info: &libc::siginfo_t) -> bool {
    const BUS_MCEERR_AR: c_int = 4;
    const BUS_MCEERR_AO: c_int = 5;
    if info.si_signo == libc::SIGBUS && matches!(info.si_code, BUS_MCEERR_AR | BUS_MCEERR_AO) {
        return false;
    }
    // SAFETY: a signal with a code of zero or less was sent by a process, and has its id.
    info.si_code > 0 || unsafe { info.si_pid() == libc::getpid() }
}

/// True if the stack is on the runtime side.
fn is_in_zone(context: &libc::ucontext_t) -> bool {
    (ZONE_START..ZONE_END).contains(&(context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize))
}

fn note_places(note: &NoteCell, from: u64) {
    let mut walk = Walk {
        from,
        is_past_handler: false,
        count: 1,
        frames: [0; FRAMES],
    };
    walk.frames[0] = from;
    let mut places = [const { Place::UNKNOWN }; FRAMES];
    // Recorded separately, in case the rest fails.
    places::find(&walk.frames[..1], &mut places);
    note.add_frame(from, places[0].offset, places[0].module());
    with_faults_allowed(|| {
        // SAFETY: `add_caller` only writes to `walk`, so a walk may be ended at any point.
        unsafe { arch::guarded((&raw mut walk).cast(), walk_stack) };
    });
    let callers = &walk.frames[1..walk.count.min(FRAMES)];
    places::find(callers, &mut places);
    for (&address, place) in callers.iter().zip(&places) {
        note.add_frame(address, place.offset, place.module());
    }
}

/// Unblocks faults during `walk`, although this is the handler of a fault.
fn with_faults_allowed(walk: impl FnOnce()) {
    // SAFETY: sigprocmask(2) with sets of this frame.
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

unsafe extern "C" fn add_caller(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `note_places` passes its `Walk`, the unwinder a valid context.
    let (walk, address) = unsafe {
        (
            &mut *walk.cast::<Walk>(),
            unwinder::_Unwind_GetIP(context) as u64,
        )
    };
    if !walk.is_past_handler {
        walk.is_past_handler = address == walk.from;
        return unwinder::NO_REASON;
    }
    if walk.count >= FRAMES || address == 0 {
        return unwinder::END_OF_STACK;
    }
    walk.frames[walk.count] = address;
    walk.count += 1;
    unwinder::NO_REASON
}
