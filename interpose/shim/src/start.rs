//! Functions that the preload library calls once the namespace's libc is loaded.
#![allow(unsafe_code)]

use crate::{descriptors, streams, threads};
use core::ffi::{CStr, c_char, c_int, c_void};
use understudy_abi::ShimStart;

unsafe extern "C" {
    static mut environ: *const *const c_char;
    fn pthread_key_create(key: *mut u32, destructor: *const c_void) -> c_int;
    fn dl_iterate_phdr(callback: *const c_void, data: *mut c_void) -> c_int;
    fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
}

/// Variables that disable UCX's memory hooks.
///
/// UCX, which Open MPI uses, overwrites the first instructions of libc's mmap and related functions
/// with jumps to its own code. UCX's code would make the system calls without the instructions in
/// libc that the preload library has patched. UCX's libraries read these variables as soon as they
/// are loaded.
///
/// libfabric's registration cache watches only the memory functions of the MPI side as well. A
/// buffer that the program unmaps would stay registered, and a checkpoint would miss what the
/// network writes to that memory.
const NO_MEMORY_HOOKS: [(&CStr, &CStr); 4] = [
    (c"UCX_MEM_MMAP_HOOK_MODE", c"none"),
    (c"UCX_MEM_MALLOC_HOOKS", c"n"),
    (c"UCX_MEM_EVENTS", c"n"),
    (c"FI_MR_CACHE_MONITOR", c"disabled"),
];

/// Variable that is set unless the user has set it.
///
/// UCX would report a lost connection on standard output, among the program's output.
const DEFAULT: (&CStr, &CStr) = (c"UCX_LOG_FILE", c"stderr");

/// Prepares this namespace's libc, whose mmap is already patched.
///
/// Returns 0, or an errno.
///
/// # Safety
/// `start` must be valid; its environment must live as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_shim_start(start: *const ShimStart) -> c_int {
    // SAFETY: the caller guarantees that `start` is valid and its environment lasts. `environ` is
    // this libc's variable, and the process has one thread.
    unsafe {
        let start = &*start;
        environ = start.environment;
        descriptors::lift_to(start.first_descriptor, start.reserved_descriptors);
        streams::redirect_streams(start.output, start.errors);
        for (name, value) in NO_MEMORY_HOOKS {
            setenv(name.as_ptr(), value.as_ptr(), 1);
        }
        let (name, value) = DEFAULT;
        setenv(name.as_ptr(), value.as_ptr(), 0);
        // Lower keys belong to other namespaces (`RUNTIME_FIRST_KEY`). This libc assigns keys in
        // ascending order, so the lower ones are created here and never used.
        let mut key = 0;
        while key + 1 < start.first_key {
            let error = pthread_key_create(&mut key, core::ptr::null());
            if error != 0 {
                return error;
            }
        }
        let error = descriptors::create_key();
        if error != 0 {
            return error;
        }
        threads::make_libc_multithreaded()
    }
}

/// dl_iterate_phdr(3) of this namespace.
///
/// # Safety
/// The requirements of dl_iterate_phdr(3) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn understudy_shim_iterate(
    callback: *const c_void,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the caller meets the requirements of dl_iterate_phdr(3). The call must not be a tail
    // call, because ld.so derives the namespace from the return address.
    let result = unsafe { dl_iterate_phdr(callback, data) };
    core::hint::black_box(result)
}
