//! What processes print, written to where this process prints.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;

/// Writes all of this, also to a descriptor that does not block: ssh(1) makes it such a one for all that share it. Whoever has closed the
/// other end does not want it.
pub fn write(to: &mut (impl Write + AsFd), mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(to, PollFlags::OUT)], None);
            }
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
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
        write(&mut to, &sent);
        drop(to);
        reading.join().unwrap();
    }
}
