//! Memory of `MPI_Win_allocate_shared` and, on one node, of `MPI_Win_allocate`.
//!
//! The memory consists of the segments of all members (MPI 4.1, 12.2), at different addresses in
//! each process.
//!
//! The runtime allocates it without the library: the mapping of a survivor must outlive an MPI
//! instance, and its addresses must not change. Each page is saved in the replica of one member,
//! its owner ([`WindowPart`]). No process writes to a page while the owner captures or restores it:
//! at a cut all processes are quiesced until all members have captured their pages, and a recovery
//! restores pages only when all processes take part in the recovery.
#![allow(unsafe_code)]

use crate::abi::is_foreign_abi;
use crate::arch::raw_syscall;
use crate::world;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use understudy_image::PAGE_SIZE;
use understudy_image::window_memory::{self, WindowPart};
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{ProcessNumber, Worker};

const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// Memory that a member has requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Segment {
    /// Size in bytes.
    pub size: i64,
    /// Unit of displacements in bytes.
    pub disp_unit: i32,
    /// True if a gap may precede the segment (the hint `alloc_shared_noncontig`).
    pub may_have_gap: bool,
}

/// Memory of all members.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct SharedRegion {
    /// First address in this process; zero if the region has no bytes.
    pub(super) base: u64,
    /// Segments of the members, in the order of ranks.
    pub(super) segments: Vec<Segment>,
    /// Offsets of the segments from `base`, and the end of the last segment.
    pub(super) starts: Vec<u64>,
    /// Number of the window in the names of its files.
    pub(super) window: u64,
    /// Workers of the members.
    pub(super) owners: Vec<Worker>,
}

/// True if all members allow gaps.
fn may_have_gaps(segments: &[Segment]) -> bool {
    !segments.is_empty() && segments.iter().all(|segment| segment.may_have_gap)
}

/// Returns the offsets of the segments, followed by the end of the last segment.
///
/// Gaps exist only if all members allow gaps.
pub(super) fn segment_starts(segments: &[Segment]) -> Vec<u64> {
    let may_have_gaps = may_have_gaps(segments);
    let mut starts = vec![0];
    for segment in segments {
        let end = starts[starts.len() - 1] + segment.size.max(0) as u64;
        starts.push(if may_have_gaps {
            end.next_multiple_of(PAGE_BYTES)
        } else {
            end
        });
    }
    starts
}

impl SharedRegion {
    /// Returns the size of the region in bytes, in whole pages.
    pub(super) fn length(&self) -> u64 {
        self.starts
            .last()
            .map_or(0, |end| end.next_multiple_of(PAGE_BYTES))
    }

    /// Returns the files, and the bytes of the region that are in each file.
    ///
    /// A page with segments of two members is in the file of the lower rank.
    fn parts(&self) -> impl Iterator<Item = (WindowPart, Range<u64>)> {
        let bounds = self.starts.windows(2).map(|ends| {
            let [start, end] = [ends[0], ends[1]].map(|at| at.next_multiple_of(PAGE_BYTES));
            start..end
        });
        let part = |&owner| WindowPart {
            window: self.window,
            owner,
        };
        self.owners
            .iter()
            .map(part)
            .zip(bounds)
            .filter(|(_, bytes)| !bytes.is_empty())
    }

    /// True if the window's members share this region, which they have mapped.
    pub fn is_mapped(&self) -> bool {
        !self.owners.is_empty()
    }

    /// True if this process and the member with this rank are on one node.
    ///
    /// Both have then mapped one file.
    pub fn shares_node_with(&self, rt: &Runtime, member: usize) -> bool {
        let world = world::get(rt);
        let node = |process: ProcessNumber| world.nodes[process.index()];
        let process = |owner: &Worker| world.process_of[owner.index()];
        self.owners
            .get(member)
            .is_some_and(|owner| node(process(owner)) == node(world.process))
    }

    pub(super) fn own_part(&self) -> Option<(WindowPart, Range<u64>)> {
        self.parts().find(|(part, _)| part.is_own())
    }

    /// Returns the address of a member's segment in this process, and the member's request.
    ///
    /// For an empty segment, Open MPI reports the address at which the segment would begin, unless
    /// there are gaps; MPICH reports no address.
    pub fn segment(&self, rank: usize) -> Option<(u64, Segment)> {
        let (start, segment) = (self.starts.get(rank)?, *self.segments.get(rank)?);
        let has_no_address =
            segment.size == 0 && (is_foreign_abi() || may_have_gaps(&self.segments));
        Some((if has_no_address { 0 } else { self.base + start }, segment))
    }

    /// Returns the lowest rank with memory.
    pub fn first_rank_with_memory(&self) -> Option<usize> {
        self.segments.iter().position(|segment| segment.size > 0)
    }

