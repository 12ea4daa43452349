//! System calls without a safe wrapper, symbol lookup, messages and floating-point exceptions.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::hint::black_box;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use understudy_catalogue::message;

/// Kills this process at once, like `kill -9`.
pub fn kill_self() -> ! {
    // SAFETY: kill(2) on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::park();
    }
}

/// Ends the process without running exit handlers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(status) }
}

/// Sends a signal to this process. Safe in any thread.
pub fn signal_own_process(signal: i32) {
    // SAFETY: kill(2) accesses no memory.
    unsafe { libc::kill(libc::getpid(), signal) };
}

/// Gives the calling thread a descriptor table of its own (unshare(2), `CLONE_FILES`).
///
/// The new table contains only the descriptor for messages. A descriptor that this thread opens
/// later therefore never occupies a number in the program's table, not even for a moment. If
/// unshare(2) is not allowed, as in some containers, the thread keeps the common table.
pub fn separate_descriptors() {
    let kept = crate::process_info::message_descriptor() as libc::c_uint;
    // SAFETY: unshare(2) and close_range(2); this thread has no open descriptors of its own.
    unsafe {
        if libc::unshare(libc::CLONE_FILES) == 0 {
            crate::shim::separate_descriptors();
            libc::close_range(0, kept.saturating_sub(1), 0);
            libc::close_range(kept + 1, libc::c_uint::MAX, 0);
        }
    }
}

/// True if this process may create files of any length (setrlimit(2), `RLIMIT_FSIZE`).
pub fn is_file_size_unlimited() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit(2) fills the structure.
    let rc = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    rc == 0 && limit.rlim_cur == libc::RLIM_INFINITY
}

/// Moves an owned descriptor out of the program side's range.
pub fn move_owned_descriptor(descriptor: OwnedFd) -> OwnedFd {
    // SAFETY: this function owns the descriptor, which becomes the returned descriptor.
    unsafe { OwnedFd::from_raw_fd(move_descriptor(descriptor.into_raw_fd())) }
}

/// Moves a descriptor out of the program side's range.
///
/// Returns the descriptor itself if no number is free.
pub fn move_descriptor(descriptor: c_int) -> c_int {
    // SAFETY: fcntl(2) and close(2) on a descriptor that was just created.
    unsafe {
        let high = libc::fcntl(
            descriptor,
            libc::F_DUPFD_CLOEXEC,
            understudy_abi::RUNTIME_FD_BASE,
        );
        if high < 0 {
            return descriptor;
        }
        libc::close(descriptor);
        high
    }
}

/// Returns a symbol of the runtime side's namespace; null if it is missing.
pub fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: dlsym(3) with a C string. RTLD_DEFAULT searches the namespace of the caller, which
    // dlsym(3) determines by its return address. `black_box` prevents a tail call, with which the
    // return address could lie in another library.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    black_box(address)
}

/// Returns the offset of a field that libc publishes for debuggers.
///
/// `name` is a symbol `_thread_db_TYPE_FIELD` (glibc, nptl_db/structs.def). The symbol denotes
/// three 32-bit words: the size of an element in bits, the number of elements, and the offset in
/// bytes. `None` if this libc does not have the symbol.
pub fn thread_db_offset(name: &CStr) -> Option<u64> {
    let descriptor = symbol(name).cast::<u32>();
    // SAFETY: libc's descriptor, three 32-bit words.
    (!descriptor.is_null()).then(|| u64::from(unsafe { descriptor.add(2).read() }))
}

/// Returns the size of a type that libc publishes for debuggers (`_thread_db_sizeof_TYPE`).
pub fn thread_db_size(name: &CStr) -> Option<u64> {
    let size = symbol(name).cast::<u32>();
    // SAFETY: libc's variable, one 32-bit word.
    (!size.is_null()).then(|| u64::from(unsafe { size.read() }))
}

