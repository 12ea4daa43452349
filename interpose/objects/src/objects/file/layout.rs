//! Positions in a file of the bytes of data in a view (MPI 4.1, 14.3).
//!
//! A view repeats its filetype from the displacement on. Each repetition is a *tile*. The bytes of
//! a tile that belong to the filetype's data are *pieces*; all other bytes are gaps:
//!
//! ```text
//!   displacement │ tile 0: pieces, gaps │ tile 1 │ tile 2 │ …
//! ```
//!
//! A *byte of data* is counted without the gaps, a *position* is an offset in the file.

/// Range of a file: offset and length in bytes.
pub type Range = (u64, u64);

/// Contiguous data in a tile.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Offset in the tile.
    offset: u64,
    length: u64,
    /// Number of bytes of data in the preceding pieces of the tile.
    data_before: u64,
}

/// Layout of a view's data.
#[derive(Debug)]
pub struct ViewLayout {
    displacement: u64,
    /// Data of a tile, in the order of the filetype's type map.
    pieces: Vec<Piece>,
    /// Distance of two tiles in bytes.
    extent: u64,
    /// Number of bytes of data in a tile.
    size: u64,
    /// True if a tile contains bytes of the file more than once.
    repeats: bool,
}

impl ViewLayout {
    /// Returns a layout whose tiles have data in `pieces` (offset and length).
    ///
    /// The pieces must be sorted by their offsets; they may overlap.
    pub fn new(
        displacement: u64,
        pieces: impl IntoIterator<Item = Range>,
        extent: u64,
    ) -> ViewLayout {
        let (mut list, mut size) = (Vec::new(), 0);
        let (mut repeats, mut end) = (false, 0);
        for (offset, length) in pieces {
            repeats |= offset < end;
            end = end.max(offset + length);
            list.push(Piece {
                offset,
                length,
                data_before: size,
            });
            size += length;
        }
        ViewLayout {
            displacement,
            pieces: list,
            extent,
            size,
            repeats,
        }
    }

    /// True if a tile contains bytes of the file more than once.
    ///
    /// A view with such tiles is for reading only (MPI 4.1, 14.3). Overlaps of different tiles are
    /// not detected.
    pub fn repeats(&self) -> bool {
        self.repeats
    }

    /// Returns the index of the piece that contains a byte of data of a tile.
    fn piece_of(&self, byte: u64) -> usize {
        self.pieces
            .partition_point(|piece| piece.data_before <= byte)
            .saturating_sub(1)
    }

    /// Returns the position of a byte of data.
    pub fn position(&self, byte: u64) -> u64 {
        if self.size == 0 {
            return self.displacement;
        }
        let (tile, byte) = (byte / self.size, byte % self.size);
        let piece = self.pieces[self.piece_of(byte)];
        self.displacement + tile * self.extent + piece.offset + (byte - piece.data_before)
    }

