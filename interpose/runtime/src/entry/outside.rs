//! A worker that does not come into MPI although another one has died: it is set back from wherever
//! it is.
//!
//! It may compute for long, or wait for the dead one by other means than MPI: in memory that they
//! share, say, or for a file. All others wait for it meanwhile. The process manager then sends
//! [`call::INTERRUPT`] to its main thread, whose handler has the thread make a call. What it was
//! about does not matter, as the program's state is put back as a whole. But the runtime's is not,
//! nor is that of ld.so, which both sides share: who is in there is left alone until the next
//! signal.
#![allow(unsafe_code)]

use crate::arch::{LEAVE, RECOVER};
use crate::calls::runtime;
use crate::{arch, job, recovery, sys, told, user, world};
use std::ffi::c_void;
use understudy_abi::{STUB_PAGE, ZONE_END, ZONE_START};
use understudy_mpi::call;

/// Bytes below the stack pointer that a function may use (System V ABI for AMD64, 3.2.2).
const RED_ZONE: i64 = 128;

/// From now on the main thread can be called in, and calls in itself when the program ends.
pub fn begin() {
    arch::set_handler(RECOVER, recover as *const () as *mut c_void);
    arch::set_handler(LEAVE, leave as *const () as *mut c_void);
    call::lead_in(lead_in);
}

/// Whether an address is that of the runtime's code, or of code that leads there, or of ld.so.
fn is_not_the_programs(address: usize) -> bool {
    let info = told::info();
    let is_in = |start: usize, length: usize| (start..start + length).contains(&address);
    (ZONE_START..ZONE_END).contains(&address)
        || is_in(STUB_PAGE, 4096)
        || is_in(info.loader_base, info.loader_length)
        || is_in(info.face_base, info.face_length)
}

/// In the handler: lets the main thread call in when that returns, if it is in the program.
fn lead_in(context: &mut libc::ucontext_t) {
    if !call::is_over() && !arch::is_at_risk() {
        return;
    }
    let can_go_back = world::is_protected() && world::is_playing() && arch::top_frame().is_some();
    let registers = &mut context.uc_mcontext.gregs;
    let [stack, code] =
        [libc::REG_RSP, libc::REG_RIP].map(|register| registers[register as usize] as usize);
    let is_in_program = !is_not_the_programs(stack) && !is_not_the_programs(code);
    if arch::is_at_risk() {
        if is_in_program && !user::is_loader_locked() {
            arch::stop_if_due(context);
        }
        return;
    }
    // Locks are held, too, while ld.so calls a library's constructor.
    if !(can_go_back && is_in_program && call::is_thread(call::MAIN_THREAD))
        || user::is_loader_locked()
    {
        return;
    }
    // Aligned as at a call, whose return address nobody returns to.
    registers[libc::REG_RSP as usize] = ((stack as i64 - RED_ZONE) & !15) - 8;
    registers[libc::REG_RAX as usize] = RECOVER as i64;
    // SAFETY: the face's pointer; where threads take turns, it leads to the lock.
    registers[libc::REG_RIP as usize] = unsafe { told::info().entry.read_volatile() } as i64;
}

/// The handler of the call that the thread makes.
unsafe extern "C" fn recover() -> u64 {
    let rt = runtime();
    if recovery::check(rt, call::ABANDONED).is_ok() {
        // There is nothing to return to.
        sys::kill_self();
    }
    0
}

/// The handler of the call that the thread makes which ends the program by exit(3).
unsafe extern "C" fn leave() -> u64 {
    // A signal handler may have interrupted the runtime.
    if let Some(rt) = crate::DOOR.try_get() {
        // Rewound or not, there is nothing left to be done here.
        let _ = job::end_of_sessions(rt);
    }
    0
}
