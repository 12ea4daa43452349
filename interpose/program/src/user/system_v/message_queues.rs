//! System V message queues (msgop(2), msgctl(2)).
#![allow(unsafe_code)]

use super::kernel_object::{ObjectAccess, ObjectState, found, is_other, outcome};
use std::io;

/// Flag that copies the message of an index without receiving it (CONFIG_CHECKPOINT_RESTORE).
const MSG_COPY: i32 = 0o40000;
/// Length of a message's type in bytes.
const TYPE_BYTES: usize = size_of::<libc::c_long>();

/// Type and text of a message.
type Message = (i64, Vec<u8>);

/// Content of a queue.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Queue {
    /// Maximum number of bytes in the queue.
    limit: u64,
    messages: Vec<Message>,
}

fn about(real: i32) -> io::Result<libc::msqid_ds> {
    // SAFETY: msgctl(2) fills a structure of this function.
    unsafe {
        let mut about: libc::msqid_ds = std::mem::zeroed();
        outcome(libc::msgctl(real, libc::IPC_STAT, &raw mut about))?;
        Ok(about)
    }
}

/// Receives the first message, or copies the message of an index.
///
/// `None` if that message does not exist.
fn receive(real: i32, number: Option<usize>, room: usize) -> io::Result<Option<Message>> {
    let mut buffer = vec![0u8; TYPE_BYTES + room];
    let (flags, number) = match number {
        Some(number) => (libc::IPC_NOWAIT | MSG_COPY, number),
        None => (libc::IPC_NOWAIT | libc::MSG_NOERROR, 0),
    };
    let at = buffer.as_mut_ptr().cast();
    // SAFETY: msgrcv(2) writes a type and at most `room` bytes.
    let length = unsafe { libc::msgrcv(real, at, room, number as libc::c_long, flags) };
    if length < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOMSG) => Ok(None),
            _ => Err(error),
        };
    }
    buffer.truncate(TYPE_BYTES + length as usize);
    let text = buffer.split_off(TYPE_BYTES);
    let kind = buffer.try_into().map_or(0, i64::from_ne_bytes);
    Ok(Some((kind, text)))
}

fn send(real: i32, (kind, text): &Message) -> io::Result<()> {
    let message = [&kind.to_ne_bytes()[..], text].concat();
    // SAFETY: msgsnd(2) of a type and this number of bytes.
    let rc = unsafe { libc::msgsnd(real, message.as_ptr().cast(), text.len(), libc::IPC_NOWAIT) };
    outcome(rc).map(drop)
}

fn set(real: i32, access: &ObjectAccess, limit: u64) -> io::Result<()> {
    // SAFETY: msgctl(2) reads a structure of this function.
    unsafe {
        let mut about: libc::msqid_ds = std::mem::zeroed();
        access.write_to(&mut about.msg_perm);
        about.msg_qbytes = limit;
        outcome(libc::msgctl(real, libc::IPC_SET, &raw mut about)).map(drop)
    }
}

pub(super) fn read(real: i32) -> io::Result<ObjectState<Queue>> {
    let about = about(real)?;
    let mut messages = Vec::new();
    let room = about.__msg_cbytes as usize;
    while let Some(message) = receive(real, Some(messages.len()), room)? {
        messages.push(message);
    }
    Ok(ObjectState {
        access: ObjectAccess::from_permissions(&about.msg_perm),
        content: Queue {
            limit: about.msg_qbytes,
            messages,
        },
        is_foreign: is_other(about.msg_lspid) || is_other(about.msg_lrpid),
    })
}

impl Queue {
    /// Sets permissions and limit; false if the queue does not exist or has another key.
    pub(super) fn reset(&self, real: i32, access: &ObjectAccess) -> io::Result<bool> {
        let is_it = |about: libc::msqid_ds| access.has_key_of(&about.msg_perm);
        Ok(found(about(real))?.is_some_and(is_it)
            && found(set(real, access, self.limit))?.is_some())
    }

    /// Creates an empty queue.
    pub(super) fn create(&self, access: &ObjectAccess) -> io::Result<i32> {
        // SAFETY: msgget(2) accesses no memory.
        let real = outcome(unsafe { libc::msgget(access.key, access.flags()) })?;
        self.reset(real, access).map(|_| real)
    }

    /// Replaces the messages of the queue.
    ///
    /// This process becomes the last user if the kernel records another process.
    pub(super) fn write(&self, real: i32, access: &ObjectAccess) -> io::Result<()> {
        let room = about(real)?.__msg_cbytes as usize;
        while receive(real, None, room)?.is_some() {}
        let content: usize = self.messages.iter().map(|(_, text)| text.len()).sum();
        let needed = content.max(self.messages.len()).max(1) as u64;
        if needed > self.limit {
            set(real, access, needed)?;
        }
        let now = about(real)?;
        if is_other(now.msg_lspid) || is_other(now.msg_lrpid) {
            send(real, &(1, vec![0]))?;
            receive(real, None, 1)?;
        }
        for message in &self.messages {
            send(real, message)?;
        }
        match needed > self.limit {
            true => set(real, access, self.limit),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::system_v::kernel_object::remove;
    use understudy_abi::system_v::MESSAGES;

    #[test]
    fn messages_are_copied_and_put_back_in_order() {
        let access = ObjectAccess::of_tests();
        let queue = Queue {
            limit: 100,
            messages: vec![(3, vec![7; 90]), (1, vec![]), (2, vec![1, 2])],
        };
        let real = queue.create(&access).expect("msgget(2)");
        queue.write(real, &access).expect("msgsnd(2)");
        let read_queue = |real| match read(real).expect("msgrcv(2) with MSG_COPY") {
            ObjectState {
                content: queue,
                is_foreign: false,
                ..
            } => queue,
            _ => panic!("the queue is this process's"),
        };
        assert_eq!(read_queue(real), queue);
        receive(real, None, 100).expect("msgrcv(2)");
        send(real, &(5, vec![9; 20])).expect("msgsnd(2)");
        set(real, &access, 10).expect("msgctl(2)");
        assert!(queue.reset(real, &access).expect("msgctl(2)"));
        queue.write(real, &access).expect("msgsnd(2)");
        assert_eq!(read_queue(real), queue);
        remove(MESSAGES, real).expect("msgctl(2)");
        assert!(!queue.reset(real, &access).expect("msgctl(2)"));
    }
}
