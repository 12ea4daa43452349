//! System V semaphores and message queues of the program.
//!
//! The objects are recorded for the runtime, which saves and restores them. The program's
//! identifiers are replaced by those of the kernel ([`understudy_abi::system_v`]).
#![allow(unsafe_code)]

use crate::effect_reports::report;
use crate::exclusive_creation::open_or_create;
use crate::kernel_use::KERNEL_USE;
use crate::libc::next_function;
use crate::{stop, threads};
use core::ffi::{CStr, c_char, c_int, c_long, c_short, c_ushort, c_void};
use understudy_abi::effect;
use understudy_abi::exclusive_creation::Attempt;
use understudy_abi::system_v::{CREATED, MESSAGES, SEMAPHORES, UNDO};

const IPC_PRIVATE: c_int = 0;
const IPC_CREAT: c_int = 0o1000;
const IPC_EXCL: c_int = 0o2000;
const IPC_RMID: c_int = 0;
const SEM_UNDO: c_short = 0x1000;
/// Maximum number of operations in one call by default (semop(2), SEMOPM).
const MAX_OPERATIONS: usize = 500;

/// Commands whose first argument is no identifier, of semctl(2) and of msgctl(2).
///
/// ipcs(1) uses these commands (`linux/ipc.h`, `linux/sem.h`, `linux/msg.h`).
const IPC_INFO: c_int = 3;
const SEM_STAT: c_int = 18;
const SEM_INFO: c_int = 19;
const SEM_STAT_ANY: c_int = 20;
const MSG_STAT: c_int = 11;
const MSG_INFO: c_int = 12;
const MSG_STAT_ANY: c_int = 13;

/// Returns true for commands of semctl(2) and msgctl(2) whose first argument is no identifier.
fn takes_no_identifier(kind: i64, command: c_int) -> bool {
    match kind {
        SEMAPHORES => matches!(command, IPC_INFO | SEM_STAT | SEM_INFO | SEM_STAT_ANY),
        _ => matches!(command, IPC_INFO | MSG_STAT | MSG_INFO | MSG_STAT_ANY),
    }
}

/// `struct sembuf` of semop(2).
#[repr(C)]
pub struct Operation {
    semaphore: c_ushort,
    value: c_short,
    flags: c_short,
}

/// Creates or opens an object, and returns the identifier for the program.
///
/// `call` creates or opens the object with the given flags. [`CREATED`] is set for private objects
/// only: other processes can open an object that has a key.
fn get(kind: i64, (key, flags): (c_int, c_int), call: impl Fn(c_int) -> c_int) -> c_int {
    let is_blocked = threads::block_stops();
    let is_private = key == IPC_PRIVATE;
    let (mut identifier, is_new) = if !is_private && flags & (IPC_CREAT | IPC_EXCL) == IPC_CREAT {
        open_or_create(|attempt| match attempt {
            Attempt::Create => call(flags | IPC_EXCL),
            Attempt::Open => call(flags & !IPC_CREAT),
        })
    } else {
        let identifier = call(flags);
        let may_create = is_private || flags & IPC_CREAT != 0;
        (identifier, may_create && identifier >= 0)
    };
    let mut has_report_blocked = false;
    if identifier >= 0 {
        // SAFETY: `report` permits a null pointer in place of the string.
        has_report_blocked = is_new
            && unsafe { report(effect::SYSTEM_V_OBJECT, identifier, core::ptr::null(), kind) };
        let object_flags = if is_private { CREATED } else { 0 };
        identifier = KERNEL_USE.objects.open(kind, identifier, object_flags);
    }
    if is_blocked || has_report_blocked {
        stop::unblock();
    }
    identifier
}

/// semget(2).
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semget(key: c_int, count: c_int, flags: c_int) -> c_int {
    get(SEMAPHORES, (key, flags), |flags| {
        // SAFETY: libc's function has this type, and the caller meets its requirements.
        unsafe {
            let real = next_function!(
                c"semget",
                unsafe extern "C" fn(c_int, c_int, c_int) -> c_int
            );
            real(key, count, flags)
        }
    })
}

/// msgget(2).
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgget(key: c_int, flags: c_int) -> c_int {
    get(MESSAGES, (key, flags), |flags| {
        // SAFETY: libc's function has this type, and the caller meets its requirements.
        unsafe {
            let real = next_function!(c"msgget", unsafe extern "C" fn(c_int, c_int) -> c_int);
            real(key, flags)
        }
    })
}

