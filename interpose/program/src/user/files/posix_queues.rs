//! POSIX message queues that only this process uses (mq_overview(7)).
//!
//! A queue is used by this process only if it has no name, has one open file description, and was
//! not inherited by a child. The kernel offers no way to copy messages. So at a cut, while all
//! threads of the program are stopped, the messages are received and sent again.
#![allow(unsafe_code)]

use super::former_name;
use crate::system_calls;
use crate::user::children;
use crate::user::open_descriptors::{path_of, stat};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use understudy_catalogue::message;

/// Type of the file system of queues (statfs(2)).
pub const FILE_SYSTEM: i64 = 0x1980_0202;

const NAMED: &str = "any process may use it as long as it has a name; let the program remove the \
                     name as soon as it has opened the queue (mq_unlink)";
const SHARED: &str = "a child or another process may use it, or it is open twice; let the program \
                      open it once, and use it alone";
const NOTIFIED: &str = "it has a notification request (mq_notify), which cannot be restored; let \
                        the program wait for messages by poll(2) or a thread";
const UNREADABLE: &str = "its permissions do not let its messages be read and sent; let its owner \
                          read and write it";

/// Priority and text of a message.
type Message = (u32, Vec<u8>);

/// Queue at a cut.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Queue {
    /// Name of the queue before its removal.
    name: Vec<u8>,
    inode: u64,
    max_messages: i64,
    max_bytes: i64,
    mode: u32,
    user: u32,
    group: u32,
    messages: Vec<Message>,
}

/// True for the descriptor of a queue.
pub fn is_queue(fd: i32) -> bool {
    // SAFETY: fstatfs(2) fills a structure of this function.
    unsafe {
        let mut file_stat: libc::statfs = std::mem::zeroed();
        libc::fstatfs(fd, &raw mut file_stat) == 0 && file_stat.f_type as i64 == FILE_SYSTEM
    }
}

/// Returns the reason why a queue cannot be restored.
pub fn objection(fd: i32, file_stat: &libc::stat) -> Option<String> {
    let why = if file_stat.st_nlink > 0 {
        NAMED
    } else if children::has_any() || !is_open_once(fd) {
        SHARED
    } else {
        match description_of(fd) {
            Some(text) if has_notification(&text) => NOTIFIED,
            Some(_) if open_separately(fd).is_ok() => return None,
            _ => UNREADABLE,
        }
    };
    Some(why.into())
}

/// True if no other open file description of the queue exists.
///
/// Only in this case the kernel grants a lease for writing (fcntl(2)).
fn is_open_once(fd: i32) -> bool {
    // SAFETY: fcntl(2) with F_SETLEASE accesses no memory; the lease is released at once.
    unsafe {
        let is_granted = libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0;
        libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
        is_granted
    }
}

/// Reads the kernel's description of a queue.
///
/// `None` if the queue is open for writing only.
fn description_of(fd: i32) -> Option<String> {
    let mut text = [0u8; 256];
    // SAFETY: pread(2) into an array of this function.
    let length = unsafe { libc::pread(fd, text.as_mut_ptr().cast(), text.len(), 0) };
    let text = text.get(..usize::try_from(length).ok()?)?;
    std::str::from_utf8(text).ok().map(Into::into)
}

/// True if the description names a process to notify, or is incomplete.
fn has_notification(text: &str) -> bool {
    let value = |word: &str| word.strip_prefix("NOTIFY_PID:")?.parse().ok();
    let process: Option<i32> = text.split_whitespace().find_map(value);
    process != Some(0)
}

/// Opens the queue of a descriptor with a separate open file description.
///
/// Closing the returned file ends the notification of this process (mq_notify(3)).
fn open_separately(fd: i32) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    options.open(format!("/proc/self/fd/{fd}"))
}

/// Converts the return value of a call, which is -1 after an error.
fn check(rc: isize) -> Result<isize> {
    match rc {
        -1 => Err(Error::last_os_error()),
        rc => Ok(rc),
    }
}

