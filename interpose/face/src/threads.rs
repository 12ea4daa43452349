//! Threads of the program side.
//!
//! Threads that the program creates are counted. Each begins in [`begin`] with stops blocked, and
//! unblocks them when it is ready to be stopped ([`crate::stop`]).
#![allow(unsafe_code)]

use crate::libc::next;
use crate::stop;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use understudy_abi::control_block;
use understudy_abi::mpi_lock::MULTIPLE_THREADS;

/// Number of threads that the program side has created or tried to create.
static CREATED: AtomicU32 = AtomicU32::new(0);
/// Number of timers that start threads.
static TIMERS: AtomicU32 = AtomicU32::new(0);
/// The main thread's control block.
static MAIN: AtomicUsize = AtomicUsize::new(0);
/// True while the main thread is in pthread_create(3).
static MAIN_CREATES: AtomicBool = AtomicBool::new(false);

/// Stores that the calling thread is the main thread.
pub fn remember_main() {
    MAIN.store(control_block::address(), Ordering::Relaxed);
}

/// Returns the main thread's control block.
#[inline]
pub fn main() -> usize {
    MAIN.load(Ordering::Relaxed)
}

/// Returns true in the main thread.
pub fn is_main() -> bool {
    control_block::address() == MAIN.load(Ordering::Relaxed)
}

/// Returns true if the current request to ld.so's heap is not for the main thread.
pub fn is_for_another() -> bool {
    MAIN_CREATES.load(Ordering::Relaxed) || !is_main()
}

/// Returns the address of the number that [`count`] returns.
pub fn created() -> *const u32 {
    CREATED.as_ptr()
}

/// Returns the address of the number of timers that start threads.
pub fn created_for_timers() -> *const u32 {
    TIMERS.as_ptr()
}

/// Returns the number of threads that the program side has created or tried to create.
#[inline]
pub fn count() -> u32 {
    CREATED.load(Ordering::Relaxed)
}

/// Work flags that receive [`MULTIPLE_THREADS`], or null.
static WORK_FLAGS: AtomicPtr<AtomicU8> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the work flags that receive [`MULTIPLE_THREADS`] once there is more than one thread.
pub fn set_work_flags(flags: *mut AtomicU8) {
    WORK_FLAGS.store(flags, Ordering::Relaxed);
    if count() > 0 {
        set_multiple_threads();
    }
}

fn set_multiple_threads() {
    // SAFETY: null, or a byte that lives as long as the process.
    if let Some(flags) = unsafe { WORK_FLAGS.load(Ordering::Relaxed).as_ref() } {
        flags.fetch_or(MULTIPLE_THREADS, Ordering::SeqCst);
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

/// Returns libc's pthread_join.
///
/// A library in front of this library may redefine the function, but be unable to call libc's
/// function yet, because its constructor runs later.
fn real_join() -> unsafe extern "C" fn(usize, *mut *mut c_void) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's pthread_join has this type.
    unsafe { core::mem::transmute(next(&REAL, c"pthread_join")) }
}

/// Function and argument of a thread that has been created and has not begun.
struct StartSlot {
    is_in_use: AtomicBool,
    start: AtomicUsize,
    argument: AtomicUsize,
}

/// Maximum number of threads that begin at the same time; further threads wait.
const MAX_STARTING_THREADS: usize = 64;
/// Slots of threads that begin.
///
/// While all threads are stopped, no slot is in use: stops are blocked in a thread that uses a
/// slot.
static START_SLOTS: [StartSlot; MAX_STARTING_THREADS] = [const {
    StartSlot {
        is_in_use: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        argument: AtomicUsize::new(0),
    }
}; MAX_STARTING_THREADS];

/// Reserves a slot; waits until a slot is free.
fn reserve_slot() -> &'static StartSlot {
    loop {
        let reserve = |slot: &&StartSlot| !slot.is_in_use.swap(true, Ordering::Acquire);
        if let Some(slot) = START_SLOTS.iter().find(reserve) {
            return slot;
        }
        stop::yield_processor();
    }
}

/// A thread's function and its argument.
#[repr(C)]
struct Task {
    start: usize,
    argument: usize,
}

/// Returns the task of a new thread, frees its slot, and unblocks its stops.
extern "C" fn take_task(slot: &StartSlot) -> Task {
    let task = Task {
        start: slot.start.load(Ordering::Relaxed),
        argument: slot.argument.load(Ordering::Relaxed),
    };
    slot.is_in_use.store(false, Ordering::Release);
    stop::unblock();
    task
}

/// Start function of new threads.
///
/// The function jumps to the program's function and leaves nothing on the stack, which
/// pthread_exit(3) and cancellation unwind.
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