/// Makes a call of semctl(2) or msgctl(2) with the real identifier of an object.
fn control(
    kind: i64,
    (identifier, command): (c_int, c_int),
    call: impl FnOnce(c_int) -> c_int,
) -> c_int {
    if takes_no_identifier(kind, command) {
        return call(identifier);
    }
    let is_blocked = threads::block_stops();
    let result = call(KERNEL_USE.objects.real_for_call(kind, identifier, 0));
    if command == IPC_RMID && result == 0 {
        KERNEL_USE.objects.remove(kind, identifier);
    }
    if is_blocked {
        stop::unblock();
    }
    result
}

/// semctl(2).
///
/// The variable argument is passed in a register.
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semctl(
    identifier: c_int,
    semaphore: c_int,
    command: c_int,
    argument: usize,
) -> c_int {
    control(SEMAPHORES, (identifier, command), |identifier| {
        // SAFETY: libc's function has this type, and the caller meets its requirements.
        unsafe {
            let real = next_function!(
                c"semctl",
                unsafe extern "C" fn(c_int, c_int, c_int, usize) -> c_int
            );
            real(identifier, semaphore, command, argument)
        }
    })
}

/// msgctl(2).
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgctl(
    identifier: c_int,
    command: c_int,
    description: *mut c_void,
) -> c_int {
    control(MESSAGES, (identifier, command), |identifier| {
        // SAFETY: libc's function has this type, and the caller meets its requirements.
        unsafe {
            let real = next_function!(
                c"msgctl",
                unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int
            );
            real(identifier, command, description)
        }
    })
}

/// Returns the kernel's identifier for operations on semaphores.
///
/// # Safety
/// `operations` must be null or point to `count` operations.
unsafe fn real_semaphores(identifier: c_int, operations: *const Operation, count: usize) -> c_int {
    let operations = match !operations.is_null() && count <= MAX_OPERATIONS {
        // SAFETY: the caller guarantees that `operations`, which is not null, points to `count`
        // operations.
        true => unsafe { core::slice::from_raw_parts(operations, count) },
        false => &[],
    };
    let has_undo = operations
        .iter()
        .any(|operation| operation.flags & SEM_UNDO != 0);
    let flags = if has_undo { UNDO } else { 0 };
    KERNEL_USE
        .objects
        .real_for_call(SEMAPHORES, identifier, flags)
}

/// Returns the kernel's identifier of a message queue.
fn real_queue(identifier: c_int) -> c_int {
    KERNEL_USE.objects.real_for_call(MESSAGES, identifier, 0)
}

/// Defines libc's functions whose first argument is the identifier of an object.
macro_rules! calls {
    ($(
        $object:ident:
        fn $name:ident($identifier:ident: c_int, $($argument:ident: $kind:ty),*) -> $result:ty {
            $real:expr
        }
    )*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($identifier: c_int, $($argument: $kind),*) -> $result {
            const NAME: &CStr = crate::libc::c_name(concat!(stringify!($name), "\0"));
            // SAFETY: libc's function has this type, and the caller meets its requirements.
            unsafe {
                let real =
                    next_function!(NAME, unsafe extern "C" fn(c_int, $($kind),*) -> $result);
                let mut real_identifier = $real;
                loop {
                    let result = real(real_identifier, $($argument),*);
                    // If a recovery has replaced the object while the call was blocked, the call
                    // fails, and is made again for the new object.
                    match KERNEL_USE.objects.real($object, $identifier) {
                        Some(current) if result == -1 && current != real_identifier => {
                            real_identifier = current;
                        }
                        _ => return result,
                    }
                }
            }
        }
    )*};
}

calls! {
    SEMAPHORES:
    fn semop(identifier: c_int, operations: *const Operation, count: usize) -> c_int {
        real_semaphores(identifier, operations, count)
    }
    SEMAPHORES:
    fn semtimedop(
        identifier: c_int, operations: *const Operation, count: usize, timeout: *const c_void
    ) -> c_int {
        real_semaphores(identifier, operations, count)
    }
    MESSAGES:
    fn msgsnd(identifier: c_int, message: *const c_char, size: usize, flags: c_int) -> c_int {
        real_queue(identifier)
    }
    MESSAGES:
    fn msgrcv(
        identifier: c_int, message: *mut c_char, size: usize, kind: c_long, flags: c_int
    ) -> isize {
        real_queue(identifier)
    }
}
