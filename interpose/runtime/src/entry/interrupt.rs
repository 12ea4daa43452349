//! Rollback of a worker that does not call MPI after another one has failed.
//!
//! The worker may compute for a long time, or wait for the failed worker by other means than MPI,
//! such as shared memory or a file. All other workers wait for this worker. The node manager
//! therefore sends [`call::INTERRUPT`] to the worker's main thread, and the signal handler changes
//! the thread's registers so that the thread calls the runtime. The interrupted code is never
//! continued, since the program's state is restored as a whole. The states of the runtime and of
//! ld.so, which both sides share, are not restored. A thread that runs their code is therefore left
//! alone until the next signal.
#![allow(unsafe_code)]

use crate::arch::{LEAVE, RECOVER};
use crate::calls::runtime;
use crate::{arch, job, process_info, recovery, system_calls, user, world};
use std::ffi::c_void;
use understudy_abi::{STUB_PAGE, ZONE_END, ZONE_START};
use understudy_mpi::call;

/// Length in bytes of the red zone (System V ABI for AMD64, 3.2.2).
///
/// A function may use these bytes below the stack pointer.
const RED_ZONE: i64 = 128;

/// Registers the handlers of calls that a signal or the program's end causes.
pub fn register_handlers() {
    arch::set_handler(RECOVER, recover as *const () as *mut c_void);
    arch::set_handler(LEAVE, leave as *const () as *mut c_void);
    call::set_outside_handler(make_thread_call);
}

/// True for addresses in the reserved range, the stub page, ld.so or the preload library.
fn is_outside_program(address: usize) -> bool {
    let info = process_info::info();
    let is_in = |start: usize, length: usize| (start..start + length).contains(&address);
    (ZONE_START..ZONE_END).contains(&address)
        || is_in(STUB_PAGE, 4096)
        || is_in(info.loader_base, info.loader_length)
        || is_in(info.preload_base, info.preload_length)
}

/// Makes the main thread enter the runtime when the signal handler returns.
///
/// Only a thread that runs code of the program makes the call. A thread that runs a stoppable
/// function does not make the call, but leaves this function, if a stop is due.
fn make_thread_call(context: &mut libc::ucontext_t) {
    if !call::is_over() && !arch::is_stoppable() {
        return;
    }
    let can_roll_back = world::is_protected() && world::is_worker() && arch::top_frame().is_some();
    let registers = &mut context.uc_mcontext.gregs;
    let [stack, code] =
        [libc::REG_RSP, libc::REG_RIP].map(|register| registers[register as usize] as usize);
    let is_in_program = !is_outside_program(stack) && !is_outside_program(code);
    if arch::is_stoppable() {
        if is_in_program && !user::is_loader_locked() {
            arch::stop_if_due(context);
        }
        return;
    }
    // ld.so also holds its lock while it calls a library's constructor.
    if !(can_roll_back && is_in_program && call::is_thread(call::MAIN_THREAD))
        || user::is_loader_locked()
    {
        return;
    }
    // The stack is aligned as at a call; the return address is never used.
    registers[libc::REG_RSP as usize] = ((stack as i64 - RED_ZONE) & !15) - 8;
    registers[libc::REG_RAX as usize] = RECOVER as i64;
    // SAFETY: a variable of the preload library. With several threads it leads to the MPI lock.
    registers[libc::REG_RIP as usize] =
        unsafe { process_info::info().entry.read_volatile() } as i64;
}

/// Handler of the call that [`make_thread_call`] causes.
unsafe extern "C" fn recover() -> u64 {
    let rt = runtime();
    if recovery::check(rt, call::ABANDONED).is_ok() {
        // The interrupted code cannot be returned to.
        system_calls::kill_self();
    }
    0
}

/// Handler of the call that ends the program by exit(3).
unsafe extern "C" fn leave() -> u64 {
    // A signal handler may have interrupted the runtime.
    if let Some(rt) = crate::DOOR.try_get() {
        // The result does not matter at the end.
        let _ = job::end_of_sessions(rt);
    }
    0
}
