//! System V semaphore sets and message queues that only this process uses.
//!
//! The values of these objects are in the kernel, where they outlive the process. A recovery
//! restores the values of the checkpoint: in the object itself if it still exists, else in a new
//! object, which has a different identifier ([`understudy_abi::system_v`]). The undo log
//! (`super::undo`) removes objects that were created since the checkpoint.
#![allow(unsafe_code)]

pub(super) mod kernel_object;
mod message_queues;
mod semaphore_sets;

use super::kernel_calls::kernel_calls;
use super::threads::pending_call;
use super::{UserError, children, undo};
use crate::kernel_state::attributes::{ADJUSTMENTS, MANY_OBJECTS, OTHER_USERS, UNREADABLE};
use crate::user::program_runtime::Runtime;
use kernel_object::{ObjectAccess, ObjectState, found, name};
use kernel_object::{ReplacedObject, namespace, remove};
use message_queues::Queue;
use semaphore_sets::Set;
use std::io;
use understudy_abi::system_v::{
    CREATED, FOREIGN, MESSAGES, SEMAPHORES, SystemVObject, SystemVObjects, UNDO,
};

/// Content of an object.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum Content {
    Set(Set),
    Queue(Queue),
}

/// Object at a cut.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct SavedObject {
    /// Identifier that the program uses.
    identifier: i32,
    /// Identifier in the kernel.
    real: i32,
    access: ObjectAccess,
    content: Content,
}

/// Objects at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct SystemVObjectsAtCut {
    namespace: u64,
    objects: Vec<SavedObject>,
}

/// Lets a thread continue to wait for an object that has a new identifier.
///
/// # Safety
/// `frame` must be the kernel's frame of a stopped thread, and the thread's memory must be that of
/// the image.
pub(super) unsafe fn redirect(rt: &Runtime, frame: usize) {
    let replaced = rt.system_v.borrow();
    if replaced.is_empty() {
        return;
    }
    // SAFETY: the caller guarantees that `frame` is the kernel's frame of a stopped thread, and
    // that the thread's memory is that of the image, as `pending_call` requires.
    let (call, first) = unsafe { pending_call(frame) };
    let kind = match call {
        libc::SYS_semop | libc::SYS_semtimedop => SEMAPHORES,
        libc::SYS_msgsnd | libc::SYS_msgrcv => MESSAGES,
        _ => return,
    };
    let is_awaited =
        |object: &&ReplacedObject| (object.kind, object.saved) == (kind, *first as i32);
    if let Some(object) = replaced.iter().find(is_awaited) {
        *first = object.current as usize;
    }
}

fn objects() -> &'static SystemVObjects {
    &kernel_calls().objects
}

/// Refuses objects that cannot be restored.
///
/// All threads of the program must be stopped.
pub(super) fn check() -> Result<(), UserError> {
    if objects().has_overflowed() {
        let what = "hundreds of System V objects".into();
        return Err(UserError::KernelState {
            what,
            why: MANY_OBJECTS,
        });
    }
    let mut first = None;
    for object in objects().all() {
        let refused = |why| UserError::KernelState {
            what: name(object.kind, object.identifier),
            why,
        };
        match read(&object) {
            Ok(None) => objects().remove(object.kind, object.identifier),
            Ok(Some(read)) => first = first.or(objection(&object, &read).map(refused)),
            Err(_) => first = first.or(Some(refused(UNREADABLE))),
        }
    }
    first.map_or(Ok(()), Err)
}

/// Returns the reason why an object cannot be restored.
fn objection(object: &SystemVObject, read: &ObjectState<Content>) -> Option<&'static str> {
    if read.is_foreign {
        // The use by another process is recorded, because this process may be the last user at the
        // next cut.
        objects().real_for_call(object.kind, object.identifier, FOREIGN);
    }
    let is_own = object.flags & (CREATED | FOREIGN) == CREATED && !read.is_foreign;
    if !is_own || children::has_any() {
        Some(OTHER_USERS)
    } else if object.flags & UNDO != 0 {
        Some(ADJUSTMENTS)
    } else {
        (read.access.mode & 0o600 != 0o600).then_some(UNREADABLE)
    }
}

