//! Open files at a cut and after a rollback.

use super::file_entries::{open, set_descriptor};
use super::local_file::LocalFile;
use super::open_file::{OpenFile, SharedPointer};
use super::shared_pointer;
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::VirtComm;
use crate::objects::lookup::created_index;
use crate::objects::{Objects, Slots, comm, objects, objects_mut};
use crate::{user, world};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use understudy_catalogue::message;
use understudy_formats::private_directories::in_memory;
use understudy_numbers::{ProcessNumber, Worker};

/// File whose state cannot be saved or restored.
///
/// The state of a shared pointer in memory cannot be restored on several nodes.
#[derive(Debug, thiserror::Error)]
#[error("file {}: {error}", path.display())]
pub struct FileError {
    path: PathBuf,
    error: io::Error,
}

impl FileError {
    /// Returns a function that adds the file's name to an error.
    fn at(path: &Path) -> impl FnOnce(io::Error) -> FileError + use<> {
        let path = path.to_owned();
        |error| FileError { path, error }
    }
}

/// True if this worker is the first of the workers that have the file open.
///
/// The first worker saves and restores the shared pointer, and logs messages.
fn is_first(comms: &Slots<comm::Comm>, file: &OpenFile, me: Worker) -> bool {
    let comm = created_index(HandleKind::Comm, file.comm as *mut c_void)
        .and_then(|index| comms.get(index));
    comm.is_some_and(|comm| comm.members.first() == Some(&me))
}

/// True if all open files have names, which a rollback needs to open them.
///
/// Logs a message if a file has no name.
pub fn check_names(rt: &Runtime) -> bool {
    let (all, open) = (objects(rt), rt.objects.files.borrow());
    let is_nameless = |local: &LocalFile| {
        let mut open = local.descriptor.iter();
        open.any(|descriptor| user::name_of_open(descriptor).is_none())
    };
    let Some((&index, _)) = open.iter().find(|(_, local)| is_nameless(local)) else {
        return true;
    };
    if let Some(file) = all.files.get(index)
        && is_first(&all.comms, file, world::worker(rt))
        && !rt.objects.is_nameless_logged.replace(true)
    {
        log::warn!("{}", message::mpi_file_without_name(file.path().display()));
    }
    false
}

/// Records the names of the files and the positions of their shared pointers.
///
/// Must be called at a cut, while all processes are quiesced.
///
/// # Errors
/// Fails if a shared pointer cannot be read.
pub fn record_at_cut(rt: &Runtime) -> Result<(), FileError> {
    let me = world::worker(rt);
    let mut all = objects_mut(rt);
    let Objects { files, comms, .. } = &mut *all;
    for (index, file) in files.iter_mut() {
        let open = rt
            .objects
            .files
            .borrow()
            .get(&index)
            .and_then(|local| local.descriptor.clone());
        if let Some(path) = open.and_then(|open| user::name_of_open(&open)) {
            file.path = path.into_os_string().into_vec();
        }
        file.pointer = match is_first(comms, file, me) {
            true => shared_pointer::at_cut(file).map_err(FileError::at(file.shared_path()))?,
            false => SharedPointer::InOtherWorker,
        };
    }
    Ok(())
}

/// Opens the files at a rollback, and restores the shared pointers.
///
/// Must be called when all effects on files have been undone.
///
/// # Errors
/// Fails if a file cannot be opened, or a shared pointer cannot be restored.
pub fn restore(rt: &Runtime) -> Result<(), FileError> {
    let files: Vec<(u32, OpenFile)> = objects(rt)
        .files
        .iter()
        .map(|(index, file)| (index, file.clone()))
        .collect();
    for (index, file) in files {
        let opened = open(file.path(), file.mode).map_err(FileError::at(file.path()))?;
        set_descriptor(rt, index, Arc::new(opened));
        shared_pointer::restore(&file).map_err(FileError::at(file.shared_path()))?;
    }
    Ok(())
}

/// Checks that workers whose shared pointer is in memory are on one node.
///
/// `processes` are the processes of the workers.
///
/// # Errors
/// Fails if the workers are on several nodes.
pub fn check_nodes(rt: &Runtime, processes: &[ProcessNumber]) -> Result<(), FileError> {
    let in_memory = in_memory();
    let is_apart = |file: &&OpenFile| {
        file.shared_path().starts_with(&in_memory) && !is_on_one_node(rt, file.comm(), processes)
    };
    let files: Vec<OpenFile> = objects(rt)
        .files
        .iter()
        .map(|(_, file)| file.clone())
        .collect();
    files.iter().find(is_apart).map_or(Ok(()), |file| {
        let why =
            "its shared pointer is in memory, and the workers that share it would be on several \
             nodes";
        Err(FileError::at(file.path())(io::Error::other(why)))
    })
}

/// True if all members of a communicator are on one node.
///
/// `processes` are the processes of the workers.
pub fn is_on_one_node(rt: &Runtime, comm: VirtComm, processes: &[ProcessNumber]) -> bool {
    let world = world::get(rt);
    let members = comm::members(rt, comm).unwrap_or_default();
    let nodes: BTreeSet<u64> = members
        .iter()
        .map(|worker| world.nodes[processes[worker.index()].index()])
        .collect();
    nodes.len() < 2
}
