//! Encoding of a rank's state outside of its pages.

use super::copy::State;
use crate::Runtime;
use crate::arch::Frame;
use crate::early::{self, Early};
use crate::objects::{Objects, objects};
use crate::requests::{self, Requests};
use crate::schedule::{Schedule, schedule};
use crate::{clock, disk, marks, user};
use bincode::config::standard;

/// Magic number and version of the encoding.
///
/// The version is bumped with any change of a type in [`Saved`].
const MAGIC: u32 = u32::from_le_bytes(*b"uss\x25");

/// State of a rank outside of its pages.
#[derive(bincode::Decode)]
pub struct Saved {
    magic: u32,
    /// Position of the program, and the call that it was about to make.
    pub frame: Frame,
    pub objects: Objects,
    /// Outstanding requests and message counts.
    pub requests: Requests,
    pub early: Vec<Early>,
    pub schedule: Schedule,
    /// Annotations of memory that need not be saved.
    pub marks: marks::Lasting,
    /// Buffers for buffered sends.
    pub attached: Vec<requests::Attached>,
    /// Name of the epoch on disk, if it is to be written.
    pub disk: Option<disk::Key>,
    pub clock: clock::Reading,
    /// Thread-locals, signals, files, output.
    pub user: user::State,
}

/// Borrowed form of [`Saved`], with the fields in that order.
#[derive(bincode::Encode)]
struct Borrowed<'a> {
    magic: u32,
    frame: &'a Frame,
    objects: &'a Objects,
    requests: &'a Requests,
    early: &'a Vec<Early>,
    schedule: Schedule,
    marks: marks::Lasting,
    attached: &'a Vec<requests::Attached>,
    disk: Option<disk::Key>,
    clock: clock::Reading,
    user: &'a user::State,
}

/// Encodes this process's state outside of its pages.
pub fn encode(rt: &Runtime, frame: &Frame, user: &user::State) -> State {
    let saved = Borrowed {
        magic: MAGIC,
        frame,
        objects: &objects(rt),
        requests: &requests::table(rt),
        early: &early::list(rt),
        schedule: schedule(rt),
        marks: marks::lasting(rt),
        attached: &requests::buffers(rt),
        disk: disk::due(rt),
        clock: clock::read(),
        user,
    };
    let bytes = bincode::encode_to_vec(saved, standard());
    State::new(bytes.expect("encoding into memory does not fail"))
}

pub fn decode(bytes: &[u8]) -> Result<Saved, String> {
    let (saved, used) = bincode::decode_from_slice::<Saved, _>(bytes, standard())
        .map_err(|error| error.to_string())?;
    if saved.magic != MAGIC {
        return Err("it was written by another version".into());
    }
    if used != bytes.len() {
        return Err(format!("{} bytes are left over", bytes.len() - used));
    }
    Ok(saved)
}
