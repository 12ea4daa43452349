//! Address ranges that do not belong to the program side.

use std::sync::OnceLock;
use understudy_image::pages::AddrRange;
use understudy_image::vmas::ExcludedRanges;

static ZONES: OnceLock<ExcludedRanges> = OnceLock::new();

/// Returns the ranges that do not belong to the program side.
pub fn zones() -> &'static ExcludedRanges {
    ZONES.get_or_init(ExcludedRanges::with_runtime_zone)
}

/// Sets the ranges, once, before their first use.
pub(super) fn set(zones: ExcludedRanges) {
    assert!(
        ZONES.set(zones).is_ok(),
        "the excluded ranges were used before they were set"
    );
}

/// Returns the parts of `range` outside of `hole`.
pub(super) fn without(range: AddrRange, hole: AddrRange) -> Vec<AddrRange> {
    let below = AddrRange::new(range.start, hole.start.clamp(range.start, range.end));
    let above = AddrRange::new(hole.end.clamp(range.start, range.end), range.end);
    [below, above]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_leaves_what_is_below_and_above() {
        let range = AddrRange::new(0x1000, 0x9000);
        assert_eq!(
            without(range, AddrRange::new(0x3000, 0x4000)),
            [
                AddrRange::new(0x1000, 0x3000),
                AddrRange::new(0x4000, 0x9000)
            ]
        );
        assert_eq!(
            without(range, AddrRange::new(0, 0x2000)),
            [AddrRange::new(0x2000, 0x9000)]
        );
        assert_eq!(without(range, AddrRange::new(0xa000, 0xb000)), [range]);
        assert_eq!(without(range, AddrRange::new(0, 0xb000)), []);
    }
}
