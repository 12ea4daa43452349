//! Descriptors of the runtime and MPI sides, whose numbers the program side never uses.
//!
//! A replacement must give the program's descriptors the numbers that they had in the failed
//! worker. The runtime and MPI sides must therefore not use any of those numbers. *Lifting* a
//! descriptor means to move it into the range of its namespace.
#![allow(unsafe_code, non_snake_case)]

use crate::descriptor_table::begin_lift;
use crate::threads::libc_function;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};
use understudy_abi::RUNTIME_FD_BASE;
use understudy_abi::reserved_descriptors::ReservedDescriptors;

unsafe extern "C" {
    pub fn poll(polls: *mut PollDescriptor, count: u64, limit: c_int) -> c_int;
    fn pthread_key_create(key: *mut u32, destructor: *const c_void) -> c_int;
    fn pthread_getspecific(key: u32) -> *const c_void;
    fn pthread_setspecific(key: u32, value: *const c_void) -> c_int;
}

/// pollfd(3type)
#[repr(C)]
pub struct PollDescriptor {
    pub fd: c_int,
    pub events: i16,
    pub revents: i16,
}

pub const F_DUPFD: c_int = 0;
const F_GETFD: c_int = 1;
pub const F_DUPFD_CLOEXEC: c_int = 1030;

/// Calls libc's fcntl(2).
///
/// New descriptors may have the number 1 or 2, which the exported `fcntl` would redirect.
///
/// # Safety
/// The requirements of fcntl(2) apply.
pub unsafe fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function takes these arguments, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(c_int, c_int, ...) -> c_int =
            core::mem::transmute(libc_function(&REAL, c"fcntl"));
        real(fd, command, argument)
    }
}

/// Lowest descriptor number of this namespace.
static FIRST_DESCRIPTOR: AtomicI32 = AtomicI32::new(RUNTIME_FD_BASE);

/// Set of the descriptors of the runtime and MPI sides; null before the start.
static NAMESPACE_DESCRIPTORS: AtomicPtr<ReservedDescriptors> =
    AtomicPtr::new(core::ptr::null_mut());

/// Sets this namespace's lowest descriptor number, and the set that records descriptors.
///
/// New descriptors are moved to `first` or above, and recorded in `descriptors`.
pub fn lift_to(first: c_int, descriptors: *const ReservedDescriptors) {
    FIRST_DESCRIPTOR.store(first, Relaxed);
    NAMESPACE_DESCRIPTORS.store(descriptors.cast_mut(), Relaxed);
}

/// Key whose value is null in threads that use the process's descriptor table.
static SEPARATE_TABLE: AtomicU32 = AtomicU32::new(0);

/// Creates [`SEPARATE_TABLE`]; returns 0, or an errno.
pub fn create_key() -> c_int {
    let mut key = 0;
    // SAFETY: pthread_key_create(3) writes the key.
    let error = unsafe { pthread_key_create(&mut key, core::ptr::null()) };
    SEPARATE_TABLE.store(key, Relaxed);
    error
}

/// Excludes the calling thread's descriptors from the set.
///
/// The thread has a descriptor table of its own, so the numbers of its descriptors belong to other
/// descriptors in the process's table.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_separate_descriptors() {
    let value = core::ptr::from_ref(&SEPARATE_TABLE).cast();
    // SAFETY: the key exists since the start of the namespace.
    unsafe { pthread_setspecific(SEPARATE_TABLE.load(Relaxed), value) };
}

/// Returns the set of the process's descriptor table.
///
/// `None` before the start, and in threads with a table of their own.
fn namespace_descriptors() -> Option<&'static ReservedDescriptors> {
    // SAFETY: null, or the set of the preload library, which lives as long as the process. The key
    // exists since the start of the namespace.
    unsafe {
        let descriptors = NAMESPACE_DESCRIPTORS.load(Relaxed).as_ref()?;
        let separate = pthread_getspecific(SEPARATE_TABLE.load(Relaxed));
        separate.is_null().then_some(descriptors)
    }
}

/// Records a descriptor of this namespace.
pub fn record_descriptor(fd: c_int) {
    if let Some(descriptors) = namespace_descriptors() {
        descriptors.add(fd);
    }
}

/// close(2); first removes the descriptor from the set.
///
/// After the close, the kernel may assign the number to a descriptor of the program.
///
/// # Safety
/// The requirements of close(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    if let Some(descriptors) = namespace_descriptors() {
        descriptors.remove(fd);
    }
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(c_int) -> c_int =
            core::mem::transmute(libc_function(&REAL, c"close"));
        real(fd)
    }
}

/// close_range(2); first removes the descriptors that are closed from the set.
///
/// # Safety
/// The requirements of close_range(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    const CLOSE_RANGE_CLOEXEC: c_int = 4;
    let end = last.min(ReservedDescriptors::END as c_uint - 1);
    if let Some(descriptors) = namespace_descriptors().filter(|_| flags & CLOSE_RANGE_CLOEXEC == 0)
    {
        (first..=end).for_each(|fd| descriptors.remove(fd as c_int));
    }
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int =
            core::mem::transmute(libc_function(&REAL, c"close_range"));
        real(first, last, flags)
    }
}

