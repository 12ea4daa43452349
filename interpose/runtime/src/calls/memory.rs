//! Memory that MPI hands out or is handed (MPI 4.1, sections 3.6 and 9.2).
//!
//! MPI_Alloc_mem takes the program's own malloc, so that the memory is in the image. A buffer for buffered sends stays
//! the program's to look at, but the real library gets one of the runtime's: what lies in it must not roll back.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::arch::call_user;
use crate::attempt;
use crate::boot::user_symbol;
use crate::cell::Main;
use crate::errors::{ERR_BUFFER, SUCCESS, finish};
use crate::generated::{Proc, real};
use crate::handles::VirtInfo;
use std::ffi::{c_int, c_void};

/// The program's buffer for buffered sends.
#[derive(Clone, Copy, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Attached {
    address: u64,
    size: i32,
}

static ATTACHED: Main<Option<Attached>> = Main::new(None);
static BUFFER: Main<Vec<u8>> = Main::new(Vec::new());

/// What is attached, to be saved with a cut.
pub fn attached() -> Option<Attached> {
    *ATTACHED.get()
}

/// Attaches again what was attached at a cut.
pub fn restore_attached(saved: Option<Attached>) {
    let now = ATTACHED.get();
    if now.map(|buffer| buffer.size) != saved.map(|buffer| buffer.size) {
        if now.is_some() {
            detach_real();
        }
        if let Some(buffer) = saved {
            attach_real(buffer.size);
        }
    }
    *now = saved;
}

fn attach_real(size: c_int) -> c_int {
    let buffer = BUFFER.get();
    *buffer = vec![0; size.max(0) as usize];
    // SAFETY: a buffer of the runtime's, kept until it is detached.
    unsafe { real::PMPI_Buffer_attach(buffer.as_mut_ptr().cast(), size) }
}

fn detach_real() -> c_int {
    let (mut address, mut size) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: MPI_Buffer_detach writes the address and the size.
    let rc = unsafe { real::PMPI_Buffer_detach((&raw mut address).cast(), &mut size) };
    *BUFFER.get() = Vec::new();
    rc
}

/// `MPI_Buffer_attach`
pub unsafe extern "C" fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) -> c_int {
    if ATTACHED.get().is_some() {
        return finish(Proc::MPI_Buffer_attach, ERR_BUFFER, None);
    }
    let rc = attach_real(size);
    if rc == SUCCESS {
        *ATTACHED.get() = Some(Attached {
            address: buffer as u64,
            size,
        });
    }
    finish(Proc::MPI_Buffer_attach, rc, None)
}

/// `MPI_Buffer_detach`
pub unsafe extern "C" fn MPI_Buffer_detach(buffer: *mut c_void, size: *mut c_int) -> c_int {
    let Some(attached) = *ATTACHED.get() else {
        return finish(Proc::MPI_Buffer_detach, ERR_BUFFER, None);
    };
    let rc = attempt!(detach_real());
    *ATTACHED.get() = None;
    // SAFETY: the program's arguments: where the address and the size go.
    unsafe {
        buffer.cast::<u64>().write(attached.address);
        size.write(attached.size);
    }
    finish(Proc::MPI_Buffer_detach, rc, None)
}

/// `MPI_Alloc_mem`
pub unsafe extern "C" fn MPI_Alloc_mem(size: isize, _info: VirtInfo, baseptr: *mut c_void) -> c_int {
    const ERR_NO_MEM: c_int = 39;
    // SAFETY: the program's malloc(3), called on its own stack; `baseptr` is where the address goes.
    unsafe {
        let block = call_user(user_symbol("malloc") as *const c_void, size.max(1) as u64, 0, 0, 0, 0);
        baseptr.cast::<u64>().write(block);
        finish(Proc::MPI_Alloc_mem, if block == 0 { ERR_NO_MEM } else { SUCCESS }, None)
    }
}

/// `MPI_Free_mem`
pub unsafe extern "C" fn MPI_Free_mem(base: *mut c_void) -> c_int {
    // SAFETY: the program's free(3), called on its own stack.
    unsafe { call_user(user_symbol("free") as *const c_void, base as u64, 0, 0, 0, 0) };
    SUCCESS
}
