//! Files and other inputs of replays.
//!
//! The first trial replay records the inputs. All later replays are answered from the record, so a
//! file may be created, changed or removed after the trial replay. Files that are too long to be
//! recorded are read from the file system in each replay, and must not change. Each cut checks
//! that they are unchanged ([`Inputs::changed_long_file`]).

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use understudy_policy::compression;

/// Length in bytes of stat(2)'s structure.
pub const STAT_BYTES: usize = size_of::<libc::stat>();
/// Highest ratio of a file's length to the remaining room for which compression is tried.
const MAX_COMPRESSION_RATIO: u64 = 16;

/// Outcome of a system call.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum SyscallOutcome {
    /// Return value and written bytes.
    Result(i64, Vec<u8>),
    /// An opened file: index of its contents, and the result of stat(2).
    File(u32, Vec<u8>),
    /// An opened directory.
    Directory,
    /// An opened file that is too long to be recorded, by its index.
    LongFile(u32),
}

/// Attributes that change with the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct FileIdentity {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    /// Returns the identity of a file.
    pub fn new(metadata: &Metadata) -> FileIdentity {
        FileIdentity {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// File that is too long to be recorded.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
struct LongFile {
    path: Vec<u8>,
    identity: FileIdentity,
}

/// Record of the inputs of a phase.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Inputs {
    /// Bytes that may still be recorded.
    room: u64,
    /// True if a trial replay has recorded all inputs.
    is_recorded: bool,
    /// Keys of calls (`syscall_filter`) and their outcomes, in the order of the calls.
    outcomes: Vec<(Vec<u8>, SyscallOutcome)>,
    /// Contents of files, compressed ([`compression`]).
    contents: Vec<Vec<u8>>,
    long: Vec<LongFile>,
    /// Bytes that have been recorded.
    size: u64,
}

impl Inputs {
    /// Returns an empty record with room for `room` bytes.
    pub fn with_room(room: u64) -> Inputs {
        Inputs {
            room,
            ..Inputs::default()
        }
    }

    /// Returns the number of recorded bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// True if no outcome has been recorded.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Returns a long file that has changed or was removed.
    pub fn changed_long_file(&self) -> Option<&Path> {
        let is_same = |long: &LongFile| {
            let metadata = std::fs::metadata(path_of(long));
            metadata.is_ok_and(|metadata| FileIdentity::new(&metadata) == long.identity)
        };
        self.long.iter().find(|long| !is_same(long)).map(path_of)
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), NoRoom> {
        self.room = self.room.checked_sub(bytes).ok_or(NoRoom)?;
        self.size += bytes;
        Ok(())
    }
}

fn path_of(long: &LongFile) -> &Path {
    Path::new(OsStr::from_bytes(&long.path))
}

/// Error: the record would exceed its limit.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Inputs of a phase during a replay.
#[derive(Default)]
pub struct ReplayInputs {
    inputs: Inputs,
    /// Recorded outcomes that have not been used yet, by key.
    next: HashMap<Vec<u8>, VecDeque<usize>>,
}

impl ReplayInputs {
    /// Starts a replay with a record, which may be empty.
    pub fn new(inputs: Inputs) -> ReplayInputs {
        let mut next: HashMap<Vec<u8>, VecDeque<usize>> = HashMap::new();
        for (at, (call, _)) in inputs.outcomes.iter().enumerate() {
            next.entry(call.clone()).or_default().push_back(at);
        }
        ReplayInputs { inputs, next }
    }

    /// Returns the record, which is complete now.
    pub fn into_inputs(self) -> Inputs {
        Inputs {
            is_recorded: true,
            ..self.inputs
        }
    }

    /// Returns the recorded outcome of the next call with this key.
    pub fn next(&mut self, call: &[u8]) -> Option<SyscallOutcome> {
        let at = self.next.get_mut(call)?.pop_front()?;
        Some(self.inputs.outcomes[at].1.clone())
    }

    /// Records the outcome of a call, unless the record is complete.
    pub fn record(&mut self, call: Vec<u8>, outcome: SyscallOutcome) -> Result<(), NoRoom> {
        if self.inputs.is_recorded {
            return Ok(());
        }
        let bytes = match &outcome {
            SyscallOutcome::Result(_, bytes) | SyscallOutcome::File(_, bytes) => bytes.len(),
            SyscallOutcome::Directory | SyscallOutcome::LongFile(_) => 0,
        };
        self.inputs.reserve((call.len() + bytes) as u64)?;
        self.inputs.outcomes.push((call, outcome));
        Ok(())
    }

    /// True if contents of this length may fit into the record.
    pub fn may_store(&self, length: u64) -> bool {
        !self.inputs.is_recorded && length <= self.inputs.room.saturating_mul(MAX_COMPRESSION_RATIO)
    }

    /// Stores the contents of a file if there is room, and returns their index.
    pub fn store(&mut self, content: &[u8]) -> Option<u32> {
        let packed = compression::pack(content);
        let mut stored = self.inputs.contents.iter();
        let known = stored.position(|stored| *stored == packed);
        if known.is_none() {
            self.inputs.reserve(packed.len() as u64).ok()?;
            self.inputs.contents.push(packed);
        }
        Some(known.unwrap_or(self.inputs.contents.len() - 1) as u32)
    }

    /// Returns the contents with this index.
    pub fn content(&self, index: u32) -> Option<Vec<u8>> {
        compression::unpack(self.inputs.contents.get(index as usize)?).ok()
    }

    /// Adds a file that is too long to be recorded, and returns its index.
    pub fn add_long_file(&mut self, path: PathBuf, identity: FileIdentity) -> u32 {
        let path = path.into_os_string().into_encoded_bytes();
        self.inputs.long.push(LongFile { path, identity });
        self.inputs.long.len() as u32 - 1
    }

    /// True if a long file has not changed.
    pub fn is_same(&self, index: u32, now: &FileIdentity) -> bool {
        let long = self.inputs.long.get(index as usize);
        long.is_some_and(|long| long.identity == *now)
    }

    /// Returns the path of a long file.
    pub fn path(&self, index: u32) -> String {
        let long = self.inputs.long.get(index as usize);
        long.map_or_else(String::new, |long| path_of(long).display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(value: i64) -> SyscallOutcome {
        SyscallOutcome::Result(value, vec![value as u8; 10])
    }

    #[test]
    fn each_call_gets_its_outcomes_in_order() {
        let mut first = ReplayInputs::new(Inputs::with_room(1000));
        for (call, value) in [(b"a", 1), (b"b", 2), (b"a", 3)] {
            assert_eq!(first.next(call), None);
            first.record(call.to_vec(), result(value)).unwrap();
        }
        let mut later = ReplayInputs::new(first.into_inputs());
        for (call, outcome) in [
            (b"b", Some(2)),
            (b"a", Some(1)),
            (b"a", Some(3)),
            (b"a", None),
            (b"c", None),
        ] {
            assert_eq!(later.next(call), outcome.map(result));
        }
        // Calls beyond the record are not recorded.
        later.record(b"c".to_vec(), result(4)).unwrap();
        assert_eq!(later.into_inputs().outcomes.len(), 3);
    }

    #[test]
    fn the_record_does_not_exceed_its_room() {
        let mut first = ReplayInputs::new(Inputs::with_room(100));
        let number = first.store(&[7; 500]).unwrap();
        assert_eq!(
            first.store(&[7; 500]),
            Some(number),
            "the same contents are kept once"
        );
        assert_eq!(first.content(number).unwrap(), [7; 500]);
        let noise: Vec<u8> = (0..500u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        assert_eq!(first.store(&noise), None);
        assert!(!first.may_store(1 << 20));
        while first.record(b"call".to_vec(), result(0)).is_ok() {}
        let inputs = first.into_inputs();
        assert!((80..=100).contains(&inputs.size()), "{}", inputs.size());
    }

    #[test]
    fn a_long_file_that_changes_is_named() {
        let path = std::env::temp_dir().join(format!("understudy-inputs-{}", std::process::id()));
        std::fs::write(&path, "before").unwrap();
        let mut first = ReplayInputs::new(Inputs::with_room(0));
        first.add_long_file(
            path.clone(),
            FileIdentity::new(&std::fs::metadata(&path).unwrap()),
        );
        let inputs = first.into_inputs();
        assert_eq!(inputs.changed_long_file(), None);
        std::fs::write(&path, "after it").unwrap();
        assert_eq!(inputs.changed_long_file(), Some(path.as_path()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(inputs.changed_long_file(), Some(path.as_path()));
    }
}
