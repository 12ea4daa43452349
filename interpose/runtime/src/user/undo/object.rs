//! System V objects that the program has made since a cut.

use super::log::Effect;
use super::with_recorder;
use crate::user::{Runtime, system_v};
use std::io;
use std::path::Path;

/// Notes an object that has been made.
pub fn note_object(rt: &Runtime, kind: i64, identifier: i32) {
    with_recorder(rt, Path::new("a System V object"), |recorder| {
        recorder.write(Effect::Object {
            kind,
            identifier,
            namespace: system_v::namespace(),
        })
    });
}

/// Removes an object, if it was made on this host.
pub(super) fn remove(kind: i64, identifier: i32, namespace: u64) -> io::Result<()> {
    match namespace == system_v::namespace() {
        true => system_v::remove(kind, identifier),
        false => Ok(()),
    }
}
