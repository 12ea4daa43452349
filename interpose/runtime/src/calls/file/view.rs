//! Views: the part of a file that a process sees (MPI 4.1, 14.3).
#![allow(unsafe_code)]

use super::extent::{external_size, handle, size_of};
use super::file_failure::{
    Failure, Result, agree, class, comm_of, finish, first_does, known, local, put, together,
};
use super::hints::add_hints;
use super::places::{for_reading_only, layout_of, make_layout};
use super::shared;
use crate::Runtime;
use crate::calls::arguments::put_text;
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::{Proc, real};
use crate::handles::{VirtDatatype, VirtFile, VirtInfo, predefined_handle, real_datatype};
use crate::objects::datatype;
use crate::objects::file::layout::Layout;
use crate::objects::file::{self, File, Representation, View, mode};
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;
use understudy_catalogue::message;
use understudy_mpi::comm::Extreme;

const DISPLACEMENT_CURRENT: i64 = -54_278_278;
/// Returns the view of a file that has just been opened (14.2.1).
pub(super) fn of_bytes(rt: &Runtime) -> View {
    let byte = predefined_handle(rt, "ompi_mpi_byte") as u64;
    View {
        displacement: 0,
        etype: byte,
        unit: 1,
        filetype: byte,
        representation: Representation::Native,
    }
}

/// Releases the datatypes of a view.
pub(super) fn release(rt: &Runtime, view: &View) {
    datatype::release(rt, handle(view.etype));
    datatype::release(rt, handle(view.filetype));
}

/// Returns the representation with this name.
///
/// # Safety
/// `name` is a C string, or null.
unsafe fn representation_of(name: *const c_char) -> Result<Representation> {
    if name.is_null() {
        return Err(class(ERR_ARG));
    }
    // SAFETY: the caller guarantees it.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    match &name.to_ascii_lowercase()[..] {
        b"native" | b"internal" => Ok(Representation::Native),
        b"external32" => Ok(Representation::External32),
        _ => Err(class(ERR_UNSUPPORTED_DATAREP)),
    }
}

fn new_view(
    rt: &Runtime,
    file: &File,
    disp: i64,
    etype: VirtDatatype,
    filetype: VirtDatatype,
    of: Representation,
) -> Result<View> {
    let displacement = match disp {
        DISPLACEMENT_CURRENT if file.mode & mode::SEQUENTIAL != 0 => None,
        disp => Some(u64::try_from(disp).map_err(|_| class(ERR_ARG))?),
    };
    let (unit, tile) = (size_of(rt, etype)?, size_of(rt, filetype)?);
    if unit == 0 || tile % unit != 0 {
        return Err(class(ERR_TYPE));
    }
    if of == Representation::External32
        && (external_size(rt, etype)? != unit || external_size(rt, filetype)? != tile)
    {
        log::error!("{}", message::EXTERNAL32_VIEW);
        return Err(class(ERR_UNSUPPORTED_DATAREP));
    }
    Ok(View {
        displacement: displacement.unwrap_or(u64::MAX),
        etype: etype.0 as u64,
        unit,
        filetype: filetype.0 as u64,
        representation: of,
    })
}

/// Returns the view with its offset in the file, and its layout.
///
/// The offset of sequential files is the position of the shared pointer.
fn placed(rt: &Runtime, fh: VirtFile, file: &File, mut new: View) -> Result<(View, Layout)> {
    if new.displacement == u64::MAX {
        let at = shared::position(file)?;
        new.displacement = layout_of(rt, fh, file)?.place(at * file.view.unit);
    }
    let layout = make_layout(rt, &new)?;
    if layout.repeats() && file.mode & mode::WRONLY != 0 {
        return Err(for_reading_only());
    }
    Ok((new, layout))
}

fn set(rt: &Runtime, fh: VirtFile, new: Result<View>) -> Result<()> {
    let file = known(rt, fh)?;
    together(rt, fh)?;
    let comm = comm_of(rt, &file);
    let (new, layout) = match new.and_then(|new| placed(rt, fh, &file, new)) {
        Ok(new) => {
            agree(comm, Ok(()))?;
            new
        }
        Err(failure) => return agree(comm, Err(failure)),
    };
    // The unit must be equal in all processes. The shared pointer is set to 0 while no process uses
    // it.
    let greatest = comm.extremes(Extreme::Greatest, &[new.unit, u64::MAX - new.unit])?;
    if greatest[0] != u64::MAX - greatest[1] {
        return Err(class(ERR_NOT_SAME));
    }
    first_does(comm, || shared::forget(&file))?;
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
    // SAFETY: a C string of the program.
    let view = unsafe { representation_of(datarep) }.and_then(|of| {
        known(rt, fh).and_then(|file| new_view(rt, &file, disp, etype, filetype, of))
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
        let view = known(rt, fh)?.view;
        let equal = |word| datatype::equivalent(rt, handle(word)).map_err(Failure::Library);
        let name = match view.representation {
            Representation::Native => &b"native"[..],
            Representation::External32 => b"external32",
        };
        // SAFETY: the program's addresses; the text is shorter than MPI_MAX_DATAREP_STRING.
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
    let place = || {
        let file = known(rt, fh)?;
        let unit = u64::try_from(offset).map_err(|_| class(ERR_ARG))?;
        Ok(layout_of(rt, fh, &file)?.place(unit * file.view.unit) as i64)
    };
    // SAFETY: the program's address for the result.
    let got = place().and_then(|place| unsafe { put(disp, place) });
    finish(rt, Proc::MPI_File_get_byte_offset, fh, got)
}

pub unsafe extern "C" fn MPI_File_get_type_extent(
    fh: VirtFile,
    datatype: VirtDatatype,
    extent: *mut isize,
) -> c_int {
    let rt = runtime();
    let measure = || {
        let file = known(rt, fh)?;
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
    // SAFETY: the program's address for the result.
    let got = measure().and_then(|value| unsafe { put(extent, value) });
    finish(rt, Proc::MPI_File_get_type_extent, fh, got)
}