/// Creates and counts a thread of the program side.
///
/// Stops of the creating thread are blocked until the thread exists, because the new thread may
/// wait for the creating one with all signals blocked.
fn count_and_create(create: impl FnOnce() -> c_int) -> c_int {
    CREATED.fetch_add(1, Ordering::Relaxed);
    set_multiple_threads();
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

/// Creates a thread that starts in [`begin`] and continues with `start`.
fn create_counted_thread(
    start: *const c_void,
    argument: *mut c_void,
    create: impl FnOnce(*const c_void, *mut c_void) -> c_int,
) -> c_int {
    count_and_create(|| {
        let slot = reserve_slot();
        slot.start.store(start as usize, Ordering::Relaxed);
        slot.argument.store(argument as usize, Ordering::Relaxed);
        let begin = begin as *const () as *const c_void;
        let result = create(begin, core::ptr::from_ref(slot).cast_mut().cast());
        if result != 0 {
            slot.is_in_use.store(false, Ordering::Release);
        }
        result
    })
}

/// Counts a thread that libc creates for itself, unless [`count_and_create`] has counted it.
pub fn count_libc_thread() {
    if is_main() && !MAIN_CREATES.load(Ordering::Relaxed) {
        CREATED.fetch_add(1, Ordering::Relaxed);
        set_multiple_threads();
    }
}

/// pthread_create(3) of the program side.
///
/// # Safety
/// The requirements of pthread_create(3) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut usize,
    attributes: *const c_void,
    start: *const c_void,
    argument: *mut c_void,
) -> c_int {
    create_counted_thread(start, argument, |begin, task| {
        // SAFETY: the caller meets the requirements of pthread_create(3).
        unsafe { real_create()(thread, attributes, begin, task) }
    })
}

/// thrd_create(3) of the program side, like [`pthread_create`].
///
/// libc stores the return value of the thread's function as an `int`.
///
/// # Safety
/// The requirements of thrd_create(3) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut usize,
    start: *const c_void,
    argument: *mut c_void,
) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    type Create = unsafe extern "C" fn(*mut usize, *const c_void, *mut c_void) -> c_int;
    create_counted_thread(start, argument, |begin, task| {
        // SAFETY: libc's function has this type; the caller meets the requirements of
        // thrd_create(3).
        unsafe {
            let real: Create = core::mem::transmute(next(&REAL, c"thrd_create"));
            real(thread, begin, task)
        }
    })
}

/// Members of glibc's `struct sigevent` that are used.
#[repr(C)]
pub struct Event {
    value: usize,
    signal: c_int,
    notice: c_int,
}

/// timer_create(2) of the program side.
///
/// A timer that starts threads makes libc create a thread without calling [`pthread_create`].
///
/// # Safety
/// The requirements of timer_create(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_create(
    clock: c_int,
    event: *const Event,
    timer: *mut *mut c_void,
) -> c_int {
    const SIGEV_THREAD: c_int = 2;
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    type Create = unsafe extern "C" fn(c_int, *const Event, *mut *mut c_void) -> c_int;
    // SAFETY: libc's function has this type; the caller meets the requirements of timer_create(2).
    unsafe {
        let real: Create = core::mem::transmute(next(&REAL, c"timer_create"));
        match event.as_ref() {
            Some(event_data) if event_data.notice == SIGEV_THREAD => {
                TIMERS.fetch_add(1, Ordering::Relaxed);
                count_and_create(|| real(clock, event, timer))
            }
            _ => real(clock, event, timer),
        }
    }
}

extern "C" fn empty_thread(_: *mut c_void) -> *mut c_void {
    core::ptr::null_mut()
}

/// Creates and joins one thread, after which libc locks with atomics and wakes waiting threads.
///
/// A libc that has never had a second thread omits the atomics and the wake-ups. ld.so's lock is
/// shared by the libcs of all namespaces, so each of them must have had a second thread; otherwise
/// a thread of another namespace that waits for the lock is not woken. The thread's stack is
/// mapped here, so that ld.so does not keep it in its cache of stacks, which the namespaces share,
/// too.
pub fn make_libc_multithreaded() -> Result<(), c_int> {
    const STACK_SIZE: usize = 256 << 10;
    let stack = crate::sys::map_anonymous(understudy_abi::ZONE_START + (512 << 20), STACK_SIZE, 0)?;
    let mut attributes = Attributes([0; 56]);
    let mut thread = 0;
    // SAFETY: the attributes have glibc's size, the stack belongs to this function, and the start
    // function accepts any argument. The thread is joined once.
    unsafe {
        pthread_attr_init(&mut attributes);
        pthread_attr_setstack(&mut attributes, stack as *mut c_void, STACK_SIZE);
        let start: extern "C" fn(*mut c_void) -> *mut c_void = empty_thread;
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

/// Keeps the calling thread from being stopped, unless it is the main thread.
///
/// The function is for a thread that is about to change state outside of its memory, such as a
/// file: a cut must be taken before or after both the change and its record in the runtime. The
/// main thread takes cuts itself, and cannot be stopped for one. Returns true if the caller must
/// call [`stop::unblock`] after the change.
pub fn block_stops() -> bool {
    let blocks = !is_main();
    if blocks {
        stop::block();
    }
    blocks
}
