//! Threads of the runtime and MPI sides: on separate stacks and without the program's signals.
//!
//! ld.so keeps one cache of thread stacks for all namespaces. Without precautions, the stack of a
//! runtime thread that has exited would enter this cache, and could become the stack of a program
//! thread. ld.so does not cache a stack that the caller provides, so the shim provides all stacks.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use understudy_abi::OWN_SIGNALS;

type Create =
    unsafe extern "C" fn(*mut usize, *const Attributes, *const c_void, *mut c_void) -> c_int;

/// glibc's `pthread_attr_t` on x86-64: 56 bytes.
#[repr(C, align(8))]
pub struct Attributes([u8; 56]);

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn pthread_attr_init(attributes: *mut Attributes) -> c_int;
    fn pthread_attr_setstack(attributes: *mut Attributes, stack: *mut c_void, size: usize)
    -> c_int;
    fn pthread_attr_getstacksize(attributes: *const Attributes, size: *mut usize) -> c_int;
    fn pthread_attr_getdetachstate(attributes: *const Attributes, state: *mut c_int) -> c_int;
    fn pthread_attr_setdetachstate(attributes: *mut Attributes, state: c_int) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const u64, previous: *mut u64) -> c_int;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> c_int;
    fn mmap(
        address: *mut c_void,
        length: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
}

/// Returns the address of libc's function of this name (RTLD_NEXT of dlsym(3)).
///
/// `cache` contains the address, or zero before the first call.
pub fn libc_function(cache: &AtomicUsize, name: &core::ffi::CStr) -> usize {
    let mut real = cache.load(Ordering::Relaxed);
    if real == 0 {
        const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
        // SAFETY: dlsym(3) from this library, which precedes libc in the search order.
        real = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) } as usize;
        cache.store(real, Ordering::Relaxed);
    }
    real
}

static CREATE: AtomicUsize = AtomicUsize::new(0);
const EAGAIN: c_int = 11;

/// pthread_create(3) with an explicit stack.
///
/// The stack is not freed when the thread exits. The runtime side has few threads, which live as
/// long as the process; a reinit unmaps all memory of the MPI side.
///
/// # Safety
/// The requirements of pthread_create(3) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut usize,
    attributes: *const Attributes,
    start: *const c_void,
    argument: *mut c_void,
) -> c_int {
    const PROT_READ_WRITE: c_int = 3;
    const MAP_PRIVATE_ANONYMOUS_NORESERVE: c_int = 0x4022;
    const MIN_SIZE: usize = 2 << 20;
    const MAX_SIZE: usize = 64 << 20;
    let mut changed = Attributes([0; 56]);
    // SAFETY: the caller meets the requirements of pthread_create(3). The attributes have glibc's
    // size, and the stack is new memory that only the thread uses.
    unsafe {
        let real: Create = core::mem::transmute(libc_function(&CREATE, c"pthread_create"));
        pthread_attr_init(&mut changed);
        let mut size = 0;
        if !attributes.is_null() {
            let mut detached = 0;
            pthread_attr_getstacksize(attributes, &mut size);
            pthread_attr_getdetachstate(attributes, &mut detached);
            pthread_attr_setdetachstate(&mut changed, detached);
        }
        let size = size.clamp(MIN_SIZE, MAX_SIZE);
        let stack = mmap(
            core::ptr::null_mut(),
            size,
            PROT_READ_WRITE,
            MAP_PRIVATE_ANONYMOUS_NORESERVE,
            -1,
            0,
        );
        if stack as isize == -1 {
            return EAGAIN;
        }
        pthread_attr_setstack(&mut changed, stack, size);
        // The new thread inherits the signal mask.
        let previous = set_mask(SIG_BLOCK, !OWN_SIGNALS);
        let result = real(thread, &changed, start, argument);
        set_mask(SIG_SETMASK, previous);
        result
    }
}

const SIG_BLOCK: c_int = 0;
const SIG_SETMASK: c_int = 2;
/// Length of glibc's `sigset_t`, whose first word is the kernel's set.
const SET_WORDS: usize = 16;

/// Changes the signal mask of this thread, and returns the previous mask.
fn set_mask(how: c_int, signals: u64) -> u64 {
    let mut set = [0u64; SET_WORDS];
    let mut previous = [0u64; SET_WORDS];
    set[0] = signals;
    // SAFETY: pthread_sigmask(3) accesses the two sets in this frame, which have glibc's size.
    unsafe { pthread_sigmask(how, set.as_ptr(), previous.as_mut_ptr()) };
    previous[0]
}

/// Function to call after each `pthread_cancel`.
///
/// Null on the runtime side, which cancels no threads.
static AFTER_CANCELLATION: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the function to call after each `pthread_cancel`.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_after_cancellation(function: extern "C" fn()) {
    AFTER_CANCELLATION.store(function as *mut c_void, Ordering::Relaxed);
}

/// pthread_cancel(3).
///
/// libc's function installs libc's handler of SIGCANCEL. [`AFTER_CANCELLATION`] then restores the
/// runtime's handler.
///
/// # Safety
/// The requirements of pthread_cancel(3) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: usize) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function has this type, and the caller meets its requirements;
    // `AFTER_CANCELLATION` is null or a function of this type.
    unsafe {
        let real: unsafe extern "C" fn(usize) -> c_int =
            core::mem::transmute(libc_function(&REAL, c"pthread_cancel"));
        let result = real(thread);
        let function = AFTER_CANCELLATION.load(Ordering::Relaxed);
        if !function.is_null() {
            core::mem::transmute::<*mut c_void, extern "C" fn()>(function)();
        }
        result
    }
}

extern "C" fn return_at_once(_: *mut c_void) -> *mut c_void {
    core::ptr::null_mut()
}

/// Creates and joins one thread.
///
/// Afterwards this libc takes its locks even while only one thread exists.
///
/// A libc that has never had a second thread skips locking. ld.so's lock is shared with the other
/// namespaces' libcs, whose threads this libc does not count.
pub fn make_libc_multithreaded() -> c_int {
    let mut thread = 0;
    let start: extern "C" fn(*mut c_void) -> *mut c_void = return_at_once;
    // SAFETY: the start function accepts any argument, and the thread is joined once.
    unsafe {
        match pthread_create(
            &mut thread,
            core::ptr::null(),
            start as *const c_void,
            core::ptr::null_mut(),
        ) {
            0 => pthread_join(thread, core::ptr::null_mut()),
            error => error,
        }
    }
}
