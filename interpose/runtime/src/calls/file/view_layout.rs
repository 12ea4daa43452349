//! Offsets of the data of a view in its file.

use super::extent::handle;
use super::file_failure::{FileFailure, FileResult, class};
use crate::Runtime;
use crate::errors::*;
use crate::handles::VirtFile;
use crate::journal::typemap::TypeMaps;
use crate::objects::file::layout::ViewLayout;
use crate::objects::file::{self, FileView, OpenFile};
use std::sync::Arc;
use understudy_catalogue::message;

/// Largest number of pieces in a view's file type.
const MAX_PIECES: usize = 1 << 24;

/// Returns the offsets of the data of a file's view.
pub(super) fn layout_of(
    rt: &Runtime,
    fh: VirtFile,
    file: &OpenFile,
) -> FileResult<Arc<ViewLayout>> {
    if let Some(layout) = file::layout(rt, fh) {
        return Ok(layout);
    }
    let layout = Arc::new(make_layout(rt, &file.view)?);
    file::set_layout(rt, fh, Some(Arc::clone(&layout)));
    Ok(layout)
}

/// Logs that a view cannot be written; returns the error.
///
/// The view contains bytes of the file more than once.
pub(super) fn view_overlaps() -> FileFailure {
    log::error!("{}", message::VIEW_OVERLAPS);
    class(ERR_TYPE)
}

pub(super) fn make_layout(rt: &Runtime, view: &FileView) -> FileResult<ViewLayout> {
    let map = TypeMaps::exact(MAX_PIECES).map_of(rt, handle(view.filetype));
    let total: usize = map.pieces.iter().map(|(_, length)| length).sum();
    // A view for reading may contain bytes twice, but its offsets must not decrease.
    let is_rising = map.pieces.windows(2).all(|two| two[0].0 <= two[1].0);
    if total != map.size
        || !is_rising
        || map.extent < 0
        || map.pieces.first().is_some_and(|first| first.0 < 0)
    {
        log::error!("{}", message::view_too_complex(MAX_PIECES));
        return Err(class(ERR_TYPE));
    }
    let pieces = map.pieces.iter().filter(|(_, length)| *length > 0);
    let pieces = pieces.map(|&(offset, length)| (offset as u64, length as u64));
    Ok(ViewLayout::new(
        view.displacement,
        pieces,
        map.extent as u64,
    ))
}

/// Returns the number of units up to the end of the file.
pub(super) fn units_before_end(rt: &Runtime, fh: VirtFile, file: &OpenFile) -> FileResult<u64> {
    let size = file::descriptor(rt, fh)?.metadata()?.len();
    Ok(layout_of(rt, fh, file)?
        .bytes_before(size)
        .div_ceil(file.view.unit))
}
