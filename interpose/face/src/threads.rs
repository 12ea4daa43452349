//! Threads of the user side: counted, since an understudy cannot bring them back; and one at the start, see below.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How many threads the user side has created.
static CREATED: AtomicU32 = AtomicU32::new(0);

/// Where the runtime may read the number of threads that the user side has created.
pub fn created() -> *const u32 {
    CREATED.as_ptr()
}

type Create = unsafe extern "C" fn(*mut usize, *const c_void, *const c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn pthread_attr_init(attributes: *mut Attributes) -> c_int;
    fn pthread_attr_setstack(attributes: *mut Attributes, stack: *mut c_void, size: usize) -> c_int;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> c_int;
}

/// glibc's `pthread_attr_t` on x86-64: 56 bytes.
#[repr(C, align(8))]
struct Attributes([u8; 56]);

fn real_create() -> Create {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    let mut real = REAL.load(Ordering::Relaxed);
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    if real.is_null() {
        // SAFETY: dlsym(3).
        real = unsafe { dlsym(RTLD_NEXT, c"pthread_create".as_ptr()) };
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: libc's pthread_create has this type.
    unsafe { core::mem::transmute(real) }
}

/// pthread_create(3) of the user side: counts.
///
/// # Safety
/// As pthread_create(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut usize,
    attributes: *const c_void,
    start: *const c_void,
    argument: *mut c_void,
) -> c_int {
    CREATED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: handed on to the caller.
    unsafe { real_create()(thread, attributes, start, argument) }
}

extern "C" fn nothing(_: *mut c_void) -> *mut c_void {
    core::ptr::null_mut()
}

/// Creates and joins one thread, on a stack of ours, which ld.so's shared cache of stacks will not keep.
///
/// A libc that has never had a second thread skips atomics and wake-ups. ld.so's lock is shared by both libcs, so each
/// of them must know that there are threads; otherwise the other one's waiters are not woken.
pub fn make_libc_multithreaded() -> Result<(), c_int> {
    const STACK_SIZE: usize = 256 << 10;
    let stack = crate::sys::map_anonymous(understudy_abi::ZONE_START + (512 << 20), STACK_SIZE, 0)?;
    let mut attributes = Attributes([0; 56]);
    let mut thread = 0;
    // SAFETY: pthread_create(3) with a stack of our own, and join.
    unsafe {
        pthread_attr_init(&mut attributes);
        pthread_attr_setstack(&mut attributes, stack as *mut c_void, STACK_SIZE);
        let start: extern "C" fn(*mut c_void) -> *mut c_void = nothing;
        match real_create()(
            &mut thread,
            (&raw const attributes).cast(),
            start as *const c_void,
            core::ptr::null_mut(),
        ) {
            0 => match pthread_join(thread, core::ptr::null_mut()) {
                0 => Ok(()),
                error => Err(error),
            },
            error => Err(error),
        }
    }
}
