//! Selection of the place of the user's directory for data that outlive a process.
//!
//! Places in the order of preference:
//!
//! ```text
//!   UNDERSTUDY_RUNTIME_DIR             if set: only this place
//!   /dev/shm                           unless the name is taken there, or /dev/shm is unusable
//!   /run/user/UID, XDG_RUNTIME_DIR     the directory of the user's sessions
//! ```
//!
//! The directory is called `understudy-UID` in each of these places. A session's directory is the
//! last choice: logind removes it with the last session, although jobs may still be running, and
//! limits it to a tenth of the memory.
//!
//! All processes of a node must select the same place, even if other users create and remove files
//! in `/dev/shm` meanwhile. So a process selects under a lock on the session's directory, which
//! only this user can enter. If a process has created `understudy-UID` in the session's directory,
//! all later processes use it, even if the name is free in `/dev/shm` again. Conversely, no other
//! user can remove a directory that was created in `/dev/shm`.

use super::directory::PrivateDirectory;
use super::refused::{DirectoryRefusal, RUNTIME_DIR};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Memory that outlives a process (shm_overview(7)); all users can create files in it.
pub const SHARED_MEMORY_DIRECTORY: &str = "/dev/shm";

/// Directory that this process has created or opened.
static SELECTED: OnceLock<PathBuf> = OnceLock::new();
/// Place that the user has named.
static USER_PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Magic numbers of file systems that several hosts can mount (statfs(2)).
///
/// On such a file system, the nodes of a job would use each other's files.
const SHARED_FILE_SYSTEMS: [u32; 9] = [
    0x6969,      // NFS
    0xfe53_4d42, // SMB2
    0xff53_4d42, // CIFS
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0x00c3_6400, // Ceph
    0x1983_0326, // BeeGFS
    0x5346_414f, // AFS
    0x2030_528d, // PanFS
];

/// Returns the directory for data of this user's jobs that outlive a process.
pub fn in_memory() -> PathBuf {
    let find = || PlaceCandidates::of_process().find();
    SELECTED.get().cloned().unwrap_or_else(find)
}

/// Creates the directory of [`in_memory`] if it is missing.
///
/// # Errors
/// Fails if no place can be used. Also fails, without a search for another place, for reasons that
/// the user can correct: other users have access to the directory, or the place that the user has
/// named is unusable.
pub fn make_in_memory() -> Result<PrivateDirectory, DirectoryRefusal> {
    let made = match SELECTED.get() {
        Some(path) => PrivateDirectory::make(path),
        None => PlaceCandidates::of_process().make(),
    }?;
    SELECTED.get_or_init(|| made.path().to_owned());
    Ok(made)
}

/// Sets the place instead of the variable [`RUNTIME_DIR`].
///
/// Has no effect after the first use of the directory.
pub fn name_runtime_directory(place: OsString) {
    let _ = USER_PLACE.set(Some(place.into()));
}

/// Returns the variable and the value by which other processes select this directory.
///
/// `None` for [`SHARED_MEMORY_DIRECTORY`].
pub fn runtime_variable() -> Option<(&'static str, PathBuf)> {
    let place = in_memory().parent()?.to_owned();
    (place != Path::new(SHARED_MEMORY_DIRECTORY)).then_some((RUNTIME_DIR, place))
}

/// Returns the place that the user has named, in the environment or to a tool.
fn user_place() -> Option<PathBuf> {
    let from_environment = || {
        let place = std::env::var_os(RUNTIME_DIR)?;
        (!place.is_empty()).then(|| place.into())
    };
    USER_PLACE.get_or_init(from_environment).clone()
}

/// Places for the directory.
struct PlaceCandidates {
    /// Place that the user has named.
    named: Option<PathBuf>,
    memory: PathBuf,
    /// Directories of sessions; the first one that only this user can access is used.
    sessions: Vec<PathBuf>,
    /// Name of the directory.
    name: String,
}

