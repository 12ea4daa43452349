//! How long data are, in memory and in files, and where those of a view lie.
#![allow(unsafe_code)]

use super::{Result, class, library};
use crate::errors::*;
use crate::generated::real;
use crate::handles::{VirtDatatype, VirtFile, real_datatype};
use crate::journal::typemap::TypeMaps;
use crate::objects::datatype;
use crate::objects::file::layout::Layout;
use crate::objects::file::{self, File, View};
use crate::recovery::Runtime;
use std::ffi::c_void;
use std::sync::Arc;

/// A view with more pieces than this is refused.
const MOST_PIECES: usize = 1 << 24;

/// A datatype of a view.
pub(super) fn handle(word: u64) -> VirtDatatype {
    VirtDatatype(word as *mut c_void)
}

/// Bytes of data in an element.
pub(super) fn size_of(rt: &Runtime, datatype: VirtDatatype) -> Result<u64> {
    let mut size = 0;
    if datatype::index(rt, datatype).is_none() && !datatype::is_predefined(rt, datatype) {
        return Err(class(ERR_TYPE));
    }
    // SAFETY: a local query of a datatype.
    library(unsafe { real::PMPI_Type_size_x(real_datatype(rt, datatype), &mut size) })?;
    u64::try_from(size).map_err(|_| class(ERR_TYPE))
}

/// Where the data of a file's view lie.
pub(super) fn layout_of(rt: &Runtime, fh: VirtFile, file: &File) -> Result<Arc<Layout>> {
    if let Some(layout) = file::layout(rt, fh) {
        return Ok(layout);
    }
    let layout = Arc::new(make_layout(rt, &file.view)?);
    file::set_layout(rt, fh, Some(Arc::clone(&layout)));
    Ok(layout)
}

pub(super) fn make_layout(rt: &Runtime, view: &View) -> Result<Layout> {
    let map = TypeMaps::new(MOST_PIECES).of(rt, handle(view.filetype));
    let total: usize = map.pieces.iter().map(|(_, length)| length).sum();
    let is_rising = map
        .pieces
        .windows(2)
        .all(|two| two[0].0 + two[0].1 as isize <= two[1].0);
    if total != map.size || !is_rising || map.extent < 0 || map.pieces.first().is_some_and(|first| first.0 < 0) {
        log::error!(
            "the file type of a view has more than {MOST_PIECES} pieces, or places that do not rise (MPI 4.1, 14.3)"
        );
        return Err(class(ERR_TYPE));
    }
    let pieces = map.pieces.iter().filter(|(_, length)| *length > 0);
    let pieces = pieces.map(|&(offset, length)| (offset as u64, length as u64));
    Ok(Layout::new(view.displacement, pieces, map.extent as u64))
}

/// Bytes of an element in a file of the portable representation.
pub(super) fn external_size(rt: &Runtime, datatype: VirtDatatype) -> Result<u64> {
    let mut size = 0;
    // SAFETY: a datatype and the name of the representation.
    let rc =
        unsafe { real::PMPI_Pack_external_size(c"external32".as_ptr(), 1, real_datatype(rt, datatype), &mut size) };
    library(rc)?;
    Ok(size as u64)
}

/// How many units there are up to the end of the file.
pub(super) fn units_before_end(rt: &Runtime, fh: VirtFile, file: &File) -> Result<u64> {
    let size = file::descriptor(rt, fh)?.metadata()?.len();
    Ok(layout_of(rt, fh, file)?.bytes_before(size).div_ceil(file.view.unit))
}
