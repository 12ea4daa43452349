//! Threads of the user side: counted, and begun so that they can be stopped at once
//! ([`crate::stop`]); and one at the start, see below.
#![allow(unsafe_code)]

use crate::libc::next;
use crate::stop;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use understudy_abi::control_block;
use understudy_abi::turn::SEVERAL;

/// How many threads the user side has created.
static CREATED: AtomicU32 = AtomicU32::new(0);
/// How many timers that start threads.
static TIMERS: AtomicU32 = AtomicU32::new(0);
/// The main thread's control block.
static MAIN: AtomicUsize = AtomicUsize::new(0);
/// The main thread is in pthread_create(3).
static MAIN_CREATES: AtomicBool = AtomicBool::new(false);

/// The calling thread is the main one.
pub fn remember_main() {
    MAIN.store(control_block::address(), Ordering::Relaxed);
}

/// The main thread's control block.
#[inline]
pub fn main() -> usize {
    MAIN.load(Ordering::Relaxed)
}

/// Whether this is the main thread.
pub fn is_main() -> bool {
    control_block::address() == MAIN.load(Ordering::Relaxed)
}

/// Whether what ld.so allocates now, on the user side, is for another thread than the main one.
pub fn is_for_another() -> bool {
    MAIN_CREATES.load(Ordering::Relaxed) || !is_main()
}

/// Where the runtime may read the number of threads that the user side has created.
pub fn created() -> *const u32 {
    CREATED.as_ptr()
}

/// The same of timers that start threads.
pub fn created_for_timers() -> *const u32 {
    TIMERS.as_ptr()
}

#[inline]
pub fn count() -> u32 {
    CREATED.load(Ordering::Relaxed)
}

/// Where it is to be told that there is more than one thread, or null.
static TOLD: AtomicPtr<AtomicU8> = AtomicPtr::new(core::ptr::null_mut());

/// Tells of more than one thread there, now or when there are, by a bit.
pub fn tell(told: *mut AtomicU8) {
    TOLD.store(told, Ordering::Relaxed);
    if count() > 0 {
        tell_of_several();
    }
}

fn tell_of_several() {
    // SAFETY: null, or a byte that lives as long as the process.
    if let Some(told) = unsafe { TOLD.load(Ordering::Relaxed).as_ref() } {
        told.fetch_or(SEVERAL, Ordering::SeqCst);
    }
}

type Create = unsafe extern "C" fn(*mut usize, *const c_void, *const c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    fn pthread_attr_init(attributes: *mut Attributes) -> c_int;
    fn pthread_attr_setstack(attributes: *mut Attributes, stack: *mut c_void, size: usize)
    -> c_int;
}

/// glibc's `pthread_attr_t` on x86-64: 56 bytes.
#[repr(C, align(8))]
struct Attributes([u8; 56]);

fn real_create() -> Create {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's pthread_create has this type.
    unsafe { core::mem::transmute(next(&REAL, c"pthread_create")) }
}

/// libc's, past a library in front of this one that cannot pass it on yet: its constructor runs
/// later.
fn real_join() -> unsafe extern "C" fn(usize, *mut *mut c_void) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's pthread_join has this type.
    unsafe { core::mem::transmute(next(&REAL, c"pthread_join")) }
}

/// A thread that has been created and has not begun.
struct Beginning {
    is_taken: AtomicBool,
    start: AtomicUsize,
    argument: AtomicUsize,
}

/// More threads than these wait for each other at their beginning.
const BEGINNINGS: usize = 64;
/// Nothing of it is in use while all threads stand still: whoever uses a place cannot be stopped.
static BEGINNING: [Beginning; BEGINNINGS] = [const {
    Beginning {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        argument: AtomicUsize::new(0),
    }
}; BEGINNINGS];

fn take_place() -> &'static Beginning {
    loop {
        let is_free = |place: &&Beginning| !place.is_taken.swap(true, Ordering::Acquire);
        if let Some(place) = BEGINNING.iter().find(is_free) {
            return place;
        }
        stop::give_way();
    }
}

/// A thread's function and its argument.
#[repr(C)]
struct Task {
    start: usize,
    argument: usize,
}

/// From here on the new thread can be stopped.
extern "C" fn take_task(place: &Beginning) -> Task {
    let task = Task {
        start: place.start.load(Ordering::Relaxed),
        argument: place.argument.load(Ordering::Relaxed),
    };
    place.is_taken.store(false, Ordering::Release);
    stop::unblock();
    task
}

