//! Encoding of a rank's state outside of its pages.

use super::replica::EncodedState;
use crate::Runtime;
use crate::arch::Frame;
use crate::drained::{self, DrainedMessage};
use crate::objects::{Objects, objects};
use crate::requests::{self, Requests};
use crate::schedule::{Schedule, schedule};
use crate::{annotations, clock, disk, user};
use bincode::config::standard;

/// Magic number and version of the encoding.
///
/// Any change of a type in [`SavedState`] increments the version.
const MAGIC: u32 = u32::from_le_bytes(*b"uss\x27");

/// State of a rank outside of its pages.
#[derive(bincode::Decode)]
pub struct SavedState {
    magic: u32,
    /// Position of the program, and the call that it was about to make.
    pub frame: Frame,
    pub objects: Objects,
    /// Outstanding requests and message counts.
    pub requests: Requests,
    pub early: Vec<DrainedMessage>,
    pub schedule: Schedule,
    /// Annotations of memory that need not be saved.
    pub marks: annotations::SavedAnnotations,
    /// Buffers for buffered sends.
    pub attached: Vec<requests::AttachedBuffer>,
    /// Name of the epoch on disk, if the epoch is to be written.
    pub disk: Option<disk::EpochKey>,
    pub clock: clock::ClockReading,
    /// Thread-locals, signals, files, output.
    pub user: user::ProgramState,
}

/// Borrowed form of [`SavedState`], with the fields in the order of that type.
#[derive(bincode::Encode)]
struct BorrowedState<'a> {
    magic: u32,
    frame: &'a Frame,
    objects: &'a Objects,
    requests: &'a Requests,
    early: &'a Vec<DrainedMessage>,
    schedule: Schedule,
    marks: annotations::SavedAnnotations,
    attached: &'a Vec<requests::AttachedBuffer>,
    disk: Option<disk::EpochKey>,
    clock: clock::ClockReading,
    user: &'a user::ProgramState,
}

/// Encodes this process's state outside of its pages.
pub fn encode(rt: &Runtime, frame: &Frame, user: &user::ProgramState) -> EncodedState {
    let saved = BorrowedState {
        magic: MAGIC,
        frame,
        objects: &objects(rt),
        requests: &requests::table(rt),
        early: &drained::list(rt),
        schedule: schedule(rt),
        marks: annotations::saved_annotations(rt),
        attached: &requests::buffers(rt),
        disk: disk::due_key(rt),
        clock: clock::read_clocks(),
        user,
    };
    let bytes = bincode::encode_to_vec(saved, standard());
    EncodedState::new(bytes.expect("encoding into memory does not fail"))
}

pub fn decode(bytes: &[u8]) -> Result<SavedState, String> {
    let (saved, used) = bincode::decode_from_slice::<SavedState, _>(bytes, standard())
        .map_err(|error| error.to_string())?;
    if saved.magic != MAGIC {
        return Err("it was written by another version".into());
    }
    if used != bytes.len() {
        return Err(format!("{} bytes are left over", bytes.len() - used));
    }
    Ok(saved)
}
