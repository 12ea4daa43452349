//! Path from a thunk to a handler and back on x86-64; [`crate::arch`] has the picture.
#![allow(unsafe_code)]

use crate::arch::{
    AFTER_HANDLER, BASE, CALL_STATE, CallState, DEPART, DISPATCH, DIVERTED, EXECUTE, FRAME_SIZE,
    OFFSET_OF_RBP, OFFSET_OF_RBX, OFFSET_OF_RSP, RECORD, RECOVER, TOP, divert_to,
};
use crate::calls::HANDLERS;
use crate::entry::program;
use crate::generated::{SLOT_COUNT, STACK_WORDS};
use crate::runtime_state::MAIN_THREAD;
use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use understudy_abi::{ZONE_SHIFT, ZONE_TAG, on_other_stack};

/// Fills the dispatch table.
///
/// `forward` returns the address for slots that are functions of the real library or of libc.
pub fn fill_dispatch(forward: impl Fn(usize) -> *mut c_void) {
    for (slot, handler) in HANDLERS.iter().enumerate() {
        let address = if handler.is_forward() {
            forward(slot)
        } else {
            program::handler(slot).cast_mut().cast()
        };
        DISPATCH[slot].store(address, Ordering::Relaxed);
    }
    divert_to(enter_diverted);
    for (slot, entry) in DISPATCH.iter().enumerate().take(RECOVER).skip(SLOT_COUNT) {
        entry.store(forward(slot), Ordering::Relaxed);
    }
}

/// Defines the entries to which the thunks of the preload library jump.
///
/// The slot is in `eax`; everything else is as at the call. The entries differ in the number of
/// words of stack arguments that they copy. They copy eight bytes at a time, as a program stores
/// them: a wider load would wait for the stores.
///
/// The CFI lets a debugger walk from a handler to the application: the canonical frame address is
/// eight bytes above the stack pointer that the frame holds (DWARF 5, 6.4.2:
/// `DW_CFA_def_cfa_expression`, `DW_CFA_expression`).
macro_rules! entries {
    ($($name:ident: $doc:literal $(, $copy:literal)*;)*) => {$(
        #[doc = $doc]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov r10, qword ptr fs:[0x10]",
                "mov r11, rsp",
                "cmp r10, qword ptr [rip + {owner}]",
                "jne 8f",
                "mov rsp, qword ptr [rip + {top}]",
                "mov dword ptr [rip + {state}], {begun}",
                ".cfi_def_cfa r11, 8",
                "push r11",
                "push rbx",
                "push rbp",
                "push r12",
                "push r13",
                "push r14",
                "push r15",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "push rax",
                "mov rbp, rsp",
                // The handler preserves rbx, so most calls need not load the program's stack
                // pointer from the frame.
                "mov rbx, r11",
                // CFA = *(rbp + 104) + 8; the caller's rbp is at rbp + 88.
                ".cfi_escape 0x0f, 0x06, 0x76, 0xe8, 0x00, 0x06, 0x23, 0x08",
                ".cfi_escape 0x10, 0x06, 0x03, 0x76, 0xd8, 0x00",
                // And the caller's rbx at rbp + 96.
                ".cfi_escape 0x10, 0x03, 0x03, 0x76, 0xe0, 0x00",
                $($copy,)*
                "lea r10, [rip + {handlers}]",
                "call qword ptr [r10 + rax * 8]",
                "cmp byte ptr [rip + {after}], 0",
                "jne {resume}",
                "mov byte ptr [rip + {state} + {in_call}], 0",
                "mov rsp, rbx",
                ".cfi_def_cfa rsp, 8",
                "mov rbx, qword ptr [rbp + {off_rbx}]",
                ".cfi_same_value rbx",
                "mov rbp, qword ptr [rbp + {off_rbp}]",
                ".cfi_same_value rbp",
                "ret",
                // Another thread stays on its own stack. The slot becomes the third argument, after
                // the program's first two arguments.
                "8:",
                "mov edx, eax",
                "jmp {foreign}",
                ".cfi_endproc",
                owner = sym MAIN_THREAD,
                top = sym TOP,
                state = sym CALL_STATE,
                begun = const CallState::BEGUN,
                in_call = const CallState::OFFSET_OF_IN_CALL,
                handlers = sym DISPATCH,
                after = sym AFTER_HANDLER,
                resume = sym resume,
                foreign = sym crate::calls::from_another_thread,
                off_rbp = const OFFSET_OF_RBP,
                off_rbx = const OFFSET_OF_RBX,
            )
        }
    )*};
}

