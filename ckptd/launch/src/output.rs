//! Output of processes, written to the output of this process.

use crate::print_message::print_message;
use crate::spawn_thread::spawn_thread;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use understudy_catalogue::message;
use understudy_wire::io::{Interest, wait_ready};

/// True if some output could not be written although its reader was open.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// True if some output could not be written although its reader was open.
pub fn is_lost() -> bool {
    IS_LOST.load(Ordering::Acquire)
}

/// True if writing has failed because the reader has closed its end.
pub fn is_unwanted(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}

/// Destination of a stream of output.
pub struct Output {
    to: File,
    is_open: bool,
}

impl Output {
    /// # Errors
    /// Errors of dup(2).
    pub fn new(to: BorrowedFd<'_>) -> io::Result<Output> {
        let to = to.try_clone_to_owned()?.into();
        Ok(Output { to, is_open: true })
    }

    /// Writes all bytes.
    ///
    /// After a failure nothing is written any more, so that the output has no gaps.
    pub fn write(&mut self, bytes: &[u8]) {
        if !self.is_open {
            return;
        }
        let Err(error) = write(&mut self.to, bytes) else {
            return;
        };
        self.is_open = false;
        if !is_unwanted(&error) && !IS_LOST.swap(true, Ordering::AcqRel) {
            print_message(message::output_not_written(error));
        }
    }
}

/// Passes on the output of a process.
///
/// `close` is called when all processes, including relays, have closed the streams; its
/// argument is the number of bytes on standard output.
///
/// # Errors
/// Errors of starting a thread; `close` is not called then.
pub fn pass_all_on(child: &mut Child, close: impl FnOnce(u64) + Send + 'static) -> io::Result<()> {
    let (out, errors) = (child.stdout.take(), child.stderr.take());
    // The sum below ends when both threads have dropped their sending ends.
    let (stdout_end, ends) = mpsc::channel::<u64>();
    let stderr_end = stdout_end.clone();
    spawn_thread(move || {
        let written = out.map_or(0, |from| pass_on(from, rustix::stdio::stdout()));
        let _ = stdout_end.send(written);
    })?;
    spawn_thread(move || {
        errors.map(|from| pass_on(from, rustix::stdio::stderr()));
        drop(stderr_end);
        close(ends.iter().sum());
    })
}

/// Passes a stream on until its end; returns the number of bytes.
fn pass_on(mut from: impl Read, to: BorrowedFd<'_>) -> u64 {
    let Ok(mut to) = Output::new(to) else {
        return 0;
    };
    let (mut bytes, mut written) = ([0; 1 << 16], 0);
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        written += length as u64;
        to.write(&bytes[..length]);
    }
    written
}

/// Writes all bytes, also to a non-blocking descriptor.
///
/// ssh(1) makes a descriptor non-blocking for all processes that share it.
fn write(to: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = wait_ready(to, Interest::WRITE, None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn nothing_is_left_out_where_the_reader_is_slow() {
        let (mut from, mut to) = UnixStream::pair().unwrap();
        to.set_nonblocking(true).unwrap();
        let sent: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let reading = std::thread::spawn(move || {
            let mut read = Vec::new();
            from.read_to_end(&mut read).unwrap();
            assert!(read == expected);
        });
        write(&mut to, &sent).unwrap();
        drop(to);
        reading.join().unwrap();
    }

    #[test]
    fn output_without_reader_is_not_lost_and_output_without_room_is() {
        let (from, to) = UnixStream::pair().unwrap();
        drop(from);
        Output::new(to.as_fd()).unwrap().write(b"a line\n");
        assert!(!is_lost());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut output = Output::new(full.as_fd()).unwrap();
        output.write(b"a line\n");
        assert!(is_lost() && !output.is_open);
    }
}
