//! Lines for the user on standard error.

use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Longest time for which a process waits until a line is printed.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Largest number of lines that wait for a reader of standard error; others are dropped.
const MAX_WAITING: usize = 256;
/// Stack of the printer, in bytes.
const STACK_BYTES: usize = 128 << 10;

/// True if this process must not wait for a reader of standard error.
static IS_LIMITED: AtomicBool = AtomicBool::new(false);
/// True if a line was not printed in time, and no later one was printed.
static IS_BLOCKED: AtomicBool = AtomicBool::new(false);
/// Printer of this process; `None` if its thread cannot be started.
static PRINTER: OnceLock<Option<SyncSender<Line>>> = OnceLock::new();

/// A line, and the sender by which the printer reports that the line is printed.
type Line = (String, SyncSender<()>);

/// Prints `understudy: MESSAGE` as one line on standard error.
///
/// A closed or full standard error does not end this process, as `eprintln` would.
pub fn print_message(message: impl Display) {
    let is_limited = IS_LIMITED.load(Ordering::Relaxed);
    let printer = is_limited.then(|| PRINTER.get_or_init(start_printer).as_ref());
    match printer.flatten() {
        None => print_message_to(std::io::stderr(), message),
        Some(printer) => {
            let (sender, printed) = sync_channel(1);
            let is_queued = printer.try_send((line(message), sender)).is_ok();
            let waits = is_queued && !IS_BLOCKED.load(Ordering::Relaxed);
            if waits && printed.recv_timeout(PRINT_TIMEOUT).is_err() {
                IS_BLOCKED.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Prints a line as [`print_message`] does, on the standard error of a job.
pub(crate) fn print_message_to(to: impl Write, message: impl Display) {
    write(to, &line(message));
}

/// Makes [`print_message`] return after a second at the latest, in this process.
///
/// A process that others judge by its silence must not wait for a terminal that the user has
/// stopped, or for a pager.
pub(crate) fn limit_print_time() {
    IS_LIMITED.store(true, Ordering::Relaxed);
}

fn start_printer() -> Option<SyncSender<Line>> {
    let (lines, waiting) = sync_channel(MAX_WAITING);
    let thread = std::thread::Builder::new()
        .name("printer".into())
        .stack_size(STACK_BYTES);
    thread.spawn(|| print_all(waiting)).ok()?;
    Some(lines)
}

fn print_all(lines: Receiver<Line>) {
    for (line, printed) in lines {
        write(std::io::stderr(), &line);
        IS_BLOCKED.store(false, Ordering::Relaxed);
        let _ = printed.send(());
    }
}

fn line(message: impl Display) -> String {
    format!("understudy: {message}\n")
}

/// Writes a line at once, because other processes write to the same stream.
fn write(mut to: impl Write, line: &str) {
    let _ = to.write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    /// Variable by which the test starts itself with a standard error that nobody reads.
    const UNREAD: &str = "PRINT_MESSAGE_UNREAD";

    #[test]
    fn a_process_does_not_wait_for_a_reader() {
        if std::env::var_os(UNREAD).is_some() {
            limit_print_time();
            let began = Instant::now();
            (0..100).for_each(|_| print_message("x".repeat(4096)));
            assert!(began.elapsed() < 5 * PRINT_TIMEOUT);
            std::process::exit(7);
        }
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([
            "--exact",
            "print_message::tests::a_process_does_not_wait_for_a_reader",
        ]);
        command
            .arg("--nocapture")
            .env(UNREAD, "1")
            .stdout(Stdio::null());
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("this program");
        assert_eq!(child.wait().expect("a child").code(), Some(7));
        let mut printed = String::new();
        let mut stderr = child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut printed).expect("text");
        assert!(printed.starts_with("understudy: xxx"), "{printed}");
    }
}
