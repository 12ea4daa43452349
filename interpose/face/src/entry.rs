//! Targets of the thunks, before and after the runtime is loaded.
//!
//! An unprotected program may load an MPI library late, as an interpreter does that imports an MPI
//! module. ld.so binds the calls of such a program to this library, too. The thunks then call the
//! real libmpi, which is opened in the program's namespace at the first call.
#![allow(unsafe_code)]

use crate::environ;
use crate::link::{self, Path};
use crate::messages::{Text, print};
use crate::stack::with_arguments_kept;
use crate::sys;
use crate::thunks::{DATA_ADDRESSES, DATA_SYMBOLS, DataAddress, SLOT_NAMES, STACK_WORDS};
use crate::unprepared;
use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use understudy_abi::ENTRIES;
use understudy_catalogue::message;

const _: () = assert!(STACK_WORDS.len() == ENTRIES);

/// Targets of the thunks, by the number of words of stack arguments (`STACK_WORDS`).
///
/// A target is called with the slot in `eax`; all other registers are as the program has left them.
pub static ENTRY: [AtomicPtr<c_void>; ENTRIES] =
    [const { AtomicPtr::new(pass_through as *mut c_void) }; ENTRIES];

/// Addresses of the real procedures for [`pass_through`]; 0 before a procedure's first call.
static REAL: [AtomicUsize; SLOT_NAMES.len()] = [const { AtomicUsize::new(0) }; SLOT_NAMES.len()];

unsafe extern "C" {
    fn dlmopen(namespace: c_long, path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    static mut environ: *const *const c_char;
}

/// Returns true if thunks call the real library.
#[cfg(all(feature = "mpich", not(feature = "standard")))]
pub fn passes_through() -> bool {
    ENTRY[0].load(Ordering::Acquire) == pass_through as *mut c_void
}

/// Finds the real procedure and jumps to it with unchanged argument registers.
#[unsafe(naked)]
unsafe extern "C" fn pass_through() {
    naked_asm!(
        "mov eax, eax",
        "lea r10, [rip + {real}]",
        "mov r10, qword ptr [r10 + rax * 8]",
        "test r10, r10",
        "jnz 2f",
        with_arguments_kept!(
            "push rbp",
            "mov rbp, rsp",
            "and rsp, -16",
            "mov edi, eax",
            "call {resolve}",
            "mov rsp, rbp",
            "pop rbp",
            "mov r10, rax",
        ),
        "2: jmp r10",
        real = sym REAL,
        resolve = sym resolve,
    )
}

/// Returns the address of a slot's real procedure, and stores it for later calls.
extern "C" fn resolve(slot: u32) -> usize {
    static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    let mut handle = HANDLE.load(Ordering::Acquire);
    if handle.is_null() {
        handle = open_real();
        HANDLE.store(handle, Ordering::Release);
    }
    let name = SLOT_NAMES[slot as usize];
    // SAFETY: dlsym(3) with a terminated string and the handle of a library that stays open.
    let mut address = unsafe { dlsym(handle, name.as_ptr()) } as usize;
    if address == 0 {
        address = find_mpix(handle, name.to_bytes_with_nul());
    }
    if address == 0 {
        print(&message::missing_mpi_procedure(Text(name.to_bytes())));
        sys::exit(127);
    }
    REAL[slot as usize].store(address, Ordering::Release);
    address
}

/// Returns the address of a persistent collective, which Open MPI 4 exports as MPIX_….
///
/// The result is 0 for other procedures.
fn find_mpix(handle: *mut c_void, name: &[u8]) -> usize {
    let mut mpix_name = [0u8; 64];
    match name.strip_prefix(b"MPI_") {
        Some(rest) if name.ends_with(b"_init\0") && rest.len() + 5 <= mpix_name.len() => {
            mpix_name[..5].copy_from_slice(b"MPIX_");
            mpix_name[5..5 + rest.len()].copy_from_slice(rest);
            // SAFETY: dlsym(3) with a terminated string and the handle of an open library.
            unsafe { dlsym(handle, mpix_name.as_ptr().cast()) as usize }
        }
        _ => 0,
    }
}

/// Opens the real libmpi, and copies its data symbols' contents to the program's symbols.
///
/// The real libmpi is opened by its path: for its soname, ld.so would return this library. The
/// program's data symbols are those of this library, or copies in the program (copy relocations).
/// Their contents must be the real library's, as if ld.so had bound the symbols to the real
/// library.
fn open_real() -> *mut c_void {
    const RTLD_NOW_GLOBAL: c_int = 0x102;
    const LM_ID_BASE: c_long = 0;
    let mut path = Path::new();
    // SAFETY: libc keeps a valid environment in `environ`. dlmopen(3) and dlsym(3) receive
    // terminated strings. The copied size is that of the table, which both definitions of a data
    // symbol have.
    unsafe {
        unprepared::report(environ);
        // The real library's process manager is the launcher.
        environ = environ::of_launcher(environ).unwrap_or(environ);
        let library_path = environ::value(environ, b"LD_LIBRARY_PATH=").unwrap_or(b"");
        if let Some(requested) = link::requested_file().filter(|file| file.is_file()) {
            path.push(requested.as_bytes());
        } else if !link::find_library(link::OUR_SONAME, library_path, &mut path) {
            print(&link::not_found());
            sys::exit(127);
        }
        let handle = dlmopen(LM_ID_BASE, path.as_ptr(), RTLD_NOW_GLOBAL);
        if handle.is_null() {
            print(&message::mpi_library_not_opened(Text(path.as_bytes())));
            sys::exit(127);
        }
        for (name, size) in DATA_SYMBOLS {
            let (real, visible) = (
                dlsym(handle, name.as_ptr()),
                dlsym(core::ptr::null_mut(), name.as_ptr()),
            );
            if !real.is_null() && !visible.is_null() && real != visible {
                core::ptr::copy_nonoverlapping(real.cast::<u8>(), visible.cast::<u8>(), size);
            }
        }
        handle
    }
}

/// Returns the address of each data symbol of libmpi in the program, in table order.
pub fn data_symbol_addresses() -> &'static [DataAddress] {
    &DATA_ADDRESSES
}

/// Makes the thunks jump to the runtime's entries from now on.
pub fn connect(entries: &[*const c_void; ENTRIES]) {
    for (entry, target) in ENTRY.iter().zip(entries) {
        entry.store(target.cast_mut(), Ordering::Release);
    }
}

pub fn slot_count() -> usize {
    SLOT_NAMES.len()
}
