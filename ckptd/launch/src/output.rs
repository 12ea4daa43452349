//! What processes print, written to where this process prints.

use crate::say::say;
use crate::spawn_thread::spawn_thread;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use understudy_catalogue::message;
use understudy_wire::io::{Interest, is_ready};

/// Exit status if some of it could not be written (EX_IOERR of sysexits.h).
pub const UNWRITTEN: u8 = 74;

/// Some could not be written.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Whether some of the output could not be written, and not because nobody reads it.
pub fn is_lost() -> bool {
    IS_LOST.load(Ordering::Acquire)
}

/// Whether output could not be written since whoever has closed the other end does not want it.
pub fn is_unwanted(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}

/// Where a stream of output goes.
pub struct Output {
    to: File,
    is_open: bool,
}

impl Output {
    /// # Errors
    /// Those of dup(2).
    pub fn new(to: BorrowedFd<'_>) -> io::Result<Output> {
        let to = to.try_clone_to_owned()?.into();
        Ok(Output { to, is_open: true })
    }

    /// Writes all of this. Where that is impossible, nothing that comes later is written either:
    /// there are no holes.
    pub fn write(&mut self, bytes: &[u8]) {
        if !self.is_open {
            return;
        }
        let Err(error) = write(&mut self.to, bytes) else {
            return;
        };
        self.is_open = false;
        if !is_unwanted(&error) && !IS_LOST.swap(true, Ordering::AcqRel) {
            say(message::output_not_written(error));
        }
    }
}

/// Passes on what a process writes; tells when all that write there have closed it, relays among
/// them, with how many bytes have come by its standard output.
///
/// # Errors
/// Those of starting a thread; nothing is told then.
pub fn pass_all_on(child: &mut Child, close: impl FnOnce(u64) + Send + 'static) -> io::Result<()> {
    let (out, errors) = (child.stdout.take(), child.stderr.take());
    let (both, closed) = mpsc::channel::<u64>();
    let too = both.clone();
    spawn_thread(move || {
        let written = out.map_or(0, |from| pass_on(from, rustix::stdio::stdout()));
        let _ = both.send(written);
    })?;
    spawn_thread(move || {
        errors.map(|from| pass_on(from, rustix::stdio::stderr()));
        drop(too);
        close(closed.iter().sum());
    })
}

/// Passes a stream on until its end; how many bytes.
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

/// Writes all of this, also to a descriptor that does not block: ssh(1) makes it such a one for all
/// that share it.
fn write(to: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = is_ready(to, Interest::WRITE, None);
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
    fn output_that_nobody_reads_is_not_lost_and_that_for_which_there_is_no_room_is() {
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
