//! Files (MPI 4.1, chapter 14), wholly on our side: the real library has none.
//!
//! After a rollback a file is opened again by the name that it had at the cut, never created or truncated. What has been written to it since
//! is undone with all other effects on files (`user::undo`); the shared pointer is set back here.

pub mod layout;
pub mod pointer;
pub mod representation;

use super::lookup::created;
use super::{Objects, Slots, comm, objects, objects_mut};
use crate::generated::HandleKind;
use crate::handles::{VirtComm, VirtFile, virtual_handle};
use crate::objects::Runtime;
use crate::{user, world};
use layout::Layout;
use pointer::Pointer;
use std::cell::{Ref, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, c_void};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use understudy_formats::private::in_memory;
use understudy_numbers::{ProcessNumber, Worker};

/// How a file may be used (`MPI_MODE_…`, alike in all ABIs).
pub mod mode {
    pub const CREATE: i32 = 1;
    pub const RDONLY: i32 = 2;
    pub const WRONLY: i32 = 4;
    pub const RDWR: i32 = 8;
    pub const DELETE_ON_CLOSE: i32 = 16;
    pub const EXCL: i32 = 64;
    pub const APPEND: i32 = 128;
    pub const SEQUENTIAL: i32 = 256;
}

/// How data are represented in a file (14.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Representation {
    /// As in memory; `internal` is the same.
    Native,
    /// Big-endian, with sizes of its own.
    External32,
}

/// Which part of a file a process sees (14.3).
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct View {
    /// Bytes before the first tile.
    pub displacement: u64,
    /// The program's handle of the unit of access.
    pub etype: u64,
    /// Bytes of data of the unit.
    pub unit: u64,
    /// The program's handle of the tile.
    pub filetype: u64,
    /// How data are represented.
    pub representation: Representation,
}

/// A split collective (14.4.5) that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Split {
    ReadAt,
    WriteAt,
    Read,
    Write,
    ReadOrdered,
    WriteOrdered,
}

#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct File {
    /// The full name that it had at the last cut, or when it was opened.
    pub path: Vec<u8>,
    pub mode: i32,
    /// A communicator of its own, of the processes that have opened it.
    pub comm: u64,
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
    /// The program's error handler; 0: the default.
    pub errhandler: u64,
    /// What of it is seen.
    pub view: View,
    /// Whether accesses are atomic.
    pub atomic: bool,
    /// The individual pointer, in units of the view.
    pub position: u64,
    /// Where the shared pointer is as long as its file does not say otherwise.
    pub shared_start: u64,
    /// The full name of the shared pointer's file, which exists when the pointer has been moved; empty: there can be none.
    pub shared_path: Vec<u8>,
    /// Where the shared pointer was at the cut.
    pub pointer: Pointer,
    /// What has begun and not ended, with its bytes.
    pub split: Option<(Split, u64)>,
}

impl File {
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// The name of the shared pointer's file.
    pub fn shared_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.shared_path))
    }

    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut c_void)
    }
}

/// What belongs to this process and is made anew after a rollback.
#[derive(Default)]
pub(super) struct Here {
    descriptor: Option<Arc<std::fs::File>>,
    layout: Option<Arc<Layout>>,
}

/// None is open here any more.
pub fn forget_open(rt: &Runtime) {
    rt.files.set(BTreeMap::new());
}

/// A file could not be saved, or not be brought back.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct Failed {
    path: PathBuf,
    error: io::Error,
}

impl Failed {
    fn of(path: &Path) -> impl FnOnce(io::Error) -> Failed + use<> {
        let path = path.to_owned();
        |error| Failed { path, error }
    }
}

/// Whether this worker is the first of those who have a file open, which speaks for all.
fn is_first(comms: &Slots<comm::Comm>, file: &File, me: Worker) -> bool {
    let comm =
        created(HandleKind::Comm, file.comm as *mut c_void).and_then(|index| comms.get(index));
    comm.is_some_and(|comm| comm.members.first() == Some(&me))
}

/// Whether all open files have names, by which they could be opened again. If not, a line says so.
pub fn have_names(rt: &Runtime) -> bool {
    let (all, open) = (objects(rt), rt.files.borrow());
    let nameless =
        |here: &Here| here.descriptor.as_ref().map(|it| user::name_of_open(it)) == Some(None);
    let Some((&index, _)) = open.iter().find(|(_, here)| nameless(here)) else {
        return true;
    };
    if let Some(file) = all.files.get(index)
        && is_first(&all.comms, file, world::worker(rt))
        && !rt.nameless_told.replace(true)
    {
        log::warn!(
            "{} is open by MPI and has no name any more: no checkpoint is taken before it is closed",
            file.path().display()
        );
    }
    false
}

/// At a cut, while all processes stand still: what names the files have now, and where their shared pointers are.
///
/// # Errors
/// A pointer cannot be read.
pub fn note(rt: &Runtime) -> Result<(), Failed> {
    let me = world::worker(rt);
    let mut all = objects_mut(rt);
    let Objects { files, comms, .. } = &mut *all;
    for (index, file) in files.iter_mut() {
        let open = rt
            .files
            .borrow()
            .get(&index)
            .and_then(|here| here.descriptor.clone());
        if let Some(path) = open.and_then(|open| user::name_of_open(&open)) {
            file.path = path.into_os_string().into_vec();
        }
        file.pointer = match is_first(comms, file, me) {
            true => pointer::at_cut(file).map_err(Failed::of(file.shared_path()))?,
            false => Pointer::Others,
        };
    }
    Ok(())
}

