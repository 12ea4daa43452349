//! Blocking collectives that leave nothing under way when a process fails.
//!
//! Open MPI's blocking collectives free their requests without waiting when one of them fails. A message that travels in
//! pieces (more than [`EAGER_BYTES`]) and has been matched between two living processes then goes on: it is written into
//! the program's buffer, perhaps after that has been rolled back, or into memory that the library has given back. What is
//! smaller travels in one piece: it is either there or not, and the revocation ends receives that nothing has matched.
//! So collectives with larger messages run in one of three other ways.
//!
//! *Moving data* (broadcast, gather, scatter, all-to-all): as the non-blocking twin, tested until it ends,
//! with a record that recovery drives to its end before anything is loaded. Any algorithm moves the same bytes. All
//! members must choose alike, since a blocking collective does not match a non-blocking one: the choice is made from what
//! the standard makes equal in all of them (the amount of data of one block, by its type signature), and where there is
//! no such thing (counts that only the root knows) it is always the twin.
//!
//! *Reductions*: the twin may combine in another order, and floating-point results would differ from those without the
//! layer. So the blocking procedure is called, but ([`Reduction`]) it writes to memory of the runtime, from which the
//! result is copied when it has succeeded, and what the library frees meanwhile is held back by the shim. After a
//! failure both are given up: whatever arrives late is written there. Late *reads* need no such care. What a transfer
//! takes from memory that has been rolled back reaches a receive of the same collective on the same revoked communicator,
//! and everybody who takes part in that is rolled back too.
//!
//! *Neighbourhoods*: the blocking procedure is called with memory of the runtime to receive in ([`Neighbours`]); see there.
#![allow(unsafe_code)]

mod neighbours;

use crate::arch::Rewound;
use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, VirtDatatype, real_datatype};
use crate::objects::comm::{self, Comm};
use crate::requests::Kind;
use crate::{completion, shim, world};
pub use neighbours::{Neighbours, listed, regular, typed};
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use understudy_mpi::real_types::RealRequest;

/// Messages up to this many bytes are sent eagerly by every transport.
const EAGER_BYTES: c_int = 2048;
/// `MPI_IN_PLACE`
pub const IN_PLACE: *const c_void = std::ptr::without_provenance(1);
/// `MPI_ROOT`
const ROOT: c_int = -4;
/// Buffers up to this size are kept for the next reduction.
const KEPT: usize = 64 << 20;

/// Whether a message is small: told by a note on the datatype translated last, the lowest number of elements that is not.
#[inline]
pub fn is_small(count: c_int, datatype: VirtDatatype) -> bool {
    let known = handles::notes(HandleKind::Datatype, datatype.0).map_or(0, |notes| notes[0]);
    count < if known != 0 { known } else { bound(datatype) }
}

#[cold]
#[inline(never)]
fn bound(datatype: VirtDatatype) -> c_int {
    let bound = EAGER_BYTES
        .checked_div(bytes(datatype))
        .map_or(c_int::MAX, |few| few + 1);
    if let Some(mut notes) = handles::notes(HandleKind::Datatype, datatype.0) {
        notes[0] = bound;
    }
    bound
}

fn bytes(datatype: VirtDatatype) -> c_int {
    let mut size = 0;
    // SAFETY: a datatype handle; an invalid one is reported by the procedure that follows.
    unsafe { real::PMPI_Type_size(real_datatype(datatype), &mut size) };
    size
}

fn are_small(elements: i64, datatype: VirtDatatype) -> bool {
    c_int::try_from(elements).is_ok_and(|count| is_small(count, datatype))
}

/// Whether a collective on `comm` sends data to others and a failure would be recovered from.
#[inline]
fn matters(recipe: &Comm) -> bool {
    (recipe.members.len() > 1 || recipe.remote.is_some()) && world::is_protected()
}

/// Whether a collective is large: `elements` gives how many travel, from the number of members.
#[inline]
fn is_large(comm: VirtComm, datatype: VirtDatatype, elements: impl FnOnce(i64) -> i64) -> bool {
    let Some(recipe) = comm::get(comm) else { return false };
    // On an intercommunicator the arguments of some members are not looked at, so they cannot be counted on.
    let is_large = recipe.remote.is_some() || !are_small(elements(recipe.members.len() as i64), datatype);
    is_large && matters(&recipe)
}

/// Whether a collective of one block of data is large: the twin is to run, or a reduction to write to other memory.
#[inline]
pub fn block(comm: VirtComm, count: c_int, datatype: VirtDatatype) -> bool {
    is_large(comm, datatype, |_| i64::from(count))
}

/// The same for a block of data from or for each member.
#[inline]
pub fn blocks(comm: VirtComm, count: c_int, datatype: VirtDatatype) -> bool {
    is_large(comm, datatype, |members| i64::from(count) * members)
}

/// The same for blocks of different sizes, which all members know.
///
/// # Safety
/// `counts` must have an element for each member.
pub unsafe fn lists(comm: VirtComm, counts: *const c_int, datatype: VirtDatatype) -> bool {
    // SAFETY: handed on to the caller.
    is_large(comm, datatype, |members| unsafe { sum(counts, members) })
}

/// The same where members do not know each other's amounts.
pub fn always(comm: VirtComm) -> bool {
    comm::get(comm).is_some_and(|recipe| matters(&recipe))
}

