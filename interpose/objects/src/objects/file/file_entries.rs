//! Open files in the table, and their descriptors.

use super::layout::ViewLayout;
use super::open_file::{OpenFile, mode};
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{VirtFile, virtual_handle};
use crate::objects::lookup::created_index;
use crate::objects::{objects, objects_mut};
use crate::user;
use std::cell::{Ref, RefMut};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Discards the descriptors and layouts of all files.
pub fn discard_local(rt: &Runtime) {
    rt.objects.files.set(BTreeMap::new());
}

/// Returns the program's handle of the file with this index.
pub fn handle(index: u32) -> VirtFile {
    VirtFile(virtual_handle(HandleKind::File, index))
}

/// Returns the index of an open file.
pub fn index(rt: &Runtime, file: VirtFile) -> Option<u32> {
    created_index(HandleKind::File, file.0).filter(|&index| objects(rt).files.get(index).is_some())
}

/// Returns the entry of an open file.
pub fn get(rt: &Runtime, file: VirtFile) -> Option<Ref<'_, OpenFile>> {
    let index = created_index(HandleKind::File, file.0)?;
    Ref::filter_map(objects(rt), |all| all.files.get(index)).ok()
}

/// Borrows the entry of an open file to change it.
pub fn get_mut(rt: &Runtime, file: VirtFile) -> Option<RefMut<'_, OpenFile>> {
    let index = created_index(HandleKind::File, file.0)?;
    RefMut::filter_map(objects_mut(rt), |all| all.files.get_mut(index)).ok()
}

/// Enters an open file.
pub fn enter(rt: &Runtime, file: OpenFile, descriptor: std::fs::File) -> VirtFile {
    let index = objects_mut(rt).files.insert(file);
    set_descriptor(rt, index, Arc::new(descriptor));
    handle(index)
}

/// Removes a file from the table, and closes it.
pub fn remove(rt: &Runtime, file: VirtFile) -> Option<OpenFile> {
    let index = created_index(HandleKind::File, file.0)?;
    rt.objects.files.borrow_mut().remove(&index);
    objects_mut(rt).files.remove(index)
}

/// Opens an existing file.
///
/// A file that the program opens for writing only is also opened for reading, if permissions allow
/// it: the undo log reads the bytes that a write replaces.
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

pub(super) fn set_descriptor(rt: &Runtime, index: u32, descriptor: Arc<std::fs::File>) {
    user::add_runtime_file(rt, &descriptor);
    rt.objects
        .files
        .borrow_mut()
        .entry(index)
        .or_default()
        .descriptor = Some(descriptor);
}

/// Returns the descriptor of an open file, and opens the file if necessary.
pub fn descriptor(rt: &Runtime, file: VirtFile) -> io::Result<Arc<std::fs::File>> {
    let index = created_index(HandleKind::File, file.0).unwrap_or(u32::MAX);
    if let Some(descriptor) = rt
        .objects
        .files
        .borrow()
        .get(&index)
        .and_then(|local| local.descriptor.clone())
    {
        return Ok(descriptor);
    }
    let (path, mode) = match get(rt, file) {
        Some(file) => (file.path().to_owned(), file.mode),
        None => return Err(io::ErrorKind::NotFound.into()),
    };
    let descriptor = Arc::new(open(&path, mode)?);
    set_descriptor(rt, index, Arc::clone(&descriptor));
    Ok(descriptor)
}

/// Returns the layout of a file's view, if it was computed.
pub fn layout(rt: &Runtime, file: VirtFile) -> Option<Arc<ViewLayout>> {
    let index = created_index(HandleKind::File, file.0)?;
    rt.objects.files.borrow().get(&index)?.layout.clone()
}

/// Sets the layout, or `None` after the view has changed.
pub fn set_layout(rt: &Runtime, file: VirtFile, layout: Option<Arc<ViewLayout>>) {
    if let Some(index) = created_index(HandleKind::File, file.0) {
        rt.objects
            .files
            .borrow_mut()
            .entry(index)
            .or_default()
            .layout = layout;
    }
}
