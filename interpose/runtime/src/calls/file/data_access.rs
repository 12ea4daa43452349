//! Procedures that read and write (MPI 4.1, 14.4.2 to 14.4.5), and set the individual pointer.
#![allow(unsafe_code)]

use super::access::{AccessBuffer, AccessDirection, AccessStart, access};
use super::file_failure::{FileFailure, FileResult, class, comm_of, entry, finish, put, together};
use super::shared_pointer;
use crate::Runtime;
use crate::calls::arguments::put_status;
use crate::calls::runtime;
use crate::cut;
use crate::errors::{ERR_ARG, ERR_REQUEST, SUCCESS};
use crate::generated::Proc;
use crate::handles::{VirtDatatype, VirtFile, VirtRequest};
use crate::objects::comm;
use crate::objects::file::{self, SplitCollective};
use crate::requests::{self, EMPTY_STATUS, RequestKind};
pub use shared_pointer::{MPI_File_get_position_shared, MPI_File_seek_shared};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::Status;

fn buffer(address: *const c_void, count: c_int, datatype: VirtDatatype) -> AccessBuffer {
    AccessBuffer {
        address: address.cast_mut(),
        count,
        datatype,
    }
}

fn status_of(bytes: u64) -> Status {
    Status {
        bytes: bytes as usize,
        ..EMPTY_STATUS
    }
}

/// Waits until all processes of a collective write have written; does nothing after a read.
///
/// A process that reads after a collective write finds the data of all other processes.
fn end_together(rt: &Runtime, fh: VirtFile, direction: AccessDirection) -> FileResult<()> {
    match direction {
        AccessDirection::Write => Ok(comm_of(rt, &entry(rt, fh)?).barrier()?),
        AccessDirection::Read => Ok(()),
    }
}

/// Accesses a file and writes the status.
///
/// # Safety
/// The arguments are the program's.
unsafe fn access_blocking(
    rt: &Runtime,
    fh: VirtFile,
    direction: AccessDirection,
    at: AccessStart,
    buffer: AccessBuffer,
    is_collective: bool,
    status: *mut Status,
) -> FileResult<()> {
    // SAFETY: MPI requires the program's arguments to be valid; `status` may be null.
    unsafe {
        if is_collective && (direction == AccessDirection::Write || at == AccessStart::Ordered) {
            together(rt, fh)?;
        } else {
            cut::here(rt)?;
        }
        let done = access(rt, fh, direction, at, buffer);
        // The other processes wait in the barrier even if the access of this process has failed.
        if is_collective && matches!(done, Ok(_) | Err(FileFailure::Class(_))) {
            end_together(rt, fh, direction)?;
        }
        put_status(status, status_of(done?));
    }
    Ok(())
}

/// Accesses a file and writes a completed request.
///
/// # Safety
/// The arguments are the program's.
unsafe fn access_nonblocking(
    rt: &Runtime,
    fh: VirtFile,
    direction: AccessDirection,
    at: AccessStart,
    buffer: AccessBuffer,
    request: *mut VirtRequest,
) -> FileResult<()> {
    if request.is_null() {
        return Err(class(ERR_ARG));
    }
    cut::here(rt)?;
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        let bytes = access(rt, fh, direction, at, buffer)?;
        let done = requests::add_done(
            rt,
            comm::self_handle(rt),
            RequestKind::Send,
            status_of(bytes),
            SUCCESS,
        );
        put(request, done)
    }
}