/// Moves a descriptor into the namespace's range.
///
/// The descriptor keeps its number if the move fails.
pub fn lift(fd: c_int) -> c_int {
    let first = FIRST_DESCRIPTOR.load(Relaxed);
    if !(0..first).contains(&fd) {
        record_descriptor(fd);
        return fd;
    }
    // SAFETY: the callers pass a descriptor that was just created, and that no other code uses yet.
    unsafe {
        let close_on_exec = fcntl(fd, F_GETFD, 0) & 1 != 0;
        let high = fcntl(
            fd,
            if close_on_exec {
                F_DUPFD_CLOEXEC
            } else {
                F_DUPFD
            },
            first as usize,
        );
        if high < 0 {
            return fd;
        }
        close(fd);
        record_descriptor(high);
        high
    }
}

/// Blocks until a connection is pending, so that accept(2) does not block afterwards.
///
/// A thread that blocked in accept(2) after [`begin_lift`] would delay the thread that locks the
/// table.
fn wait_for_connection(fd: c_int) {
    const F_GETFL: c_int = 3;
    const O_NONBLOCK: c_int = 0o4000;
    let mut connection = PollDescriptor {
        fd,
        events: 1,
        revents: 0,
    };
    // SAFETY: F_GETFL of fcntl(2) accesses no memory; poll(2) writes to the one structure.
    unsafe {
        if fcntl(fd, F_GETFL, 0) & O_NONBLOCK == 0 {
            poll(&mut connection, 1, -1);
        }
    }
}

/// Defines functions of the form `name(arguments) -> descriptor` that lift the descriptor.
macro_rules! lifted {
    ($($name:ident($($argument:ident: $kind:ty),*) $(after $wait:ident($on:ident))?;)*) => {$(
        /// libc's function of this name; lifts the new descriptor.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            static REAL: AtomicUsize = AtomicUsize::new(0);
            const NAME: &core::ffi::CStr =
                match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes()
                ) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                };
            // SAFETY: libc's function has this type, and the caller meets its requirements.
            unsafe {
                let real: unsafe extern "C" fn($($kind),*) -> c_int =
                    core::mem::transmute(libc_function(&REAL, NAME));
                $($wait($on);)?
                let _guard = begin_lift();
                lift(real($($argument),*))
            }
        }
    )*};
}

lifted! {
    // The variadic mode is forwarded even if the caller has not passed it: the System V ABI passes
    // it in a register, whose value libc's function then ignores.
    open(path: *const c_char, flags: c_int, mode: u32);
    open64(path: *const c_char, flags: c_int, mode: u32);
    openat(at: c_int, path: *const c_char, flags: c_int, mode: u32);
    openat64(at: c_int, path: *const c_char, flags: c_int, mode: u32);
    creat(path: *const c_char, mode: u32);
    socket(domain: c_int, kind: c_int, protocol: c_int);
    accept(fd: c_int, address: *mut c_void, length: *mut u32) after wait_for_connection(fd);
    accept4(fd: c_int, address: *mut c_void, length: *mut u32, flags: c_int)
        after wait_for_connection(fd);
    epoll_create(size: c_int);
    epoll_create1(flags: c_int);
    eventfd(value: u32, flags: c_int);
    timerfd_create(clock: c_int, flags: c_int);
    signalfd(fd: c_int, mask: *const c_void, flags: c_int);
    inotify_init();
    inotify_init1(flags: c_int);
    memfd_create(name: *const c_char, flags: u32);
    shm_open(name: *const c_char, flags: c_int, mode: u32);
    mkstemp(template: *mut c_char);
}

/// Defines functions of the form `name(…, fds: *mut [c_int; 2])` that lift both descriptors.
macro_rules! lifted_pairs {
    ($($name:ident($($argument:ident: $kind:ty),*; fds);)*) => {$(
        /// libc's function of this name; lifts both new descriptors.
        ///
        /// # Safety
        /// The requirements of libc's function apply.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind,)* fds: *mut [c_int; 2]) -> c_int {
            static REAL: AtomicUsize = AtomicUsize::new(0);
            const NAME: &core::ffi::CStr =
                match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes()
                ) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                };
            // SAFETY: libc's function has this type, and the caller meets its requirements; on
            // success the function has written two descriptors.
            unsafe {
                let real: unsafe extern "C" fn($($kind,)* *mut [c_int; 2]) -> c_int =
                    core::mem::transmute(libc_function(&REAL, NAME));
                let _guard = begin_lift();
                let result = real($($argument,)* fds);
                if result == 0 {
                    let [first, second] = fds.read();
                    fds.write([lift(first), lift(second)]);
                }
                result
            }
        }
    )*};
}

lifted_pairs! {
    pipe(; fds);
    socketpair(domain: c_int, kind: c_int, protocol: c_int; fds);
}

/// pipe2(2); lifts both new descriptors.
///
/// # Safety
/// The requirements of pipe2(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe2(fds: *mut [c_int; 2], flags: c_int) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function has this type, and the caller meets its requirements; on success the
    // function has written two descriptors.
    unsafe {
        let real: unsafe extern "C" fn(*mut [c_int; 2], c_int) -> c_int =
            core::mem::transmute(libc_function(&REAL, c"pipe2"));
        let _guard = begin_lift();
        let result = real(fds, flags);
        if result == 0 {
            let [first, second] = fds.read();
            fds.write([lift(first), lift(second)]);
        }
        result
    }
}