/// What a new thread does first. Nothing of it stays on the stack: pthread_exit(3) and cancellation
/// walk that.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    core::arch::naked_asm!(
        "sub rsp, 8",
        "call {take}",
        "add rsp, 8",
        "mov rdi, rdx",
        "jmp rax",
        take = sym take_task,
    )
}

/// Creates a thread of the user side, which is counted. A new thread may wait for its creator with
/// all signals blocked, so the creator cannot be stopped meanwhile either.
fn creating(create: impl FnOnce() -> c_int) -> c_int {
    CREATED.fetch_add(1, Ordering::Relaxed);
    tell_of_several();
    let is_main = is_main();
    stop::block();
    if is_main {
        MAIN_CREATES.store(true, Ordering::Relaxed);
    }
    let result = create();
    if is_main {
        MAIN_CREATES.store(false, Ordering::Relaxed);
    }
    stop::unblock();
    result
}

/// Creates a thread that begins in [`begin`] and goes on with this function.
fn begun_by_us(
    start: *const c_void,
    argument: *mut c_void,
    create: impl FnOnce(*const c_void, *mut c_void) -> c_int,
) -> c_int {
    creating(|| {
        let place = take_place();
        place.start.store(start as usize, Ordering::Relaxed);
        place.argument.store(argument as usize, Ordering::Relaxed);
        let begin = begin as *const () as *const c_void;
        let result = create(begin, core::ptr::from_ref(place).cast_mut().cast());
        if result != 0 {
            place.is_taken.store(false, Ordering::Release);
        }
        result
    })
}

/// Counts a thread that libc makes by itself, unless [`creating`] has counted it.
pub fn note_of_libc() {
    if is_main() && !MAIN_CREATES.load(Ordering::Relaxed) {
        CREATED.fetch_add(1, Ordering::Relaxed);
        tell_of_several();
    }
}

/// pthread_create(3) of the user side.
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
    begun_by_us(start, argument, |begin, task| {
        // SAFETY: handed on to the caller.
        unsafe { real_create()(thread, attributes, begin, task) }
    })
}

/// thrd_create(3) of the user side, as [`pthread_create`].
///
/// libc keeps what the function returns as an `int`.
///
/// # Safety
/// As thrd_create(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut usize,
    start: *const c_void,
    argument: *mut c_void,
) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    type Create = unsafe extern "C" fn(*mut usize, *const c_void, *mut c_void) -> c_int;
    begun_by_us(start, argument, |begin, task| {
        // SAFETY: libc's function has this type; the rest is handed on to the caller.
        unsafe {
            let real: Create = core::mem::transmute(next(&REAL, c"thrd_create"));
            real(thread, begin, task)
        }
    })
}

/// glibc's `struct sigevent`, as far as it is looked at.
#[repr(C)]
pub struct Event {
    value: usize,
    signal: c_int,
    notice: c_int,
}

/// timer_create(2) of the user side: for a timer that starts threads libc creates one itself, past
/// [`pthread_create`].
///
/// # Safety
/// As timer_create(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_create(
    clock: c_int,
    event: *const Event,
    timer: *mut *mut c_void,
) -> c_int {
    const SIGEV_THREAD: c_int = 2;
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    type Create = unsafe extern "C" fn(c_int, *const Event, *mut *mut c_void) -> c_int;
    // SAFETY: libc's function has this type; the rest is handed on to the caller.
    unsafe {
        let real: Create = core::mem::transmute(next(&REAL, c"timer_create"));
        match event.as_ref() {
            Some(asked) if asked.notice == SIGEV_THREAD => {
                TIMERS.fetch_add(1, Ordering::Relaxed);
                creating(|| real(clock, event, timer))
            }
            _ => real(clock, event, timer),
        }
    }
}

extern "C" fn nothing(_: *mut c_void) -> *mut c_void {
    core::ptr::null_mut()
}

/// Creates and joins one thread, on a stack of ours, which ld.so's shared cache of stacks will not
/// keep.
///
/// A libc that has never had a second thread skips atomics and wake-ups. ld.so's lock is shared by
/// both libcs, so each of them must know that there are threads; otherwise the other one's waiters
/// are not woken.
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
            0 => match real_join()(thread, core::ptr::null_mut()) {
                0 => Ok(()),
                error => Err(error),
            },
            error => Err(error),
        }
    }
}

/// The calling thread is about to change files: that is to be on the same side of a cut as what the
/// runtime notes of it. (The main thread makes cuts itself.) Whether it must be [`stop::unblock`]ed
/// afterwards.
pub fn hold() -> bool {
    let holds = !is_main();
    if holds {
        stop::block();
    }
    holds
}
