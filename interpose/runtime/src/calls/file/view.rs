//! Views: the part of a file that a process sees (MPI 4.1, 14.3).
#![allow(unsafe_code)]

use super::extent::{external_size, handle, size_of};
use super::file_failure::{
    FileFailure, FileResult, agree, class, comm_of, entry, finish, first_does, local, put, together,
};
use super::hints::add_hints;
use super::shared_pointer;
use super::view_layout::{layout_of, make_layout, view_overlaps};
use crate::Runtime;
use crate::calls::arguments::put_text;
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, VirtFile, VirtInfo, predefined_handle, real_datatype};
use crate::objects::datatype;
use crate::objects::file::layout::ViewLayout;
use crate::objects::file::{self, FileView, OpenFile, Representation, mode};
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;
use understudy_catalogue::message;
use understudy_mpi::comm::Extreme;

/// `MPI_DISPLACEMENT_CURRENT`.
const DISPLACEMENT_CURRENT: i64 = -54_278_278;

/// Returns the view of a file that has just been opened (14.2.1).
pub(super) fn view_of_bytes(rt: &Runtime) -> FileView {
    let byte = predefined_handle(rt, "ompi_mpi_byte") as u64;
    FileView {
        displacement: 0,
        etype: byte,
        unit: 1,
        filetype: byte,
        representation: Representation::Native,
    }
}

/// Releases the datatypes of a view.
pub(super) fn release(rt: &Runtime, view: &FileView) {
    datatype::release(rt, handle(view.etype));
    datatype::release(rt, handle(view.filetype));
}

/// Returns the representation with this name.
///
/// # Safety
/// `name` is a C string, or null.
unsafe fn representation_of(name: *const c_char) -> FileResult<Representation> {
    if name.is_null() {
        return Err(class(ERR_ARG));
    }
    // SAFETY: null is excluded above; MPI requires any other address to be a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    match &name.to_ascii_lowercase()[..] {
        b"native" | b"internal" => Ok(Representation::Native),
        b"external32" => Ok(Representation::External32),
        _ => Err(class(ERR_UNSUPPORTED_DATAREP)),
    }
}

/// Returns a view with these arguments; `MPI_DISPLACEMENT_CURRENT` becomes `u64::MAX`.
fn new_view(
    rt: &Runtime,
    file: &OpenFile,
    disp: i64,
    etype: VirtDatatype,
    filetype: VirtDatatype,
    representation: Representation,
) -> FileResult<FileView> {
    let displacement = match disp {
        DISPLACEMENT_CURRENT if file.mode & mode::SEQUENTIAL != 0 => None,
        disp => Some(u64::try_from(disp).map_err(|_| class(ERR_ARG))?),
    };
    let (unit, tile) = (size_of(rt, etype)?, size_of(rt, filetype)?);
    if unit == 0 || tile % unit != 0 {
        return Err(class(ERR_TYPE));
    }
    if representation == Representation::External32
        && (external_size(rt, etype)? != unit || external_size(rt, filetype)? != tile)
    {
        log::error!("{}", message::EXTERNAL32_VIEW);
        return Err(class(ERR_UNSUPPORTED_DATAREP));
    }
    Ok(FileView {
        displacement: displacement.unwrap_or(u64::MAX),
        etype: etype.0 as u64,
        unit,
        filetype: filetype.0 as u64,
        representation,
    })
}

/// Returns a view with its displacement, and its layout.
///
/// With `MPI_DISPLACEMENT_CURRENT` the displacement is the position of the shared pointer.
fn with_offset(
    rt: &Runtime,
    fh: VirtFile,
    file: &OpenFile,
    mut new: FileView,
) -> FileResult<(FileView, ViewLayout)> {
    if new.displacement == u64::MAX {
        let at = shared_pointer::position(file)?;
        new.displacement = layout_of(rt, fh, file)?.position(at * file.view.unit);
    }
    let layout = make_layout(rt, &new)?;
    if layout.repeats() && file.mode & mode::WRONLY != 0 {
        return Err(view_overlaps());
    }
    Ok((new, layout))
}

