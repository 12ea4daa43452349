//! Threads of the user side: counted, since an understudy cannot bring them back; and one at the start, see below.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// How many threads the user side has created.
static CREATED: AtomicU32 = AtomicU32::new(0);
/// The main thread's control block.
static MAIN: AtomicUsize = AtomicUsize::new(0);
/// The main thread is in pthread_create(3).
static MAIN_CREATES: AtomicBool = AtomicBool::new(false);

/// The calling thread's control block, which points to itself at fs:0x10.
fn control_block() -> usize {
    let own: usize;
    // SAFETY: a word of glibc's thread control block on x86-64.
    unsafe { core::arch::asm!("mov {}, fs:[0x10]", out(reg) own, options(nostack, readonly, preserves_flags)) };
    own
}

/// The calling thread is the main one.
pub fn remember_main() {
    MAIN.store(control_block(), Ordering::Relaxed);
}

/// Whether what ld.so allocates now, on the user side, is for another thread than the main one.
pub fn is_for_another() -> bool {
    MAIN_CREATES.load(Ordering::Relaxed) || control_block() != MAIN.load(Ordering::Relaxed)
}

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
    let is_main = control_block() == MAIN.load(Ordering::Relaxed);
    if is_main {
        MAIN_CREATES.store(true, Ordering::Relaxed);
    }
    // SAFETY: handed on to the caller.
    let result = unsafe { real_create()(thread, attributes, start, argument) };
    if is_main {
        MAIN_CREATES.store(false, Ordering::Relaxed);
    }
    result
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
