//! Type maps of datatypes (MPI 4.1, 5.1), as pieces without gaps.
#![allow(unsafe_code)]

use crate::generated::real;
use crate::handles::{VirtDatatype, real_datatype};
use crate::objects::datatype::{self, Recipe, combiner};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use understudy_objects::Runtime;

/// Limit of pieces in the journal; a datatype with more becomes one piece with gaps.
const MAX_PIECES: usize = 1 << 16;

/// Type map of a datatype.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeMap {
    /// Offset and length in bytes of each piece; adjacent pieces are merged.
    pub pieces: Vec<(isize, usize)>,
    /// Distance in bytes from one element to the next.
    pub extent: isize,
    /// Bytes of data in an element.
    pub size: usize,
}

/// Type maps by handle.
pub struct TypeMaps {
    maps: HashMap<usize, Arc<TypeMap>>,
    max_pieces: usize,
    /// True if maps must have all pieces; see [`TypeMaps::exact`].
    is_exact: bool,
}

impl Default for TypeMaps {
    fn default() -> TypeMaps {
        TypeMaps::new(MAX_PIECES, false)
    }
}

impl TypeMaps {
    /// Returns exact maps: the pieces of data in the order of the type map.
    ///
    /// The maps of the journal ([`TypeMaps::default`]) need only cover the data: they may have one
    /// piece with gaps. A map that cannot be determined, or that would have more than `max_pieces`,
    /// has no pieces.
    pub fn exact(max_pieces: usize) -> TypeMaps {
        TypeMaps::new(max_pieces, true)
    }

    fn new(max_pieces: usize, is_exact: bool) -> TypeMaps {
        TypeMaps {
            maps: HashMap::new(),
            max_pieces,
            is_exact,
        }
    }

    /// Returns the map of a datatype.
    pub fn map_of(&mut self, rt: &Runtime, datatype: VirtDatatype) -> Arc<TypeMap> {
        if let Some(known) = self.maps.get(&(datatype.0 as usize)) {
            return Arc::clone(known);
        }
        let map = Arc::new(self.make(rt, datatype));
        self.maps.insert(datatype.0 as usize, Arc::clone(&map));
        map
    }

    /// Drops all maps, as the handle of a freed datatype may be used again.
    pub fn clear(&mut self) {
        self.maps.clear();
    }

    fn make(&mut self, rt: &Runtime, datatype: VirtDatatype) -> TypeMap {
        let (whole, extent, size) = measure(rt, datatype);
        let dense = vec![whole];
        let pieces = match datatype::recipe_even_if_freed(rt, datatype) {
            Some(recipe) if self.is_exact => self.pieces(rt, &recipe).unwrap_or_default(),
            Some(recipe) if whole.1 != size => self.pieces(rt, &recipe).unwrap_or(dense),
            _ => dense,
        };
        TypeMap {
            pieces,
            extent,
            size,
        }
    }

    /// Returns the pieces by the constructor's arguments (5.1.13).
    ///
    /// `None` if there are too many pieces, or the constructor is not supported.
    fn pieces(&mut self, rt: &Runtime, recipe: &Recipe) -> Option<Vec<(isize, usize)>> {
        let base = |at: usize| Some(VirtDatatype(*recipe.contained.get(at)? as *mut c_void));
        let old = self.map_of(rt, base(0)?);
        let mut pieces = Pieces::new(self.max_pieces);
        match combiner::blocks(recipe, self.max_pieces)? {
            combiner::Blocks::Bytes(blocks) => {
                for (offset, count) in blocks {
                    pieces.add(&old, offset, count)?;
                }
            }
            combiner::Blocks::Elements(blocks) => {
                for (offset, count) in blocks {
                    pieces.add(&old, offset * old.extent, count)?;
                }
            }
            combiner::Blocks::Each(blocks) => {
                for (at, (offset, count)) in blocks.into_iter().enumerate() {
                    let old = self.map_of(rt, base(at)?);
                    pieces.add(&old, offset, count)?;
                }
            }
        }
        Some(pieces.list)
    }
}

/// Pieces that are collected, and the limit of their number.
struct Pieces {
    list: Vec<(isize, usize)>,
    max_pieces: usize,
}

impl Pieces {
    fn new(max_pieces: usize) -> Pieces {
        Pieces {
            list: Vec::new(),
            max_pieces,
        }
    }