/// # Safety
/// `counts` must have that many elements.
unsafe fn sum(counts: *const c_int, members: i64) -> i64 {
    // SAFETY: handed on to the caller.
    let counts = unsafe { std::slice::from_raw_parts(counts, members as usize) };
    counts.iter().map(|&count| i64::from(count)).sum()
}

/// Runs a twin.
pub fn run(comm: VirtComm, start: impl FnOnce(&mut RealRequest) -> c_int) -> Result<c_int, Rewound> {
    completion::run(comm, Kind::Collective, start).map(|outcome| outcome.rc)
}

/// How many elements the receive buffer of a reduction holds if only the root has one.
pub fn at_root(comm: VirtComm, count: c_int, root: c_int) -> i64 {
    let is_root = comm::get(comm).is_some_and(|recipe| match recipe.remote {
        Some(_) => root == ROOT,
        None => comm::my_rank(&recipe) == usize::try_from(root).ok(),
    });
    if is_root { i64::from(count) } else { 0 }
}

/// The same if each member receives a block; in place, all blocks are there before.
pub fn of_blocks(comm: VirtComm, count: c_int, in_place: bool) -> i64 {
    let members = comm::get(comm).map_or(1, |recipe| recipe.members.len() as i64);
    i64::from(count) * if in_place { members } else { 1 }
}

/// The same for blocks of different sizes.
///
/// # Safety
/// `counts` must have an element for each member.
pub unsafe fn of_lists(comm: VirtComm, counts: *const c_int, in_place: bool) -> i64 {
    let Some(recipe) = comm::get(comm) else { return 0 };
    // SAFETY: handed on to the caller.
    unsafe {
        if in_place {
            sum(counts, recipe.members.len() as i64)
        } else {
            i64::from(*counts.add(comm::my_rank(&recipe).unwrap_or(0)))
        }
    }
}

/// A large blocking reduction under way.
pub struct Reduction {
    buffer: *mut c_void,
    aside: Option<Aside>,
}

/// Memory of the runtime in place of the program's. It is given up if it is not put back.
struct Aside {
    memory: ManuallyDrop<Vec<u64>>,
    /// Where the program's data begins, how much it is, and how far before it the address of the buffer lies.
    start: *mut u8,
    length: usize,
    before: isize,
}

/// The memory that was used last.
static MEMORY: Main<Vec<u64>> = Main::new(Vec::new());

impl Reduction {
    /// Before the real procedure. `received`: how many elements the receive buffer holds, 0 if there is none here; `fill`
    /// says that what it holds is looked at, or not all of it written.
    ///
    /// # Safety
    /// The program's arguments.
    pub unsafe fn begin(buffer: *mut c_void, received: i64, datatype: VirtDatatype, fill: bool) -> Reduction {
        // SAFETY: handed on to the caller.
        let aside = unsafe { Aside::of(buffer, received, datatype, fill) };
        shim::hold_frees();
        Reduction { buffer, aside }
    }

    /// Where the real procedure writes to.
    pub fn place(&self) -> *mut c_void {
        self.aside.as_ref().map_or(self.buffer, |aside| {
            aside
                .memory
                .as_ptr()
                .cast::<u8>()
                .wrapping_offset(-aside.before)
                .cast_mut()
                .cast()
        })
    }

    /// After the real procedure, whose return code is handed on.
    pub fn end(self, rc: c_int) -> c_int {
        shim::release_frees(rc == SUCCESS);
        if let Some(aside) = self.aside
            && rc == SUCCESS
        {
            aside.deliver();
        }
        rc
    }
}

impl Aside {
    /// # Safety
    /// A buffer of the program with that many elements.
    unsafe fn of(buffer: *mut c_void, count: i64, datatype: VirtDatatype, fill: bool) -> Option<Aside> {
        let (mut bound, mut extent, mut true_bound, mut true_extent) = (0isize, 0isize, 0isize, 0isize);
        if count <= 0 || buffer.cast_const() == IN_PLACE {
            return None;
        }
        // SAFETY: local queries of a datatype.
        unsafe {
            real::PMPI_Type_get_extent(real_datatype(datatype), &mut bound, &mut extent);
            real::PMPI_Type_get_true_extent(real_datatype(datatype), &mut true_bound, &mut true_extent);
        }
        let reach = (count as isize - 1) * extent;
        let (before, length) = (true_bound + reach.min(0), (true_extent + reach.abs()) as usize);
        let mut memory = MEMORY.take();
        let words = length.div_ceil(size_of::<u64>());
        if memory.capacity() < words {
            memory = Vec::with_capacity(words);
        }
        let aside = Aside {
            start: buffer.cast::<u8>().wrapping_offset(before),
            length,
            before,
            memory: ManuallyDrop::new(memory),
        };
        if fill || count * i64::from(bytes(datatype)) != length as i64 {
            // SAFETY: the program's data, and room for as much.
            unsafe { std::ptr::copy_nonoverlapping(aside.start, aside.memory.as_ptr().cast_mut().cast(), length) };
        }
        Some(aside)
    }

    fn deliver(mut self) {
        // SAFETY: as much as there is in the program's buffer; the memory is taken once.
        let memory = unsafe {
            std::ptr::copy_nonoverlapping(self.memory.as_ptr().cast(), self.start, self.length);
            ManuallyDrop::take(&mut self.memory)
        };
        if memory.capacity() * size_of::<u64>() <= KEPT {
            MEMORY.set(memory);
        }
    }
}