/// Reads an object; `None` if it does not exist.
fn read(object: &SystemVObject) -> io::Result<Option<ObjectState<Content>>> {
    found(match object.kind {
        SEMAPHORES => semaphore_sets::read(object.real).map(|it| it.with(Content::Set)),
        _ => message_queues::read(object.real).map(|it| it.with(Content::Queue)),
    })
}

/// Returns the objects at a cut.
pub(super) fn capture() -> Result<SystemVObjectsAtCut, UserError> {
    let mut saved = Vec::new();
    for object in objects().all() {
        let read = read(&object).map_err(|_| UserError::KernelState {
            what: name(object.kind, object.identifier),
            why: UNREADABLE,
        })?;
        saved.extend(read.map(|read| SavedObject {
            identifier: object.identifier,
            real: object.real,
            access: read.access,
            content: read.content,
        }));
    }
    let namespace = if saved.is_empty() { 0 } else { namespace() };
    Ok(SystemVObjectsAtCut {
        namespace,
        objects: saved,
    })
}

/// Removes the objects that this process has created.
///
/// Called in a spare that no worker needs, and whose program has created objects before MPI_Init.
pub fn remove_created_system_v() {
    for known in objects().all().filter(|it| it.flags & CREATED != 0) {
        remove_object(&known);
    }
}

fn remove_object(known: &SystemVObject) {
    if let Err(error) = remove(known.kind, known.real) {
        log::warn!(
            "removal of {} failed: {error}",
            name(known.kind, known.identifier)
        );
    }
}

/// Restores the objects of the checkpoint, and removes other objects that this process has created.
pub(super) fn restore(rt: &Runtime, saved: &SystemVObjectsAtCut) -> Result<(), UserError> {
    let known: Vec<SystemVObject> = objects().all().collect();
    if known.is_empty() && saved.objects.is_empty() {
        return Ok(());
    }
    let is_here = saved.namespace == namespace();
    let is_saved = |known: &SystemVObject| {
        let is_same =
            |saved: &SavedObject| saved.content.kind() == known.kind && saved.real == known.real;
        is_here && saved.objects.iter().any(is_same)
    };
    objects().clear();
    rt.system_v.borrow_mut().clear();
    let is_new = |known: &&SystemVObject| known.flags & CREATED != 0 && !is_saved(known);
    known.iter().filter(is_new).for_each(remove_object);
    for object in &saved.objects {
        let failed = |error: io::Error| UserError::File {
            path: name(object.content.kind(), object.identifier),
            why: error.to_string(),
        };
        object.restore(rt, is_here).map_err(failed)?;
    }
    Ok(())
}

impl Content {
    fn kind(&self) -> i64 {
        match self {
            Content::Set(_) => SEMAPHORES,
            Content::Queue(_) => MESSAGES,
        }
    }
}

impl SavedObject {
    /// Restores the object; `is_here` is true in the IPC namespace of the cut.
    fn restore(&self, rt: &Runtime, is_here: bool) -> io::Result<()> {
        let still_exists = is_here
            && match &self.content {
                Content::Set(set) => set.reset(self.real, &self.access)?,
                Content::Queue(queue) => queue.reset(self.real, &self.access)?,
            };
        let kind = self.content.kind();
        let real = match still_exists {
            true => self.real,
            false => self.create()?,
        };
        if !still_exists {
            undo::record_object(rt, kind, real);
            rt.system_v.borrow_mut().push(ReplacedObject {
                kind,
                saved: self.real,
                current: real,
            });
        }
        match &self.content {
            Content::Set(set) => set.write(real)?,
            Content::Queue(queue) => queue.write(real, &self.access)?,
        }
        objects().insert(SystemVObject {
            kind,
            identifier: self.identifier,
            real,
            flags: CREATED,
        });
        Ok(())
    }

    /// Creates an object without content; returns its identifier.
    fn create(&self) -> io::Result<i32> {
        match &self.content {
            Content::Set(set) => set.create(&self.access),
            Content::Queue(queue) => queue.create(&self.access),
        }
    }
}
