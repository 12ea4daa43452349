//! Children that the program forks, which keep no descriptor of the MPI side.
//!
//! A descriptor of a network device keeps the kernel's context of the device alive. As long as a
//! child had a copy, the device could write into the rank's memory after a reset of the MPI side.
//! A child has no use for these descriptors, because it must not call MPI. The shim excludes
//! mappings of devices (`interpose/shim/src/device_mappings.rs`).
//!
//! Children that are made without libc's fork(3), such as by clone(2), run no handler.
#![allow(unsafe_code)]

use crate::closing::RESERVED_DESCRIPTORS;
use crate::sys::{nr, sys};
use core::ffi::{c_int, c_void};
use understudy_abi::MPI_FD_BASE;
use understudy_abi::reserved_descriptors::ReservedDescriptors;

type Handler = extern "C" fn();

unsafe extern "C" {
    /// libc's function behind pthread_atfork(3); without `library` the handlers are permanent.
    fn __register_atfork(
        prepare: Option<Handler>,
        parent: Option<Handler>,
        child: Option<Handler>,
        library: *const c_void,
    ) -> c_int;
}

/// Makes each child that the program forks close the descriptors of the MPI side.
///
/// The handler is the first one of the process, so it precedes handlers of the program. libc's list
/// of handlers is part of the program's memory, and the handler's address is equal in all ranks.
pub fn close_mpi_descriptors() {
    // SAFETY: the handler makes system calls only. The list has room for the first handlers, so the
    // function cannot fail.
    unsafe { __register_atfork(None, None, Some(close_in_child), core::ptr::null()) };
}

/// Closes the descriptors of the MPI side, in a new child.
///
/// The child's children have the numbers for themselves, so the set forgets them.
extern "C" fn close_in_child() {
    for fd in
        (MPI_FD_BASE..ReservedDescriptors::END).filter(|fd| RESERVED_DESCRIPTORS.contains(*fd))
    {
        RESERVED_DESCRIPTORS.remove(fd);
        // SAFETY: close(2) of a descriptor that no code of the child uses.
        unsafe { sys!(nr::CLOSE, fd) };
    }
}