impl PlaceCandidates {
    fn of_process() -> PlaceCandidates {
        let user = geteuid().as_raw();
        let xdg_directory = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let xdg_directory = xdg_directory.filter(|path| path.is_absolute());
        PlaceCandidates {
            named: user_place(),
            memory: SHARED_MEMORY_DIRECTORY.into(),
            sessions: std::iter::once(format!("/run/user/{user}").into())
                .chain(xdg_directory)
                .collect(),
            name: format!("understudy-{user}"),
        }
    }

    fn session(&self) -> Option<PrivateDirectory> {
        let mut sessions = self.sessions.iter();
        sessions.find_map(|path| PrivateDirectory::open(path).ok().flatten())
    }

    /// Returns the path of the directory without creating the directory.
    fn find(&self) -> PathBuf {
        if let Some(named) = &self.named {
            return named.join(&self.name);
        }
        let in_memory = self.memory.join(&self.name);
        let Some(session) = self.session() else {
            return in_memory;
        };
        let in_session = session.path().join(&self.name);
        let is_refused =
            || PrivateDirectory::open(&in_memory).is_err_and(|refusal| is_lasting(&refusal));
        match in_session.symlink_metadata().is_ok() || is_refused() {
            true => in_session,
            false => in_memory,
        }
    }

    fn make(&self) -> Result<PrivateDirectory, DirectoryRefusal> {
        if let Some(named) = &self.named {
            return make_named(named, &self.name);
        }
        let Some(session) = self.session() else {
            return make_in(&self.memory, &self.name);
        };
        let system = |error: rustix::io::Errno| DirectoryRefusal::SystemCall {
            path: session.path().to_owned(),
            source: error.into(),
        };
        flock(session.as_fd(), FlockOperation::LockExclusive).map_err(system)?;
        if let Some(used) = session.open_below(self.name.as_ref())? {
            return Ok(used);
        }
        match make_in(&self.memory, &self.name) {
            Err(refused) if is_lasting(&refused) => {
                session.make_below(self.name.as_ref()).map_err(|_| refused)
            }
            other => other,
        }
    }
}

/// Creates a directory in a place.
///
/// A place to which other users may write must have the sticky bit: otherwise they could exchange
/// the directory.
fn make_in(place: &Path, name: &str) -> Result<PrivateDirectory, DirectoryRefusal> {
    let metadata = std::fs::metadata(place).map_err(|source| DirectoryRefusal::SystemCall {
        path: place.into(),
        source,
    })?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        return Err(DirectoryRefusal::ParentWritable {
            path: place.into(),
            mode,
        });
    }
    PrivateDirectory::make(&place.join(name))
}

fn make_named(place: &Path, name: &str) -> Result<PrivateDirectory, DirectoryRefusal> {
    let refused = |why: String| DirectoryRefusal::UnusableSetting {
        path: place.into(),
        why,
    };
    if !place.is_absolute() {
        return Err(refused("it is not an absolute path".into()));
    }
    let metadata = std::fs::metadata(place).map_err(|error| refused(error.to_string()))?;
    if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(refused(format!("it belongs to user {}", metadata.uid())));
    }
    let file_system = rustix::fs::statfs(place).map_err(|error| refused(error.to_string()))?;
    if SHARED_FILE_SYSTEMS.contains(&(file_system.f_type as u32)) {
        return Err(refused("hosts share its file system".into()));
    }
    make_in(place, name).map_err(|error| refused(error.to_string()))
}

/// True if another place is tried after this refusal.
///
/// Another place is tried only if every process of the node is refused for the same reason, so that
/// all select the same place. For example, the result is false if this process has no free
/// descriptor, because another process could use the place.
fn is_lasting(refused: &DirectoryRefusal) -> bool {
    match refused {
        DirectoryRefusal::Link(_)
        | DirectoryRefusal::NotADirectory(_)
        | DirectoryRefusal::WrongOwner { .. }
        | DirectoryRefusal::ParentWritable { .. } => true,
        // The user can correct the directory or the setting, so no other place is tried.
        DirectoryRefusal::AccessibleToOthers { .. } | DirectoryRefusal::UnusableSetting { .. } => {
            false
        }
        DirectoryRefusal::SystemCall { source, .. } => is_lasting_error(source),
    }
}

