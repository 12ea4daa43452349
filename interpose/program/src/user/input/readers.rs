//! Threads that wait in a system call for input of a pipe (proc(5), `syscall`).
#![allow(unsafe_code)]

use crate::user::open_descriptors;
use std::fs;
use understudy_image::process_memory;

/// Meaning of the arguments of a system call that determine its descriptors.
enum DescriptorArguments {
    /// The first argument is a descriptor.
    Descriptor,
    /// The first two arguments are an array of `struct pollfd` and its length.
    Polled,
    /// The first two arguments are a number of descriptors and an `fd_set`.
    Selected,
    /// The first argument is an epoll(7) descriptor.
    Watched,
}

/// System calls that wait for input.
const CALLS: [(i64, DescriptorArguments); 12] = [
    (libc::SYS_read, DescriptorArguments::Descriptor),
    (libc::SYS_readv, DescriptorArguments::Descriptor),
    (libc::SYS_preadv2, DescriptorArguments::Descriptor),
    (libc::SYS_splice, DescriptorArguments::Descriptor),
    (libc::SYS_tee, DescriptorArguments::Descriptor),
    (libc::SYS_poll, DescriptorArguments::Polled),
    (libc::SYS_ppoll, DescriptorArguments::Polled),
    (libc::SYS_select, DescriptorArguments::Selected),
    (libc::SYS_pselect6, DescriptorArguments::Selected),
    (libc::SYS_epoll_wait, DescriptorArguments::Watched),
    (libc::SYS_epoll_pwait, DescriptorArguments::Watched),
    (libc::SYS_epoll_pwait2, DescriptorArguments::Watched),
];

/// Maximum number of descriptors of one call that are examined.
const MAX_DESCRIPTORS: u64 = 1024;

/// True if a thread of this process waits for input of this pipe.
pub fn is_read(inode: u64) -> bool {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let call = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("syscall")).ok();
    let calls = threads.flatten().filter_map(call);
    calls
        .filter_map(|line| parse(&line))
        .any(|call| call.waits_for(inode))
}

/// System call in which a thread waits.
struct WaitingCall {
    number: i64,
    /// The first two arguments.
    arguments: [u64; 2],
}

/// Parses a file `syscall`; `None` for a thread that is running.
fn parse(line: &str) -> Option<WaitingCall> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    Some(WaitingCall {
        number,
        arguments: [argument()?, argument()?],
    })
}

impl WaitingCall {
    /// True if the call waits for input of this pipe.
    fn waits_for(&self, inode: u64) -> bool {
        let [first, second] = self.arguments;
        let is_pipe = |fd: i32| open_descriptors::stat(fd).is_some_and(|stat| stat.st_ino == inode);
        let kind = CALLS.iter().find(|(call, _)| *call == self.number);
        match kind.map(|(_, kind)| kind) {
            None => false,
            Some(DescriptorArguments::Descriptor) => is_pipe(first as i32),
            Some(DescriptorArguments::Polled) => {
                let entries = copy(first, second.min(MAX_DESCRIPTORS) * POLLFD);
                let fd = |entry: &[u8]| entry.first_chunk().copied().map(i32::from_ne_bytes);
                entries.chunks(POLLFD as usize).filter_map(fd).any(is_pipe)
            }
            Some(DescriptorArguments::Selected) => {
                let set = copy(second, first.min(MAX_DESCRIPTORS).div_ceil(8));
                let is_in = |fd: &i32| {
                    let byte = set.get(*fd as usize / 8);
                    byte.is_some_and(|byte| byte >> (fd % 8) & 1 != 0)
                };
                (0..first.min(MAX_DESCRIPTORS) as i32)
                    .filter(is_in)
                    .any(is_pipe)
            }
            Some(DescriptorArguments::Watched) => {
                let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", first as i32));
                let entry = format!("ino:{inode:x}");
                let has_entry = |line: &str| line.split_whitespace().any(|word| word == entry);
                info.is_ok_and(|info| info.lines().any(has_entry))
            }
        }
    }
}

/// Size of a `struct pollfd` in bytes (poll(2)).
const POLLFD: u64 = size_of::<libc::pollfd>() as u64;

/// Copies memory of this process that may have been unmapped.
///
/// Empty if the memory is not mapped.
fn copy(address: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    if !process_memory::read_own_memory(address, &mut bytes) {
        bytes.clear();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, Instant};

    /// Asserts that a thread that waits for a pipe is found.
    ///
    /// The thread must not be found for another pipe. `wait` waits for the passed descriptor.
    fn assert_found(wait: impl FnOnce(i32) + Send + 'static) {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let about = fs::metadata(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let inode = about.expect("there").ino();
        let (other, _writer) = std::io::pipe().expect("a pipe");
        let about = fs::metadata(format!("/proc/self/fd/{}", other.as_raw_fd()));
        let other_inode = about.expect("there").ino();
        let fd = reader.as_raw_fd();
        let thread = std::thread::spawn(move || wait(fd));
        let until = Instant::now() + Duration::from_secs(10);
        while !is_read(inode) {
            assert!(Instant::now() < until, "the thread is not found");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!is_read(other_inode));
        writer.write_all(b"x").expect("there is room");
        thread.join().expect("it ends");
    }

    #[test]
    fn threads_that_read_or_poll_are_found() {
        assert_found(|fd| {
            // SAFETY: read(2) into a byte of this function.
            unsafe { libc::read(libc::dup(fd), [0u8].as_mut_ptr().cast(), 1) };
        });
        assert_found(|fd| {
            let mut polled = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: poll(2) of one descriptor.
            unsafe { libc::poll(&raw mut polled, 1, -1) };
        });
        assert_found(|fd| {
            // SAFETY: select(2) with a set of this function, and without a time limit.
            unsafe {
                let mut set: libc::fd_set = std::mem::zeroed();
                libc::FD_SET(fd, &raw mut set);
                let nothing = std::ptr::null_mut();
                libc::select(fd + 1, &raw mut set, nothing, nothing, std::ptr::null_mut());
            }
        });
        assert_found(|fd| {
            // SAFETY: an epoll(7) descriptor of this function, which waits for one event.
            unsafe {
                let epoll = libc::epoll_create1(0);
                let mut event = libc::epoll_event {
                    events: libc::EPOLLIN as u32,
                    u64: 0,
                };
                libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event);
                libc::epoll_wait(epoll, &raw mut event, 1, -1);
                libc::close(epoll);
            }
        });
    }
}