/// Sets the view of a file, if all processes have passed valid arguments.
fn set(rt: &Runtime, fh: VirtFile, new: FileResult<FileView>) -> FileResult<()> {
    let file = entry(rt, fh)?;
    together(rt, fh)?;
    let comm = comm_of(rt, &file);
    let (new, layout) = match new.and_then(|new| with_offset(rt, fh, &file, new)) {
        Ok(new) => {
            agree(comm, Ok(()))?;
            new
        }
        Err(failure) => return agree(comm, Err(failure)),
    };
    // The unit must be equal in all processes: its greatest value equals its least value. Then the
    // first process resets the shared pointer, while the others wait.
    let greatest = comm.allreduce_min_max(Extreme::Greatest, &[new.unit, u64::MAX - new.unit])?;
    if greatest[0] != u64::MAX - greatest[1] {
        return Err(class(ERR_NOT_SAME));
    }
    first_does(comm, || shared_pointer::reset(&file))?;
    datatype::retain(rt, handle(new.etype));
    datatype::retain(rt, handle(new.filetype));
    if let Some(mut file) = file::get_mut(rt, fh) {
        (file.view, file.position, file.shared_start) = (new, 0, 0);
    }
    release(rt, &file.view);
    file::set_layout(rt, fh, Some(Arc::new(layout)));
    Ok(())
}

pub unsafe extern "C" fn MPI_File_set_view(
    fh: VirtFile,
    disp: i64,
    etype: VirtDatatype,
    filetype: VirtDatatype,
    datarep: *const c_char,
    info: VirtInfo,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program to pass a C string.
    let view = unsafe { representation_of(datarep) }.and_then(|representation| {
        entry(rt, fh).and_then(|file| new_view(rt, &file, disp, etype, filetype, representation))
    });
    let set = set(rt, fh, view).map(|()| add_hints(rt, fh, info));
    finish(rt, Proc::MPI_File_set_view, fh, set)
}

pub unsafe extern "C" fn MPI_File_get_view(
    fh: VirtFile,
    disp: *mut i64,
    etype: *mut VirtDatatype,
    filetype: *mut VirtDatatype,
    datarep: *mut c_char,
) -> c_int {
    let rt = runtime();
    let view = || {
        let view = entry(rt, fh)?.view;
        let equal = |raw| datatype::duplicate_equal(rt, handle(raw)).map_err(FileFailure::Library);
        let name = match view.representation {
            Representation::Native => &b"native"[..],
            Representation::External32 => b"external32",
        };
        // SAFETY: MPI requires the program's addresses to be valid, with room for
        // MPI_MAX_DATAREP_STRING characters; the text is shorter.
        unsafe {
            put(disp, view.displacement as i64)?;
            put(etype, equal(view.etype)?)?;
            put(filetype, equal(view.filetype)?)?;
            if datarep.is_null() {
                return Err(class(ERR_ARG));
            }
            put_text(datarep, name);
        }
        Ok(())
    };
    finish(rt, Proc::MPI_File_get_view, fh, view())
}

pub unsafe extern "C" fn MPI_File_get_byte_offset(
    fh: VirtFile,
    offset: i64,
    disp: *mut i64,
) -> c_int {
    let rt = runtime();
    let position = || {
        let file = entry(rt, fh)?;
        let unit = u64::try_from(offset).map_err(|_| class(ERR_ARG))?;
        Ok(layout_of(rt, fh, &file)?.position(unit * file.view.unit) as i64)
    };
    // SAFETY: MPI requires the program's address for the result to be valid.
    let outcome = position().and_then(|position| unsafe { put(disp, position) });
    finish(rt, Proc::MPI_File_get_byte_offset, fh, outcome)
}

pub unsafe extern "C" fn MPI_File_get_type_extent(
    fh: VirtFile,
    datatype: VirtDatatype,
    extent: *mut isize,
) -> c_int {
    let rt = runtime();
    let measure = || {
        let file = entry(rt, fh)?;
        size_of(rt, datatype)?;
        if file.view.representation == Representation::External32
            && datatype::is_predefined(rt, datatype)
        {
            return Ok(external_size(rt, datatype)? as isize);
        }
        let (mut bound, mut extent) = (0, 0);
        // SAFETY: a local query of a datatype.
        local(unsafe {
            real::PMPI_Type_get_extent(real_datatype(rt, datatype), &mut bound, &mut extent)
        })?;
        Ok(extent)
    };
    // SAFETY: MPI requires the program's address for the result to be valid.
    let outcome = measure().and_then(|value| unsafe { put(extent, value) });
    finish(rt, Proc::MPI_File_get_type_extent, fh, outcome)
}