    /// Returns the ranges of `length` bytes of data, from byte `from` of the data on.
    ///
    /// Adjacent ranges are merged.
    pub fn ranges(&self, from: u64, length: u64) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        if self.size == 0 || length == 0 {
            return ranges;
        }
        if self.size == self.extent && self.pieces.len() == 1 {
            return vec![(self.displacement + self.pieces[0].offset + from, length)];
        }
        let (mut tile, byte) = (from / self.size, from % self.size);
        let mut piece = self.piece_of(byte);
        let (mut skip, mut left) = (byte - self.pieces[piece].data_before, length);
        while left > 0 {
            let Piece { offset, length, .. } = self.pieces[piece];
            let begin = self.displacement + tile * self.extent + offset + skip;
            let count = (length - skip).min(left);
            match ranges.last_mut() {
                Some((last, size)) if *last + *size == begin => *size += count,
                _ if count > 0 => ranges.push((begin, count)),
                _ => {}
            }
            (left, skip) = (left - count, 0);
            piece += 1;
            if piece == self.pieces.len() {
                (piece, tile) = (0, tile + 1);
            }
        }
        ranges
    }

    /// Returns the number of bytes of data before a position in the file.
    ///
    /// Tiles overlap if the data of a tile end after its extent. Several tiles may therefore have
    /// data on both sides of the position.
    pub fn bytes_before(&self, position: u64) -> u64 {
        let Some(end) = position
            .checked_sub(self.displacement)
            .filter(|_| self.size > 0)
        else {
            return 0;
        };
        let in_tile = |end: u64| -> u64 {
            let before = |piece: &Piece| end.saturating_sub(piece.offset).min(piece.length);
            self.pieces.iter().map(before).sum()
        };
        let end_of_data = self
            .pieces
            .iter()
            .map(|piece| piece.offset + piece.length)
            .max()
            .unwrap_or(0);
        // Number of consecutive tiles, from the tile itself on, into which the data of a tile
        // extend.
        let overlap = end_of_data.div_ceil(self.extent.max(1)).max(1);
        let last_tile = end / self.extent.max(1);
        let whole_tiles = (last_tile + 1).saturating_sub(overlap);
        let rest: u64 = (whole_tiles..=last_tile)
            .map(|tile| in_tile(end - tile * self.extent))
            .sum();
        whole_tiles * self.size + rest
    }
}

#[cfg(test)]
mod tests {
    use super::ViewLayout;

    #[test]
    fn bytes_are_one_range() {
        let layout = ViewLayout::new(5, [(0, 1)], 1);
        assert_eq!(layout.ranges(10, 20), [(15, 20)]);
        assert_eq!((layout.position(10), layout.bytes_before(15)), (15, 10));
    }

    #[test]
    fn tiles_with_gaps_are_distinguished() {
        let layout = ViewLayout::new(100, [(4, 4), (12, 8)], 24);
        assert_eq!(
            layout.ranges(0, 24),
            [(104, 4), (112, 8), (128, 4), (136, 8)]
        );
        assert_eq!(layout.ranges(2, 4), [(106, 2), (112, 2)]);
        assert_eq!(layout.ranges(11, 3), [(119, 1), (128, 2)]);
        assert_eq!(
            (layout.position(0), layout.position(4), layout.position(12)),
            (104, 112, 128)
        );
        for (end, bytes) in [
            (0, 0),
            (104, 0),
            (106, 2),
            (110, 4),
            (113, 5),
            (124, 12),
            (129, 13),
            (400, 148),
        ] {
            assert_eq!(layout.bytes_before(end), bytes, "{end}");
        }
    }

    #[test]
    fn neighbouring_tiles_are_merged() {
        let layout = ViewLayout::new(0, [(0, 4), (8, 4)], 12);
        assert_eq!(layout.ranges(4, 12), [(8, 8), (20, 4)]);
    }

    #[test]
    fn tiles_may_overlap() {
        let layout = ViewLayout::new(0, [(0, 4), (16, 4)], 4);
        assert_eq!(layout.ranges(0, 12), [(0, 4), (16, 4), (4, 4)]);
        assert_eq!(layout.bytes_before(8), 8);
    }

    #[test]
    fn positions_may_repeat() {
        let layout = ViewLayout::new(0, [(0, 8), (4, 4), (12, 4)], 16);
        assert_eq!(layout.ranges(0, 20), [(0, 8), (4, 4), (12, 8)]);
        assert_eq!(layout.ranges(8, 4), [(4, 4)]);
        assert_eq!(
            (
                layout.position(8),
                layout.bytes_before(8),
                layout.bytes_before(16)
            ),
            (4, 12, 16)
        );
        assert!(layout.repeats());
        assert!(ViewLayout::new(0, [(0, 8), (1, 2), (6, 4)], 16).repeats());
        assert!(!ViewLayout::new(0, [(0, 8), (8, 4), (16, 4)], 16).repeats());
    }

    #[test]
    fn an_empty_view_has_no_data() {
        let layout = ViewLayout::new(7, [], 0);
        assert!(layout.ranges(0, 10).is_empty());
        assert_eq!((layout.position(3), layout.bytes_before(100)), (7, 0));
    }
}