/// Formats an error with its causes.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Prints a line for the user on the job's standard error.
///
/// The line does not pass through the program's own stream, whose bytes the relay counts.
pub fn print_message(message: impl std::fmt::Display) {
    write_message(format!("understudy: {message}\n").as_bytes());
}

/// Prints panics, which end the process, by [`print_message`] from now on.
///
/// Rust's own output would go to the program's standard error. The output relay counts the bytes of
/// that stream. After a recovery, the relay would therefore drop too many bytes of the program's
/// repeated output.
pub fn print_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let reason = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let (file, line) = panic
            .location()
            .map_or(("?", 0), |location| (location.file(), location.line()));
        print_message(message::runtime_error(reason.unwrap_or("?"), file, line));
    }));
}

/// Writes to the job's standard error, not through the program's own stream.
pub fn write_message(bytes: &[u8]) {
    let fd = crate::process_info::message_descriptor();
    // SAFETY: write(2) of a valid buffer; a failure cannot be handled.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
}

/// Masks floating-point exceptions; returns the argument for [`restore_exceptions`].
///
/// The program may have enabled signals (feenableexcept(3)), even for inexact results, which nearly
/// every computation of the runtime would raise.
pub fn mask_exceptions() -> u32 {
    const MASKED: u32 = 0x1f80;
    let mut before = 0u32;
    // SAFETY: stores the control and status register to a valid word.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut before, options(nostack)) };
    restore_exceptions(before | MASKED);
    before
}

/// Restores the control and status register (MXCSR) to its value before [`mask_exceptions`].
pub fn restore_exceptions(before: u32) {
    // SAFETY: the value was read from the register; only mask bits may have been added.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &before, options(nostack)) };
}

/// Calls a function with floating-point exceptions masked.
pub fn with_exceptions_masked<T>(compute: impl FnOnce() -> T) -> T {
    let before = mask_exceptions();
    // `black_box` keeps the compiler from moving parts of the computation over the two changes of
    // the register.
    let result = black_box(black_box(compute)());
    restore_exceptions(before);
    result
}

#[cfg(test)]
mod tests {
    use super::with_exceptions_masked;
    use std::hint::black_box;
    use std::process::Command;

    unsafe extern "C" {
        fn feenableexcept(exceptions: i32) -> i32;
    }

    /// The thread has enabled all exceptions; a division with an inexact result raises no signal.
    ///
    /// Afterwards the exceptions are enabled again. A third has no exact representation.
    #[test]
    fn inexact_results_cause_no_signal() {
        std::thread::spawn(|| {
            const ALL: i32 = 0x3d;
            // SAFETY: affects only this thread, which computes nothing else.
            let before = unsafe { feenableexcept(ALL) };
            let third = with_exceptions_masked(|| black_box(1.0_f64) / black_box(3.0));
            // SAFETY: affects only this thread; enabling no exception returns the enabled ones.
            let after = unsafe { feenableexcept(0) };
            assert_eq!((before, after), (0, ALL));
            assert_eq!(third.to_bits(), 0x3fd5_5555_5555_5555);
        })
        .join()
        .expect("no signal");
    }

    #[test]
    fn a_panic_prints_one_line_in_the_format_of_messages() {
        let program = std::env::current_exe().expect("the test has a file");
        let test = [
            "--exact",
            "system_calls::tests::panic_with_a_hook",
            "--ignored",
            "--nocapture",
        ];
        let output = Command::new(program)
            .args(test)
            .output()
            .expect("it can be started");
        let output_text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = output_text
            .lines()
            .filter(|line| line.contains("a reason"))
            .collect();
        let is_message = |line: &str| {
            line.starts_with("understudy: internal error: a reason (")
                && line.contains("src/system_calls.rs:")
        };
        assert!(lines.len() == 1 && is_message(lines[0]), "{output_text}");
        assert!(!output.status.success());
    }

    #[test]
    #[ignore = "ends its process; started by another test"]
    fn panic_with_a_hook() {
        super::print_panics();
        panic!("{}", "a reason");
    }
}