/// Begins a split collective.
///
/// # Safety
/// The arguments are the program's.
unsafe fn begin_split(
    rt: &Runtime,
    fh: VirtFile,
    split: SplitCollective,
    direction: AccessDirection,
    at: AccessStart,
    buffer: AccessBuffer,
) -> FileResult<()> {
    if entry(rt, fh)?.split.is_some() {
        return Err(class(ERR_REQUEST));
    }
    // A split collective may do all its work when it begins (MPI 4.1, 14.4.5). Its end then waits
    // for no other process.
    let is_together = direction == AccessDirection::Write || at == AccessStart::Ordered;
    if is_together {
        together(rt, fh)?;
    } else {
        cut::here(rt)?;
    }
    // SAFETY: MPI requires the program's buffer to be valid.
    let done = unsafe { access(rt, fh, direction, at, buffer) };
    if is_together && matches!(done, Ok(_) | Err(FileFailure::Class(_))) {
        end_together(rt, fh, direction)?;
    }
    let bytes = done?;
    if let Some(mut file) = file::get_mut(rt, fh) {
        file.split = Some((split, bytes));
    }
    Ok(())
}

/// Ends a split collective.
///
/// # Safety
/// The arguments are the program's.
unsafe fn end_split(
    rt: &Runtime,
    fh: VirtFile,
    split: SplitCollective,
    status: *mut Status,
) -> FileResult<()> {
    let bytes = match entry(rt, fh)?.split {
        Some((begun, bytes)) if begun == split => bytes,
        _ => return Err(class(ERR_REQUEST)),
    };
    if let Some(mut file) = file::get_mut(rt, fh) {
        file.split = None;
    }
    // SAFETY: MPI requires the program's address for the status to be valid or null.
    unsafe { put_status(status, status_of(bytes)) };
    Ok(())
}

macro_rules! blocking {
    ($($name:ident, $direction:ident, $buffer:ty, $at:expr, $collective:literal
        $(, $offset:ident)?;)*) => {$(
        pub unsafe extern "C" fn $name(
            fh: VirtFile,
            $($offset: i64,)?
            buf: $buffer,
            count: c_int,
            datatype: VirtDatatype,
            status: *mut Status,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            let at = blocking!(@ $at $(, $offset)?);
            // SAFETY: MPI requires the program's arguments to be valid.
            let done = unsafe {
                let (direction, buffer) =
                    (AccessDirection::$direction, buffer(buf, count, datatype));
                access_blocking(rt, fh, direction, at, buffer, $collective, status)
            };
            finish(rt, Proc::$name, fh, done)
        }
    )*};
    (@ $at:expr) => { $at };
    (@ $at:expr, $offset:ident) => { $at($offset) };
}
type To = *mut c_void;
type From = *const c_void;

blocking! {
    MPI_File_read_at, Read, To, AccessStart::Offset, false, offset;
    MPI_File_read_at_all, Read, To, AccessStart::Offset, true, offset;
    MPI_File_write_at, Write, From, AccessStart::Offset, false, offset;
    MPI_File_write_at_all, Write, From, AccessStart::Offset, true, offset;
    MPI_File_read, Read, To, AccessStart::Individual, false;
    MPI_File_read_all, Read, To, AccessStart::Individual, true;
    MPI_File_write, Write, From, AccessStart::Individual, false;
    MPI_File_write_all, Write, From, AccessStart::Individual, true;
    MPI_File_read_shared, Read, To, AccessStart::Shared, false;
    MPI_File_write_shared, Write, From, AccessStart::Shared, false;
    MPI_File_read_ordered, Read, To, AccessStart::Ordered, true;
    MPI_File_write_ordered, Write, From, AccessStart::Ordered, true;
}

macro_rules! nonblocking {
    ($($name:ident, $direction:ident, $buffer:ty, $at:expr $(, $offset:ident)?;)*) => {$(
        pub unsafe extern "C" fn $name(
            fh: VirtFile,
            $($offset: i64,)?
            buf: $buffer,
            count: c_int,
            datatype: VirtDatatype,
            request: *mut VirtRequest,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            let at = blocking!(@ $at $(, $offset)?);
            // SAFETY: MPI requires the program's arguments to be valid.
            let done = unsafe {
                let (direction, buffer) =
                    (AccessDirection::$direction, buffer(buf, count, datatype));
                access_nonblocking(rt, fh, direction, at, buffer, request)
            };
            finish(rt, Proc::$name, fh, done)
        }
    )*};
}