    /// Returns the number of the window in the names of its files.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Returns the number of members that share the region.
    pub fn members(&self) -> usize {
        self.owners.len()
    }

    /// True if all members are on one node.
    pub fn is_on_one_node(&self, rt: &Runtime, processes: &[ProcessNumber]) -> bool {
        let world = world::get(rt);
        let node = |owner: &Worker| world.nodes[processes[owner.index()].index()];
        self.owners
            .windows(2)
            .all(|two| node(&two[0]) == node(&two[1]))
    }

    /// Maps all parts, one after the other.
    pub(super) fn map(&mut self) -> io::Result<()> {
        if self.length() == 0 {
            return Ok(());
        }
        // The runtime's mmap(2) and syscall(2) would choose an address on the runtime side.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let arguments = [
            0,
            self.length() as usize,
            libc::PROT_NONE as usize,
            flags as usize,
            usize::MAX,
            0,
        ];
        // SAFETY: a new mapping, which replaces no other mapping.
        let base = unsafe { raw_syscall::syscall(libc::SYS_mmap, arguments) };
        if base < 0 {
            return Err(io::Error::from_raw_os_error(-base as i32));
        }
        self.base = base as u64;
        for (part, bytes) in self.parts() {
            let file = part.open(bytes.end - bytes.start)?;
            let (at, length) = (
                (self.base + bytes.start) as *mut _,
                (bytes.end - bytes.start) as usize,
            );
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            // SAFETY: within the mapping above, which no other code uses yet.
            if unsafe { libc::mmap(at, length, access, flags, file.as_raw_fd(), 0) }
                == libc::MAP_FAILED
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Unmaps the memory of a window that does not exist any more.
    pub fn unmap(&self) {
        if self.base != 0 {
            // SAFETY: `map` has created the mapping, and no window uses it any more.
            unsafe { libc::munmap(self.base as *mut _, self.length() as usize) };
        }
    }

    /// Releases the memory.
    ///
    /// Collective over the window's members, whose communicator is `real`. Does nothing if the
    /// members share no region.
    ///
    /// # Errors
    /// Fails if a real procedure fails.
    pub fn release(&self, real: RealComm) -> mpi::Result<()> {
        if !self.is_mapped() {
            return Ok(());
        }
        self.unmap();
        // All members must have unmapped the region before a file is removed. Otherwise, after a
        // failure at this point, a survivor would still have the removed file mapped, and the
        // replacement of the failed member would create another file.
        real.barrier()?;
        if let Some((part, _)) = self.own_part() {
            part.remove();
        }
        window_memory::remove_locks(self.window);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(sizes: &[i64], may_have_gap: bool) -> SharedRegion {
        let segment = |&size| Segment {
            size,
            disp_unit: 1,
            may_have_gap,
        };
        let segments: Vec<Segment> = sizes.iter().map(segment).collect();
        SharedRegion {
            base: 0x10000,
            starts: segment_starts(&segments),
            owners: (0..sizes.len() as u32)
                .map(|rank| Worker(2 * rank))
                .collect(),
            segments,
            window: 5,
        }
    }

    /// Checks that every page is in one file, and that the files are contiguous.
    fn assert_covered(region: &SharedRegion) {
        let mut at = 0;
        for (part, bytes) in region.parts() {
            assert_eq!(
                (part.window, bytes.start, bytes.start % PAGE_BYTES),
                (5, at, 0)
            );
            at = bytes.end;
        }
        assert_eq!(at, region.length());
    }

    #[test]
    fn segments_follow_each_other_and_pages_have_one_owner() {
        let found = region(&[100, 0, 8192, 5, 4096], false);
        assert_eq!(found.starts, [0, 100, 100, 8292, 8297, 12393]);
        let owners: Vec<(u32, Range<u64>)> = found
            .parts()
            .map(|(part, bytes)| (part.owner.0, bytes))
            .collect();
        assert_eq!(owners, [(0, 0..4096), (4, 4096..12288), (8, 12288..16384)]);
        assert_covered(&found);
        let part = |rank| found.segment(rank).map(|(at, segment)| (at, segment.size));
        assert_eq!(
            [3, 1, 5].map(part),
            [Some((0x10000 + 8292, 5)), Some((0x10000 + 100, 0)), None]
        );
        assert_eq!(found.first_rank_with_memory(), Some(0));
        assert_eq!(region(&[0, 0], false).parts().count(), 0);
        assert_eq!(region(&[0, 7], false).first_rank_with_memory(), Some(1));
    }

    #[test]
    fn segments_may_have_gaps_if_all_members_allow_them() {
        let found = region(&[100, 0, 5000], true);
        assert_eq!(found.starts, [0, 4096, 4096, 12288]);
        assert_covered(&found);
    }
}