fn is_lasting_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// Creates substitutes for the node's places.
    ///
    /// All users can write to the substitute for `/dev/shm`, and only this user to the substitute
    /// for a session's directory.
    fn places() -> (tempfile::TempDir, PlaceCandidates) {
        let top = tempfile::tempdir().expect("there is room for temporary files");
        let [memory, session] = ["shm", "session"].map(|name| top.path().join(name));
        for (place, mode) in [(&memory, 0o1777), (&session, 0o700)] {
            fs::create_dir(place).expect("made");
            fs::set_permissions(place, fs::Permissions::from_mode(mode)).expect("set");
        }
        let candidates = PlaceCandidates {
            named: None,
            memory,
            sessions: vec![top.path().join("missing"), session],
            name: "understudy-0".into(),
        };
        (top, candidates)
    }

    fn made(candidates: &PlaceCandidates) -> PathBuf {
        let made = candidates.make().expect("made").path().to_owned();
        assert_eq!(candidates.find(), made, "a tool looks elsewhere");
        made
    }

    #[test]
    fn memory_is_preferred_to_the_session() {
        let (_top, candidates) = places();
        let memory = candidates.memory.join("understudy-0");
        assert_eq!(candidates.find(), memory);
        assert_eq!(made(&candidates), memory);
        assert_eq!(made(&candidates), memory);
    }

    #[test]
    fn a_name_that_is_taken_leads_to_the_session_from_then_on() {
        let (top, candidates) = places();
        let taken = candidates.memory.join("understudy-0");
        symlink(top.path(), &taken).expect("made");
        let session = candidates.sessions[1].join("understudy-0");
        assert_eq!(candidates.find(), session);
        assert_eq!(made(&candidates), session);
        // A process that starts after the name is free again must still use this place.
        fs::remove_file(&taken).expect("removed");
        assert_eq!(made(&candidates), session);
    }

    #[test]
    fn a_directory_of_another_user_leads_to_the_session() {
        let (_top, candidates) = places();
        let taken = candidates.memory.join("understudy-0");
        fs::create_dir(&taken).expect("made");
        if !geteuid().is_root() {
            return println!("not root: the directory cannot be given to another user");
        }
        chown(&taken, Some(65534), None).expect("given away");
        assert_eq!(
            made(&candidates),
            candidates.sessions[1].join("understudy-0")
        );
    }

    #[test]
    fn without_a_session_the_refusal_is_that_of_memory() {
        let (_top, mut candidates) = places();
        candidates.sessions.pop();
        fs::write(candidates.memory.join("understudy-0"), "").expect("written");
        let refused = candidates.make().expect_err("refused");
        assert!(refused.is_fatal() && refused.to_string().contains("not a directory"));
    }

    #[test]
    fn a_missing_file_system_leads_to_the_session() {
        let (_top, candidates) = places();
        fs::remove_dir(&candidates.memory).expect("removed");
        let session = candidates.sessions[1].join("understudy-0");
        assert_eq!(made(&candidates), session);
    }

    #[test]
    fn an_error_that_the_user_can_correct_leads_to_no_other_place() {
        let (_top, candidates) = places();
        let own = candidates.memory.join("understudy-0");
        fs::create_dir(&own).expect("made");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).expect("set");
        assert!(matches!(
            candidates.make(),
            Err(DirectoryRefusal::AccessibleToOthers { .. })
        ));
    }

    #[test]
    fn a_named_place_is_used_or_refused() {
        let (top, mut candidates) = places();
        let named = top.path().join("named");
        candidates.named = Some(named.clone());
        let refusal =
            |candidates: &PlaceCandidates| candidates.make().expect_err("refused").to_string();
        assert!(refusal(&candidates).contains("No such file"));
        fs::create_dir(&named).expect("made");
        assert_eq!(made(&candidates), named.join("understudy-0"));
        fs::set_permissions(&named, fs::Permissions::from_mode(0o777)).expect("set");
        assert!(refusal(&candidates).contains("sticky"));
        candidates.named = Some("relative".into());
        assert!(refusal(&candidates).contains("UNDERSTUDY_RUNTIME_DIR"));
    }
}