fn receive_all(queue: &File, max_bytes: usize) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    let mut text = vec![0u8; max_bytes];
    loop {
        let (mut priority, at) = (0, text.as_mut_ptr().cast());
        // SAFETY: mq_receive(3) writes `max_bytes` at most, and a priority.
        let rc = unsafe { libc::mq_receive(queue.as_raw_fd(), at, max_bytes, &raw mut priority) };
        match check(rc) {
            Ok(length) => messages.push((priority, text[..length as usize].to_vec())),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return Ok(messages),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn send_all(queue: &File, messages: &[Message]) -> Result<()> {
    for (priority, text) in messages {
        let (fd, at) = (queue.as_raw_fd(), text.as_ptr().cast());
        // SAFETY: mq_send(3) reads the text.
        let send = || check(unsafe { libc::mq_send(fd, at, text.len(), *priority) } as isize);
        while let Err(error) = send() {
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Returns copies of the messages of a queue; the queue keeps its messages.
///
/// Kills this process if the messages cannot be sent back, because the queue has then lost them.
fn copy_all(queue: &File, max_bytes: usize) -> Result<Vec<Message>> {
    let messages = receive_all(queue, max_bytes)?;
    if let Err(error) = send_all(queue, &messages) {
        system_calls::print_message(message::queue_not_restored(error, std::process::id()));
        system_calls::kill_self();
    }
    Ok(messages)
}

impl Queue {
    /// Returns the queue of a descriptor with its messages.
    pub fn from_fd(fd: i32) -> Option<Queue> {
        let file_stat = stat(fd)?;
        let path = path_of(fd);
        // Opening and closing the queue ends a notification that was requested after the cut.
        // Otherwise sending the messages again would trigger this notification.
        drop(open_separately(fd).ok()?);
        let queue = open_separately(fd).ok()?;
        // SAFETY: mq_getattr(3) fills a structure of this function.
        let limits = unsafe {
            let mut limits: libc::mq_attr = std::mem::zeroed();
            check(libc::mq_getattr(fd, &raw mut limits) as isize).ok()?;
            limits
        };
        Some(Queue {
            name: former_name::former(&path)?.as_os_str().as_bytes().to_vec(),
            inode: file_stat.st_ino,
            max_messages: limits.mq_maxmsg,
            max_bytes: limits.mq_msgsize,
            mode: file_stat.st_mode & 0o7777,
            user: file_stat.st_uid,
            group: file_stat.st_gid,
            messages: copy_all(&queue, limits.mq_msgsize as usize).ok()?,
        })
    }

    /// True if replacing the messages turns this queue into `other`.
    pub fn can_become(&self, other: &Queue) -> bool {
        let key = |queue: &Queue| (queue.inode, queue.max_messages, queue.max_bytes);
        key(self) == key(other) && self.name == other.name
    }

    /// Creates an empty queue without a name, open with these flags.
    ///
    /// The queue is created with its former name if no other queue has that name. The name is then
    /// removed, but the descriptor's link in `/proc` still shows it.
    pub fn create(&self, flags: i32) -> Result<OwnedFd> {
        let other = format!("/understudy.{}", std::process::id()).into_bytes();
        let created = self.create_as(&self.name);
        let created = created.or_else(|_| self.create_as(&other))?;
        let access = flags & (libc::O_ACCMODE | libc::O_NONBLOCK);
        let path = CString::new(format!("/proc/self/fd/{}", created.as_raw_fd()))?;
        // SAFETY: open(2) of a valid string; the descriptor is new.
        unsafe {
            let fd = check(libc::open(path.as_ptr(), access | libc::O_CLOEXEC) as isize)?;
            Ok(OwnedFd::from_raw_fd(fd as i32))
        }
    }

    fn create_as(&self, name: &[u8]) -> Result<OwnedFd> {
        let name = CString::new(name)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: mq_open(3) and mq_unlink(3) of a valid string; the descriptor is new.
        unsafe {
            let mut limits: libc::mq_attr = std::mem::zeroed();
            (limits.mq_maxmsg, limits.mq_msgsize) = (self.max_messages, self.max_bytes);
            let mode: libc::mode_t = 0o600;
            let fd = libc::mq_open(name.as_ptr(), flags, mode, &raw const limits);
            let created = OwnedFd::from_raw_fd(check(fd as isize)? as i32);
            check(libc::mq_unlink(name.as_ptr()) as isize)?;
            Ok(created)
        }
    }

    /// Replaces messages, owner and mode of the descriptor's queue.
    pub fn fill(&self, fd: i32) -> Result<()> {
        let queue = open_separately(fd)?;
        receive_all(&queue, self.max_bytes as usize)?;
        send_all(&queue, &self.messages)?;
        // SAFETY: fchmod(2), fchown(2) of a descriptor of this process.
        unsafe {
            let file_stat = stat(fd).ok_or_else(Error::last_os_error)?;
            if (file_stat.st_uid, file_stat.st_gid) != (self.user, self.group) {
                check(libc::fchown(fd, self.user, self.group) as isize)?;
            }
            check(libc::fchmod(fd, self.mode) as isize).map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(messages: Vec<Message>) -> Queue {
        // SAFETY: these calls only return numbers.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Queue {
            name: format!("/understudy.test.{}", std::process::id()).into(),
            inode: 0,
            max_messages: 4,
            max_bytes: 32,
            mode: 0o640,
            user,
            group,
            messages,
        }
    }

    #[test]
    fn messages_are_copied_and_put_back_in_order() {
        let messages = vec![(7, vec![1; 32]), (3, vec![2]), (3, vec![3, 3]), (0, vec![])];
        let queue = queue(messages);
        let made = queue.create(libc::O_RDONLY).expect("mq_open(3)");
        let fd = made.as_raw_fd();
        queue.fill(fd).expect("mq_send(3)");
        for _ in 0..2 {
            let read = Queue::from_fd(fd).expect("a queue");
            let inode = read.inode;
            assert_eq!(
                read,
                Queue {
                    inode,
                    ..queue.clone()
                }
            );
        }
        let file_stat = stat(fd).expect("fstat(2)");
        assert!(is_queue(fd) && is_open_once(fd));
        let other = open_separately(fd).expect("open(2)");
        assert_eq!(objection(fd, &file_stat).as_deref(), Some(SHARED));
        drop(other);
        queue.fill(fd).expect("mq_send(3)");
        assert_eq!(
            Queue::from_fd(fd).map(|it| it.messages),
            Some(queue.messages)
        );
    }

    #[test]
    fn a_process_to_notify_is_found() {
        let text =
            |process| format!("QSIZE:8   NOTIFY:0     SIGNO:10    NOTIFY_PID:{process}   \n");
        assert!(!has_notification(&text(0)));
        assert!(has_notification(&text(22115)));
        assert!(has_notification(""));
    }
}