nonblocking! {
    MPI_File_iread_at, Read, To, AccessStart::Offset, offset;
    MPI_File_iread_at_all, Read, To, AccessStart::Offset, offset;
    MPI_File_iwrite_at, Write, From, AccessStart::Offset, offset;
    MPI_File_iwrite_at_all, Write, From, AccessStart::Offset, offset;
    MPI_File_iread, Read, To, AccessStart::Individual;
    MPI_File_iread_all, Read, To, AccessStart::Individual;
    MPI_File_iwrite, Write, From, AccessStart::Individual;
    MPI_File_iwrite_all, Write, From, AccessStart::Individual;
    MPI_File_iread_shared, Read, To, AccessStart::Shared;
    MPI_File_iwrite_shared, Write, From, AccessStart::Shared;
}

macro_rules! split {
    ($($begin:ident, $end:ident, $split:ident, $direction:ident, $buffer:ty, $at:expr
        $(, $offset:ident)?;)*) => {$(
        pub unsafe extern "C" fn $begin(
            fh: VirtFile,
            $($offset: i64,)?
            buf: $buffer,
            count: c_int,
            datatype: VirtDatatype,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            let at = blocking!(@ $at $(, $offset)?);
            // SAFETY: MPI requires the program's arguments to be valid.
            let done = unsafe {
                let (direction, buffer) =
                    (AccessDirection::$direction, buffer(buf, count, datatype));
                begin_split(rt, fh, SplitCollective::$split, direction, at, buffer)
            };
            finish(rt, Proc::$begin, fh, done)
        }

        pub unsafe extern "C" fn $end(fh: VirtFile, _buf: $buffer, status: *mut Status) -> c_int {
            let rt = $crate::calls::runtime();
            // SAFETY: MPI requires the program's arguments to be valid.
            let done = unsafe { end_split(rt, fh, SplitCollective::$split, status) };
            finish(rt, Proc::$end, fh, done)
        }
    )*};
}

split! {
    MPI_File_read_at_all_begin, MPI_File_read_at_all_end, ReadAt, Read, To,
        AccessStart::Offset, offset;
    MPI_File_write_at_all_begin, MPI_File_write_at_all_end, WriteAt, Write, From,
        AccessStart::Offset, offset;
    MPI_File_read_all_begin, MPI_File_read_all_end, Read, Read, To, AccessStart::Individual;
    MPI_File_write_all_begin, MPI_File_write_all_end, Write, Write, From, AccessStart::Individual;
    MPI_File_read_ordered_begin, MPI_File_read_ordered_end, ReadOrdered, Read, To,
        AccessStart::Ordered;
    MPI_File_write_ordered_begin, MPI_File_write_ordered_end, WriteOrdered, Write, From,
        AccessStart::Ordered;
}

fn seek(rt: &Runtime, fh: VirtFile, offset: i64, whence: c_int) -> FileResult<()> {
    let file = entry(rt, fh)?;
    let to = shared_pointer::new_position(rt, fh, &file, offset, whence, file.position)?;
    if let Some(mut file) = file::get_mut(rt, fh) {
        file.position = to;
    }
    Ok(())
}

pub unsafe extern "C" fn MPI_File_seek(fh: VirtFile, offset: i64, whence: c_int) -> c_int {
    let rt = runtime();
    finish(rt, Proc::MPI_File_seek, fh, seek(rt, fh, offset, whence))
}

pub unsafe extern "C" fn MPI_File_get_position(fh: VirtFile, offset: *mut i64) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's address for the result to be valid.
    let outcome = entry(rt, fh).and_then(|file| unsafe { put(offset, file.position as i64) });
    finish(rt, Proc::MPI_File_get_position, fh, outcome)
}
