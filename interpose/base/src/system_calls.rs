//! System calls without a safe wrapper, and lookups in both namespaces.
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

/// Gives the calling thread a descriptor table of its own (unshare(2), `CLONE_FILES`).
///
/// The new table contains only the descriptor for messages. So no descriptor of this thread has,
/// even for a moment, a number that the program's next file would get. Where unshare(2) is not
/// allowed, as in some containers, the thread keeps the common table.
pub fn separate_descriptors() {
    let kept = crate::process_info::message_descriptor() as libc::c_uint;
    // SAFETY: unshare(2) and close_range(2); this thread has no open descriptors of its own.
    unsafe {
        if libc::unshare(libc::CLONE_FILES) == 0 {
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
    // SAFETY: this function owns the descriptor, which becomes the returned one.
    unsafe { OwnedFd::from_raw_fd(move_descriptor(descriptor.into_raw_fd())) }
}

/// Moves a descriptor out of the program side's range.
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
    // SAFETY: dlsym(3) with a C string. It is called from this library and not as a tail call, so
    // that it searches this namespace.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    std::hint::black_box(address)
}

/// Returns an offset that libc publishes for debuggers (`_thread_db_*`, nptl_db/structs.def).
///
/// The offset is the last word of a descriptor of size in bits, count and offset. `None` if this
/// libc does not publish it.
pub fn debuggers_offset(name: &CStr) -> Option<u64> {
    let descriptor = symbol(name).cast::<u32>();
    // SAFETY: libc's descriptor, three 32-bit words.
    (!descriptor.is_null()).then(|| u64::from(unsafe { descriptor.add(2).read() }))
}

/// Returns a size that libc publishes for debuggers.
pub fn debuggers_size(name: &CStr) -> Option<u64> {
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
/// The line does not pass through the program's own stream, whose bytes are counted.
pub fn print_message(message: impl std::fmt::Display) {
    write_message(format!("understudy: {message}\n").as_bytes());
}

/// Prints panics, which end the process, by [`print_message`] from now on.
///
/// Rust's own output would go to the program's stream, and the replacement would omit that number
/// of the program's bytes.
pub fn print_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let what = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let (file, line) = panic
            .location()
            .map_or(("?", 0), |place| (place.file(), place.line()));
        print_message(message::runtime_error(what.unwrap_or("?"), file, line));
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
/// The program may have enabled signals, for inexact results for example (feenableexcept(3)).
pub fn mask_exceptions() -> u32 {
    const MASKED: u32 = 0x1f80;
    let mut before = 0u32;
    // SAFETY: stores the control and status register to a valid word.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut before, options(nostack)) };
    restore_exceptions(before | MASKED);
    before
}

/// Restores the exceptions to the state before [`mask_exceptions`].
pub fn restore_exceptions(before: u32) {
    // SAFETY: loads the stored register, or that with more exceptions masked.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &before, options(nostack)) };
}

/// Calls a function with floating-point exceptions masked.
pub fn with_exceptions_masked<T>(compute: impl FnOnce() -> T) -> T {
    let before = mask_exceptions();
    // The compiler must not move parts of the computation out of this range.
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

    /// A third has no exact floating-point representation.
    #[test]
    fn inexact_results_cause_no_signal() {
        std::thread::spawn(|| {
            const ALL: i32 = 0x3d;
            // SAFETY: affects only this thread, which computes nothing else.
            let before = unsafe { feenableexcept(ALL) };
            let third = with_exceptions_masked(|| black_box(1.0_f64) / black_box(3.0));
            // SAFETY: as above; enabling no exception returns the enabled ones.
            let after = unsafe { feenableexcept(0) };
            assert_eq!((before, after), (0, ALL));
            assert_eq!(third.to_bits(), 0x3fd5_5555_5555_5555);
        })
        .join()
        .expect("no signal");
    }

    #[test]
    fn a_panic_is_one_line_of_ours() {
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
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("a reason"))
            .collect();
        let is_ours = |line: &str| {
            line.starts_with("understudy: internal error: a reason (")
                && line.contains("src/system_calls.rs:")
        };
        assert!(lines.len() == 1 && is_ours(lines[0]), "{said}");
        assert!(!output.status.success());
    }

    #[test]
    #[ignore = "ends its process; started by another test"]
    fn panic_with_a_hook() {
        super::print_panics();
        panic!("{}", "a reason");
    }
}
