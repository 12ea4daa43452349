//! Kernel objects of System V IPC: permissions, names, removal.
#![allow(unsafe_code)]

use std::io;
use understudy_abi::system_v::SEMAPHORES;
use xxhash_rust::xxh3::xxh3_64;

/// Key and permissions of an object (sysvipc(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ObjectAccess {
    pub key: i32,
    pub mode: u32,
    user: u32,
    group: u32,
}

impl ObjectAccess {
    const PERMISSIONS: u32 = 0o777;

    pub fn from_permissions(permissions: &libc::ipc_perm) -> ObjectAccess {
        ObjectAccess {
            key: permissions.__key,
            mode: u32::from(permissions.mode) & ObjectAccess::PERMISSIONS,
            user: permissions.uid,
            group: permissions.gid,
        }
    }

    pub fn has_key_of(&self, permissions: &libc::ipc_perm) -> bool {
        self.key == permissions.__key
    }

    pub fn write_to(&self, permissions: &mut libc::ipc_perm) {
        (permissions.uid, permissions.gid) = (self.user, self.group);
        permissions.mode = self.mode as _;
    }

    /// Returns permissions for objects of tests.
    #[cfg(test)]
    pub fn of_tests() -> ObjectAccess {
        // SAFETY: these calls only return numbers.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        ObjectAccess {
            key: libc::IPC_PRIVATE,
            mode: 0o600,
            user,
            group,
        }
    }

    /// Returns the flags of a call that creates an object and fails if it exists.
    pub fn flags(&self) -> i32 {
        libc::IPC_CREAT | libc::IPC_EXCL | self.mode as i32
    }
}

/// Returns a number that identifies the namespace of identifiers; it differs between hosts.
pub fn namespace() -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let link = std::fs::read_link("/proc/self/ns/ipc").unwrap_or_default();
    xxh3_64(&[&boot[..], link.as_os_str().as_encoded_bytes()].concat())
}

/// Returns the name of an object for messages.
pub fn name(kind: i64, identifier: i32) -> String {
    let noun = match kind {
        SEMAPHORES => "semaphores",
        _ => "a message queue",
    };
    format!("{noun} of System V (identifier {identifier})")
}

pub fn remove(kind: i64, real: i32) -> io::Result<()> {
    // SAFETY: with IPC_RMID, semctl(2) and msgctl(2) read no further argument.
    let rc = unsafe {
        match kind {
            SEMAPHORES => libc::semctl(real, 0, libc::IPC_RMID),
            _ => libc::msgctl(real, libc::IPC_RMID, std::ptr::null_mut()),
        }
    };
    found(outcome(rc)).map(drop)
}

/// Converts the return value of a call, which is -1 after an error.
pub fn outcome(rc: libc::c_int) -> io::Result<libc::c_int> {
    match rc {
        -1 => Err(io::Error::last_os_error()),
        rc => Ok(rc),
    }
}

/// Converts the error of an object that does not exist to `None`.
pub fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIDRM)) => Ok(None),
        other => other.map(Some),
    }
}

/// True if the number is that of a process other than the caller.
pub fn is_other(pid: libc::pid_t) -> bool {
    pid != 0 && pid as u32 != std::process::id()
}

/// State of an object in the kernel.
pub struct ObjectState<Content> {
    pub access: ObjectAccess,
    pub content: Content,
    /// True if another process was the last user of the object, or waits for it.
    pub is_foreign: bool,
}

impl<Content> ObjectState<Content> {
    /// Returns the object with its content converted to a common type.
    pub fn with<Kinds>(self, kind: impl FnOnce(Content) -> Kinds) -> ObjectState<Kinds> {
        ObjectState {
            access: self.access,
            content: kind(self.content),
            is_foreign: self.is_foreign,
        }
    }
}

/// Object that a recovery has created in place of an object that no longer existed.
pub struct ReplacedObject {
    pub kind: i64,
    /// Identifier in the kernel at the cut.
    pub saved: i32,
    /// Identifier of the new object in the kernel.
    pub current: i32,
}