entries! {
    enter_few: "Enters procedures with up to six arguments.";
    enter_some: "Enters procedures with up to eight arguments.",
        "push qword ptr [r11 + 16]", "push qword ptr [r11 + 8]";
    enter_many: "Enters procedures with up to fourteen arguments.",
        "push qword ptr [r11 + 64]", "push qword ptr [r11 + 56]", "push qword ptr [r11 + 48]",
        "push qword ptr [r11 + 40]", "push qword ptr [r11 + 32]", "push qword ptr [r11 + 24]",
        "push qword ptr [r11 + 16]", "push qword ptr [r11 + 8]";
}

/// Entries in the order of `STACK_WORDS`, for the thunks of the preload library only.
pub const ENTRIES: [unsafe extern "C" fn(); understudy_abi::ENTRIES] =
    [enter_few, enter_some, enter_many];

const _: () = assert!(STACK_WORDS[0] == 0 && STACK_WORDS[1] == 2 && STACK_WORDS[2] == 8);

/// Returns from a handler if `AFTER_HANDLER` is not zero.
///
/// - With `RECORD` the outcome of the call is recorded in the journal first. The results, rax and
///   xmm0, are saved meanwhile.
/// - Without `EXECUTE` the call returns to the program.
/// - With `EXECUTE` a recovery has replaced the frame by that of the cut. The outermost frame is
///   used, since the recovery may have left callbacks. The registers are loaded from this frame,
///   and the handler of its slot is called: the program's call at the cut is repeated. If `DEPART`
///   is set, that function is called instead.
#[unsafe(naked)]
unsafe extern "C" fn resume() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_escape 0x0f, 0x06, 0x76, 0xe8, 0x00, 0x06, 0x23, 0x08",
        ".cfi_escape 0x10, 0x06, 0x03, 0x76, 0xd8, 0x00",
        "test byte ptr [rip + {after}], {record}",
        "je 2f",
        "push rax",
        "sub rsp, 8",
        "movsd qword ptr [rsp], xmm0",
        "mov rdi, rbp",
        "mov rsi, rax",
        "movq rdx, xmm0",
        "call {record_call}",
        "movsd xmm0, qword ptr [rsp]",
        "add rsp, 8",
        "pop rax",
        "2:",
        "test byte ptr [rip + {after}], {execute}",
        "jne 3f",
        "mov byte ptr [rip + {state} + {in_call}], 0",
        "mov rsp, qword ptr [rbp + {off_rsp}]",
        "mov rbx, qword ptr [rbp + {off_rbx}]",
        "mov rbp, qword ptr [rbp + {off_rbp}]",
        "ret",
        "3:",
        "and byte ptr [rip + {after}], {others}",
        // Selects the outermost frame, since the recovery may have left callbacks.
        "mov rbp, qword ptr [rip + {base}]",
        "sub rbp, {frame_size}",
        "mov rsp, rbp",
        "mov rax, qword ptr [rip + {depart}]",
        "test rax, rax",
        "jne 4f",
        "mov rax, qword ptr [rbp]",
        "mov rdi, qword ptr [rbp + 8]",
        "mov rsi, qword ptr [rbp + 16]",
        "mov rdx, qword ptr [rbp + 24]",
        "mov rcx, qword ptr [rbp + 32]",
        "mov r8, qword ptr [rbp + 40]",
        "mov r9, qword ptr [rbp + 48]",
        "mov r15, qword ptr [rbp + 56]",
        "mov r14, qword ptr [rbp + 64]",
        "mov r13, qword ptr [rbp + 72]",
        "mov r12, qword ptr [rbp + 80]",
        "mov rbx, qword ptr [rbp + 96]",
        "mov r11, qword ptr [rbp + {off_rsp}]",
        "push qword ptr [r11 + 64]",
        "push qword ptr [r11 + 56]",
        "push qword ptr [r11 + 48]",
        "push qword ptr [r11 + 40]",
        "push qword ptr [r11 + 32]",
        "push qword ptr [r11 + 24]",
        "push qword ptr [r11 + 16]",
        "push qword ptr [r11 + 8]",
        "lea r10, [rip + {handlers}]",
        "call qword ptr [r10 + rax * 8]",
        "cmp byte ptr [rip + {after}], 0",
        "jne {resume}",
        "mov byte ptr [rip + {state} + {in_call}], 0",
        "mov rsp, qword ptr [rbp + {off_rsp}]",
        ".cfi_def_cfa rsp, 8",
        "mov rbp, qword ptr [rbp + {off_rbp}]",
        ".cfi_same_value rbp",
        "ret",
        "4: mov qword ptr [rip + {depart}], 0",
        "call rax",
        "ud2",
        ".cfi_endproc",
        handlers = sym DISPATCH,
        depart = sym DEPART,
        state = sym CALL_STATE,
        in_call = const CallState::OFFSET_OF_IN_CALL,
        after = sym AFTER_HANDLER,
        resume = sym resume,
        record_call = sym crate::journal::record_call,
        record = const RECORD,
        execute = const EXECUTE,
        others = const !EXECUTE,
        base = sym BASE,
        frame_size = const FRAME_SIZE,
        off_rsp = const OFFSET_OF_RSP,
        off_rbp = const OFFSET_OF_RBP,
        off_rbx = const OFFSET_OF_RBX,
    )
}