    /// Adds a piece, or extends the last one if the two are adjacent.
    fn push(&mut self, begin: isize, length: usize) {
        match self.list.last_mut() {
            Some((last, size)) if *last + *size as isize == begin => *size += length,
            _ if length > 0 => self.list.push((begin, length)),
            _ => {}
        }
    }

    /// Adds `count` elements at offset `at`; `None` if there are too many pieces.
    fn add(&mut self, map: &TypeMap, at: isize, count: usize) -> Option<()> {
        if map.size == 0 {
            return Some(());
        }
        if let [(offset, length)] = map.pieces[..]
            && length as isize == map.extent
        {
            self.push(at + offset, length * count);
            return Some(());
        }
        for element in 0..count as isize {
            for &(offset, length) in &map.pieces {
                let begin = at + element * map.extent + offset;
                self.push(begin, length);
            }
            if self.list.len() > self.max_pieces {
                return None;
            }
        }
        Some(())
    }
}

/// Returns the true bounds, the extent and the size of an element.
fn measure(rt: &Runtime, datatype: VirtDatatype) -> ((isize, usize), isize, usize) {
    let (mut bound, mut extent, mut true_bound, mut true_extent, mut size) =
        (0isize, 0isize, 0isize, 0isize, 0);
    let real = real_datatype(rt, datatype);
    // SAFETY: local queries of a valid datatype; the results have room.
    unsafe {
        real::PMPI_Type_get_extent(real, &mut bound, &mut extent);
        real::PMPI_Type_get_true_extent(real, &mut true_bound, &mut true_extent);
        real::PMPI_Type_size_x(real, &mut size);
    }
    (
        (true_bound, true_extent.max(0) as usize),
        extent,
        size.max(0) as usize,
    )
}

/// Passes the pieces of memory of `count` elements at `address` to `piece`.
///
/// At most `bytes` bytes of data are passed, as address and length.
pub fn spread(
    map: &TypeMap,
    address: usize,
    count: usize,
    bytes: usize,
    mut piece: impl FnMut(usize, usize),
) {
    let mut left = bytes;
    if map.pieces.len() == 1 && map.extent == map.size as isize && map.pieces[0] == (0, map.size) {
        return piece(address, left.min(count.saturating_mul(map.size)));
    }
    for element in 0..count as isize {
        for &(offset, length) in &map.pieces {
            if left == 0 {
                return;
            }
            piece(
                address.wrapping_add_signed(element * map.extent + offset),
                length.min(left),
            );
            // A single piece may include gaps: then a piece of `length` bytes has only `size` bytes
            // of data, and more bytes are recorded than were received.
            left = if map.pieces.len() == 1 {
                left.saturating_sub(map.size)
            } else {
                left.saturating_sub(length)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pieces: &[(isize, usize)], extent: isize) -> TypeMap {
        let size = pieces.iter().map(|(_, length)| length).sum();
        let pieces = pieces.to_vec();
        TypeMap {
            pieces,
            extent,
            size,
        }
    }

    fn spread_to_vec(map: &TypeMap, count: usize, bytes: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        spread(map, 1000, count, bytes, |address, length| {
            found.push((address, length))
        });
        found
    }

    #[test]
    fn dense_elements_are_one_piece() {
        assert_eq!(
            spread_to_vec(&map(&[(0, 8)], 8), 5, usize::MAX),
            [(1000, 40)]
        );
        assert_eq!(spread_to_vec(&map(&[(0, 8)], 8), 5, 16), [(1000, 16)]);
    }

    #[test]
    fn elements_with_gaps_are_several_pieces() {
        let column = map(&[(0, 8), (64, 8)], 128);
        assert_eq!(
            spread_to_vec(&column, 2, usize::MAX),
            [(1000, 8), (1064, 8), (1128, 8), (1192, 8)]
        );
        assert_eq!(
            spread_to_vec(&column, 2, 20),
            [(1000, 8), (1064, 8), (1128, 4)]
        );
    }

    #[test]
    fn touching_pieces_are_merged() {
        let mut pieces = Pieces::new(9);
        pieces.add(&map(&[(0, 8)], 8), 0, 3).unwrap();
        pieces.add(&map(&[(0, 8)], 8), 24, 1).unwrap();
        pieces.add(&map(&[(0, 4)], 8), 40, 2).unwrap();
        assert_eq!(pieces.list, [(0, 32), (40, 4), (48, 4)]);
    }
}
