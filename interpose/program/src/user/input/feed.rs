//! Pipe through which this process receives the input that a guardian relays.
#![allow(unsafe_code)]

use super::remote_input;
use crate::process_info;
use crate::system_calls::move_owned_descriptor;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_numbers::Guardian;
use understudy_wire::line::{
    InputPage, InputReply, InputRequest, Line, LineSocket, PAGE_BYTES, ProcessPlace,
};

/// Time limit for a reply of the relay.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the relay to finish a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Input that is relayed to this process.
#[derive(Debug)]
pub struct Feed {
    pub guardian: Guardian,
    /// Read end of the pipe. The program has separate descriptors of the read end.
    pipe: File,
    /// Device and inode of the pipe.
    id: (u64, u64),
    /// Memory that this process and the relay share.
    positions: &'static InputPage,
}

/// Failure to obtain a pipe that is fed from a position on.
#[derive(Debug)]
pub enum FeedError {
    /// The relay has already released the position.
    Released,
    /// No relay of this guardian can be reached from this node.
    Absent(io::Error),
}

impl From<io::Error> for FeedError {
    fn from(error: io::Error) -> FeedError {
        FeedError::Absent(error)
    }
}

impl Feed {
    /// Returns the input that this process has had since its start, if it is relayed.
    pub fn current() -> Option<Feed> {
        let place = process_info::place()?;
        if place.number.0 != place.guardian.0 {
            return None;
        }
        let reply = Feed::request(&place, place.guardian, InputRequest::Present);
        reply.ok().map(|(feed, ..)| feed)
    }

    /// Makes this guardian's relay feed another pipe from `position` on.
    pub fn from_position(guardian: Guardian, position: u64) -> Result<Feed, FeedError> {
        let place = process_info::place().ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        let request = InputRequest::From { position };
        let (feed, line, writer) = Feed::request(&place, guardian, request)?;
        if let Some(writer) = writer {
            let inode = feed.id.1;
            let thread = std::thread::Builder::new().name("understudy-input".into());
            thread.spawn(move || keep_writer(&line, writer, inode))?;
        }
        Ok(feed)
    }

    /// Returns the input, the connection to its relay, and the pipe's write end.
    ///
    /// The write end is absent if the pipe already contains all of the input.
    fn request(
        place: &ProcessPlace,
        guardian: Guardian,
        request: InputRequest,
    ) -> Result<(Feed, Line, Option<File>), FeedError> {
        let line = Line::connect(&place.directory, LineSocket::Input(guardian))?;
        let line = Line::from(move_owned_descriptor(line.into()));
        line.send(&request)?;
        let until = Instant::now() + REPLY_TIMEOUT;
        let (reply, descriptors): (InputReply, Vec<OwnedFd>) = loop {
            match line.receive_with(until.saturating_duration_since(Instant::now()))? {
                Some(reply) => break reply,
                // A signal may end the wait.
                None if Instant::now() < until => {}
                None => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        };
        if reply != InputReply::Pipe {
            return Err(FeedError::Released);
        }
        let mut descriptors = descriptors.into_iter();
        let (Some(pipe), Some(page)) = (descriptors.next(), descriptors.next()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidData).into());
        };
        let pipe = File::from(move_owned_descriptor(pipe));
        let metadata = pipe.metadata()?;
        let feed = Feed {
            guardian,
            id: (metadata.dev(), metadata.ino()),
            pipe,
            positions: map(&page)?,
        };
        Ok((
            feed,
            line,
            descriptors
                .next()
                .map(move_owned_descriptor)
                .map(File::from),
        ))
    }

    /// True if a descriptor with this device and inode refers to the pipe.
    pub fn is_pipe(&self, id: (u64, u64)) -> bool {
        self.id == id
    }

    /// Returns the number of bytes that the program has read.
    ///
    /// The program's threads must be stopped.
    pub fn position(&self) -> io::Result<u64> {
        let until = Instant::now() + WRITE_TIMEOUT;
        loop {
            if let Some(position) = self.positions.position(|| self.unread()) {
                return Ok(position);
            }
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Returns the number of bytes in the pipe.
    fn unread(&self) -> u64 {
        let mut count: libc::c_int = 0;
        // SAFETY: ioctl(2), FIONREAD, fills a number.
        unsafe { libc::ioctl(self.pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
        count as u64
    }

    /// True if the input ends at `position`.
    pub fn ends_at(&self, position: u64) -> bool {
        self.positions.length() == Some(position)
    }

    /// Allows the relay to release the input before `position`.
    pub fn release(&self, position: u64) {
        self.positions.release(position);
    }

    pub fn pipe(&self) -> &File {
        &self.pipe
    }
}

/// Keeps a pipe's write end open until the pipe contains all of the input.
///
/// The program would find a wrong end of the input if the relay exited earlier and no write end
/// were open. Therefore this write end stays open: after the relay's exit further reads block, and
/// a blocked read ends the job.
fn keep_writer(line: &Line, writer: File, inode: u64) {
    loop {
        match line.receive(None) {
            Ok(Some(InputReply::Ended)) => return drop(writer),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    remote_input::end_job_at_read(inode, message::INPUT_RELAY_GONE)
}

fn map(page: &OwnedFd) -> io::Result<&'static InputPage> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of the relay's file, which has this length. The mapping is never
    // removed, and its words are atomic.
    unsafe {
        let mapped = libc::mmap(
            std::ptr::null_mut(),
            PAGE_BYTES,
            access,
            libc::MAP_SHARED,
            page.as_raw_fd(),
            0,
        );
        match mapped == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(&*mapped.cast::<InputPage>()),
        }
    }
}