/// Saves the slot and the argument registers across a call.
///
/// The seven registers and the return address keep the stack aligned.
macro_rules! save_arguments {
    () => {
        "push rax; push rdi; push rsi; push rdx; push rcx; push r8; push r9; \
         .cfi_adjust_cfa_offset 56"
    };
}

/// Restores the slot and the argument registers.
macro_rules! restore_arguments {
    () => {
        "pop r9; pop r8; pop rcx; pop rdx; pop rsi; pop rdi; pop rax; .cfi_adjust_cfa_offset -56"
    };
}

/// Entry in front of handlers that may wait for other workers without polling.
///
/// Runs while workers agree on a cut at any call ([`crate::cut`]). Registers are as for
/// [`crate::arch::DISPATCH`], with the slot in `rax`.
#[unsafe(naked)]
unsafe extern "C" fn enter_diverted() {
    naked_asm!(
        ".cfi_startproc",
        save_arguments!(),
        "call {leave}",
        "mov r11d, eax",
        restore_arguments!(),
        "test r11b, r11b",
        "jne 9f",
        "lea r10, [rip + {handlers}]",
        "mov r10, qword ptr [r10 + rax * 8]",
        "test r10, r10",
        "jne 8f",
        // The diversion has just been removed.
        "lea r10, [rip + {dispatch}]",
        "mov r10, qword ptr [r10 + rax * 8]",
        "8: jmp r10",
        "9: xor eax, eax",
        "ret",
        ".cfi_endproc",
        leave = sym crate::cut::leave_by_call,
        handlers = sym DIVERTED,
        dispatch = sym DISPATCH,
    )
}

/// Receives the preload library's call before an effect on files.
///
/// The call has up to six register arguments. It continues on the runtime's stack, below the part
/// in use and below the frame of the last call, which stays readable
/// ([`crate::checkpoint_watchdog`]). Calls by the runtime itself are ignored, and those of other
/// threads go to [`crate::user::record_unlocked_effect`].
///
/// # Safety
/// The arguments must be those of [`understudy_abi::effect::Hook`].
#[unsafe(naked)]
pub unsafe extern "C" fn file_effect() {
    naked_asm!(
        ".cfi_startproc",
        "mov r10, qword ptr fs:[0x10]",
        "cmp r10, qword ptr [rip + {owner}]",
        "jne {others}",
        "mov r10, rsp",
        "shr r10, {zone_shift}",
        "cmp r10, {zone_tag}",
        "je 9f",
        on_other_stack!(
            "mov rsp, qword ptr [rip + {top}]",
            "sub rsp, {frame_size}",
            "call {record_effect}",
        ),
        "9: ret",
        ".cfi_endproc",
        owner = sym MAIN_THREAD,
        top = sym TOP,
        frame_size = const FRAME_SIZE,
        record_effect = sym crate::user::file_effect,
        others = sym crate::user::record_unlocked_effect,
        zone_shift = const ZONE_SHIFT,
        zone_tag = const ZONE_TAG,
    )
}

/// Implements `enter_many`, which serves every procedure, with calls counted.
///
/// At a call for which a fault is due, [`crate::fault::strike_at_call`] is called first.
///
/// # Safety
/// As [`ENTRIES`].
#[unsafe(naked)]
pub unsafe extern "C" fn enter_counted() {
    naked_asm!(
        ".cfi_startproc",
        "mov r10, qword ptr [rip + {calls}]",
        "inc r10",
        "mov qword ptr [rip + {calls}], r10",
        "cmp r10, qword ptr [rip + {due}]",
        "jne {enter}",
        save_arguments!(),
        "call {call_is_due}",
        restore_arguments!(),
        "jmp {enter}",
        ".cfi_endproc",
        calls = sym crate::fault::CALLS,
        due = sym crate::fault::NEXT_FAULT_CALL,
        call_is_due = sym crate::fault::strike_at_call,
        enter = sym enter_many,
    )
}