/// After a rollback, when all that was done to files is undone: they are opened again, and the shared pointers set back.
///
/// # Errors
/// That cannot be.
pub fn put_back(rt: &Runtime) -> Result<(), Failed> {
    let files: Vec<(u32, File)> = objects(rt)
        .files
        .iter()
        .map(|(index, file)| (index, file.clone()))
        .collect();
    for (index, file) in files {
        let opened = open(file.path(), file.mode).map_err(Failed::of(file.path()))?;
        keep(rt, index, Arc::new(opened));
        pointer::put_back(&file).map_err(Failed::of(file.shared_path()))?;
    }
    Ok(())
}

/// Whether those who share a pointer in memory are on one node, where these processes play the workers.
///
/// # Errors
/// They are not.
pub fn check_nodes(rt: &Runtime, players: &[ProcessNumber]) -> Result<(), Failed> {
    let in_memory = in_memory();
    let is_apart = |file: &&File| {
        file.shared_path().starts_with(&in_memory) && !is_on_one_node(rt, file.comm(), players)
    };
    let files: Vec<File> = objects(rt)
        .files
        .iter()
        .map(|(_, file)| file.clone())
        .collect();
    files.iter().find(is_apart).map_or(Ok(()), |file| {
        let why =
            "its shared pointer is in memory, and those who share it would be on several nodes";
        Err(Failed::of(file.path())(io::Error::other(why)))
    })
}

/// Whether all members of a communicator are on one node, where these processes play the workers.
pub fn is_on_one_node(rt: &Runtime, comm: VirtComm, players: &[ProcessNumber]) -> bool {
    let world = world::get(rt);
    let members = comm::members(rt, comm).unwrap_or_default();
    let nodes: BTreeSet<u64> = members
        .iter()
        .map(|it| world.nodes[players[it.index()].index()])
        .collect();
    nodes.len() < 2
}

/// The program's handle of the file with this index.
pub fn handle(index: u32) -> VirtFile {
    VirtFile(virtual_handle(HandleKind::File, index))
}

/// The index of an open file.
pub fn index(rt: &Runtime, file: VirtFile) -> Option<u32> {
    created(HandleKind::File, file.0).filter(|&index| objects(rt).files.get(index).is_some())
}

/// The entry of an open file.
pub fn get(rt: &Runtime, file: VirtFile) -> Option<Ref<'_, File>> {
    let index = created(HandleKind::File, file.0)?;
    Ref::filter_map(objects(rt), |all| all.files.get(index)).ok()
}

/// The same, to be changed.
pub fn get_mut(rt: &Runtime, file: VirtFile) -> Option<RefMut<'_, File>> {
    let index = created(HandleKind::File, file.0)?;
    RefMut::filter_map(objects_mut(rt), |all| all.files.get_mut(index)).ok()
}

/// Enters an open file.
pub fn enter(rt: &Runtime, file: File, descriptor: std::fs::File) -> VirtFile {
    let index = objects_mut(rt).files.insert(file);
    keep(rt, index, Arc::new(descriptor));
    handle(index)
}

/// Takes a file out of the table, and closes it.
pub fn remove(rt: &Runtime, file: VirtFile) -> Option<File> {
    let index = created(HandleKind::File, file.0)?;
    rt.files.borrow_mut().remove(&index);
    objects_mut(rt).files.remove(index)
}

/// Opens a file that exists. One that is only written is opened for reading as well, if that may be: its old bytes are kept.
pub fn open(path: &Path, mode: i32) -> io::Result<std::fs::File> {
    let open = |read, write| OpenOptions::new().read(read).write(write).open(path);
    if mode & mode::RDONLY != 0 {
        return open(true, false);
    }
    match open(true, true) {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied && mode & mode::WRONLY != 0 =>
        {
            open(false, true)
        }
        other => other,
    }
}

fn keep(rt: &Runtime, index: u32, descriptor: Arc<std::fs::File>) {
    user::also_written_file(rt, &descriptor);
    rt.files.borrow_mut().entry(index).or_default().descriptor = Some(descriptor);
}

/// The descriptor of an open file.
pub fn descriptor(rt: &Runtime, file: VirtFile) -> io::Result<Arc<std::fs::File>> {
    let index = created(HandleKind::File, file.0).unwrap_or(u32::MAX);
    if let Some(descriptor) = rt
        .files
        .borrow()
        .get(&index)
        .and_then(|here| here.descriptor.clone())
    {
        return Ok(descriptor);
    }
    let (path, mode) = match get(rt, file) {
        Some(file) => (file.path().to_owned(), file.mode),
        None => return Err(io::ErrorKind::NotFound.into()),
    };
    let descriptor = Arc::new(open(&path, mode)?);
    keep(rt, index, Arc::clone(&descriptor));
    Ok(descriptor)
}

/// Where the data of a file's view lie, if that has been found out.
pub fn layout(rt: &Runtime, file: VirtFile) -> Option<Arc<Layout>> {
    let index = created(HandleKind::File, file.0)?;
    rt.files.borrow().get(&index)?.layout.clone()
}

/// Notes the layout; `None`: there is another view.
pub fn set_layout(rt: &Runtime, file: VirtFile, layout: Option<Arc<Layout>>) {
    if let Some(index) = created(HandleKind::File, file.0) {
        rt.files.borrow_mut().entry(index).or_default().layout = layout;
    }
}
