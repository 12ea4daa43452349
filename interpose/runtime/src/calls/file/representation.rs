//! Representations of data in files that are the program's own (MPI 4.1, 14.5.3).
//!
//! Its conversion functions get whole accesses at once, and more than [`MOST_ITEMS`] in pieces. They run as any callback does.
#![allow(unsafe_code)]

use super::extent::{handle, size_of};
use super::{Failure, Result, class, finish};
use crate::abi;
use crate::arch::{call_program, call_program_with_six};
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::callbacks::{DatarepConversionFn, DatarepExtentFn};
use crate::generated::{HandleKind, Proc};
use crate::handles::{VirtDatatype, real_datatype};
use crate::journal::typemap::{Pieces, TypeMap};
use crate::objects::datatype::combiner::{self, Blocks, Bounds};
use crate::objects::datatype::{self, Recipe};
use crate::objects::errhandler;
use crate::objects::file::representation::{self as known, Registered};
use crate::recovery::Runtime;
use std::ffi::{CStr, c_char, c_int, c_void};

/// `MPI_MAX_DATAREP_STRING`, with the 0 at its end.
const MAX_NAME: usize = 128;
/// A datatype with more pieces, or runs of items, than this is refused.
const MOST_PIECES: usize = 1 << 24;
/// At most so many items are converted by a call.
const MOST_ITEMS: u64 = 1 << 30;
/// Predefined datatypes of two items each, of different kinds or not (6.9.4).
const PAIRS: [&[u8]; 6] = [
    b"MPI_FLOAT_INT",
    b"MPI_DOUBLE_INT",
    b"MPI_LONG_INT",
    b"MPI_SHORT_INT",
    b"MPI_LONG_DOUBLE_INT",
    b"MPI_2INT",
];

pub unsafe extern "C" fn MPI_Register_datarep(
    datarep: *const c_char,
    read_conversion_fn: DatarepConversionFn<VirtDatatype>,
    write_conversion_fn: DatarepConversionFn<VirtDatatype>,
    dtype_file_extent_fn: DatarepExtentFn<VirtDatatype>,
    extra_state: *mut c_void,
) -> c_int {
    let rt = runtime();
    let register = || {
        let extent = dtype_file_extent_fn.ok_or(class(ERR_ARG))? as usize as u64;
        if datarep.is_null() {
            return Err(class(ERR_ARG));
        }
        // SAFETY: a C string of the program.
        let name = unsafe { CStr::from_ptr(datarep) }.to_bytes();
        if name.is_empty() || name.len() >= MAX_NAME {
            return Err(class(ERR_ARG));
        }
        let is_the_standards =
            [&b"native"[..], b"internal", b"external32"].contains(&&name.to_ascii_lowercase()[..]);
        if is_the_standards || known::find(rt, name).is_some() {
            return Err(class(ERR_DUP_DATAREP));
        }
        let address = |function: DatarepConversionFn<VirtDatatype>| {
            function.map_or(0, |it| it as usize as u64)
        };
        known::register(
            rt,
            Registered {
                name: name.to_vec(),
                read: address(read_conversion_fn),
                write: address(write_conversion_fn),
                extent,
                extra_state: extra_state as u64,
                sizes: Vec::new(),
            },
        );
        Ok(())
    };
    finish(
        rt,
        Proc::MPI_Register_datarep,
        errhandler::no_file(rt),
        register(),
    )
}

fn refused(what: &str) -> Failure {
    log::error!("{what} (MPI 4.1, 14.5.3)");
    class(ERR_CONVERSION)
}

/// Bytes of an item of a predefined datatype in the file.
fn item_size(rt: &Runtime, number: u32, datatype: VirtDatatype) -> Result<u64> {
    let one = known::get(rt, number).ok_or(class(ERR_INTERN))?;
    let word = datatype.0 as u64;
    if let Some(&(_, bytes)) = one.sizes.iter().find(|known| known.0 == word) {
        return Ok(bytes);
    }
    let mut extent = 0isize;
    let theirs = abi::for_program(rt, HandleKind::Datatype, word);
    // SAFETY: the program's extent function, with the arguments that the standard says; a handler called by the program runs.
    let rc = unsafe {
        let function = one.extent as *const c_void;
        call_program(
            function,
            [theirs, &raw mut extent as u64, one.extra_state, 0, 0],
        ) as c_int
    };
    match u64::try_from(extent) {
        Ok(bytes) if bytes > 0 && rc == SUCCESS => {
            known::note_size(rt, number, word, bytes);
            Ok(bytes)
        }
        _ => Err(refused(
            "a dtype_file_extent_fn of the program fails, or tells no extent",
        )),
    }
}

/// Blocks of a datatype that another one is made of.
struct Part {
    of: VirtDatatype,
    blocks: Vec<(isize, usize)>,
    /// Their offsets are in elements, not in bytes.
    in_elements: bool,
}

/// What a datatype is made of, with its constructor; `None`: it is predefined.
fn parts(rt: &Runtime, datatype: VirtDatatype) -> Result<Option<(Recipe, Vec<Part>)>> {
    let Some(recipe) = datatype::kept_recipe(rt, datatype).map(|recipe| recipe.clone()) else {
        let name = datatype::name_of(real_datatype(rt, datatype));
        return match PAIRS.contains(&&name[..]) {
            true => Err(refused(
                "pairs of values have no representation of the program's",
            )),
            false => Ok(None),
        };
    };
    let of = |at: usize| {
        recipe
            .contained
            .get(at)
            .copied()
            .map(handle)
            .ok_or(class(ERR_TYPE))
    };
    let parts = match combiner::blocks(&recipe, MOST_PIECES) {
        Some(Blocks::Same(blocks)) => vec![Part {
            of: of(0)?,
            blocks,
            in_elements: false,
        }],
        Some(Blocks::Elements(blocks)) => vec![Part {
            of: of(0)?,
            blocks,
            in_elements: true,
        }],
        Some(Blocks::Each(blocks)) => {
            let each = |(at, block)| {
                Ok(Part {
                    of: of(at)?,
                    blocks: vec![block],
                    in_elements: false,
                })
            };
            blocks
                .into_iter()
                .enumerate()
                .map(each)
                .collect::<Result<_>>()?
        }
        None => {
            return Err(refused(
                "a datatype of this kind has no representation of the program's",
            ));
        }
    };
    Ok(Some((recipe, parts)))
}

/// Where the data of a datatype lie in the file.
///
/// Displacements in elements grow or shrink with these; those in bytes are taken as they are (14.5.1).
pub(super) fn map_of(rt: &Runtime, number: u32, datatype: VirtDatatype) -> Result<TypeMap> {
    bounded_map(rt, number, datatype).map(|(map, _)| map)
}

/// The same, with the lower bound.
fn bounded_map(rt: &Runtime, number: u32, datatype: VirtDatatype) -> Result<(TypeMap, isize)> {
    let Some((recipe, parts)) = parts(rt, datatype)? else {
        let bytes = item_size(rt, number, datatype)? as usize;
        let (pieces, extent) = (vec![(0, bytes)], bytes as isize);
        return Ok((
            TypeMap {
                pieces,
                extent,
                size: bytes,
            },
            0,
        ));
    };
    let (mut pieces, mut size, mut bounds) = (Pieces::new(MOST_PIECES), 0, None::<(isize, isize)>);
    let mut element = 0;
    for part in parts {
        let (old, lower) = bounded_map(rt, number, part.of)?;
        element = old.extent;
        let unit = if part.in_elements { old.extent } else { 1 };
        for (offset, count) in part.blocks.into_iter().filter(|block| block.1 > 0) {
            let begin = offset * unit;
            pieces.add(&old, begin, count).ok_or(class(ERR_TYPE))?;
            size += count * old.size;
            let (low, high) = (begin + lower, begin + lower + count as isize * old.extent);
            bounds = Some(bounds.map_or((low, high), |(least, most)| {
                (least.min(low), most.max(high))
            }));
        }
    }
    let (lower, upper) = bounds.unwrap_or((0, 0));
    let (lower, extent) = match combiner::bounds(&recipe) {
        Some(Bounds::Bytes(lower, extent)) => (lower, extent),
        Some(Bounds::Elements(count)) => (0, count * element),
        None => (lower, upper - lower),
    };
    let pieces = pieces.0;
    Ok((
        TypeMap {
            pieces,
            extent,
            size,
        },
        lower,
    ))
}

/// The items of a datatype (its type signature): a predefined datatype and how many, in their order.
fn signature(rt: &Runtime, datatype: VirtDatatype) -> Result<Vec<(VirtDatatype, u64)>> {
    let Some((_, parts)) = parts(rt, datatype)? else {
        return Ok(vec![(datatype, 1)]);
    };
    let mut all: Vec<(VirtDatatype, u64)> = Vec::new();
    for part in parts {
        let one = signature(rt, part.of)?;
        let times: u64 = part.blocks.iter().map(|block| block.1 as u64).sum();
        if let [(item, count)] = one[..] {
            append(&mut all, item, count * times);
            continue;
        }
        for _ in 0..times {
            one.iter()
                .for_each(|&(item, count)| append(&mut all, item, count));
            if all.len() > MOST_PIECES {
                return Err(class(ERR_TYPE));
            }
        }
    }
    Ok(all)
}

fn append(all: &mut Vec<(VirtDatatype, u64)>, item: VirtDatatype, count: u64) {
    match all.last_mut() {
        Some((last, before)) if *last == item => *before += count,
        _ if count > 0 => all.push((item, count)),
        _ => {}
    }
}

/// Items that are alike.
#[derive(Clone, Copy, Debug)]
struct Run {
    count: u64,
    /// Bytes of an item in the file, and in memory.
    file: u64,
    memory: u64,
}

/// The items of an element.
#[derive(Debug, Default)]
struct Items {
    runs: Vec<Run>,
    /// In an element: items, their bytes in the file and in memory.
    whole: [u64; 3],
}

impl Items {
    fn new(runs: Vec<Run>) -> Items {
        let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum();
        let whole = [
            sum(|run| run.count),
            sum(|run| run.count * run.file),
            sum(|run| run.count * run.memory),
        ];
        Items { runs, whole }
    }

    /// Items, their bytes in the file and in memory until not all of a run fit in.
    fn up_to(&self, elements: u64, mut fitting: impl FnMut(&Run) -> u64) -> [u64; 3] {
        let mut sum = self.whole.map(|of_one| of_one * elements);
        for run in &self.runs {
            let count = fitting(run).min(run.count);
            sum = [
                sum[0] + count,
                sum[1] + count * run.file,
                sum[2] + count * run.memory,
            ];
            if count < run.count {
                break;
            }
        }
        sum
    }

    /// The whole items in so many bytes of the file.
    fn in_bytes(&self, bytes: u64) -> [u64; 3] {
        if self.whole[1] == 0 {
            return [0; 3];
        }
        let mut rest = bytes % self.whole[1];
        self.up_to(bytes / self.whole[1], |run| {
            let fit = (rest / run.file).min(run.count);
            rest -= fit * run.file;
            fit
        })
    }

    /// Bytes of the file before an item.
    fn place(&self, item: u64) -> u64 {
        let mut rest = item % self.whole[0].max(1);
        let sum = self.up_to(item / self.whole[0].max(1), |run| {
            let count = rest.min(run.count);
            rest -= count;
            count
        });
        sum[1]
    }
}

/// How elements of a datatype are converted.
pub(super) struct Conversion {
    function: u64,
    extra_state: u64,
    datatype: u64,
    items: Items,
}

impl Conversion {
    /// For reading, or for writing; `None`: data are in the file as in memory.
    pub(super) fn new(
        rt: &Runtime,
        number: u32,
        datatype: VirtDatatype,
        is_read: bool,
    ) -> Result<Option<Conversion>> {
        size_of(rt, datatype)?;
        let run = |(item, count)| {
            Ok(Run {
                count,
                file: item_size(rt, number, item)?,
                memory: size_of(rt, item)?,
            })
        };
        let runs = signature(rt, datatype)?
            .into_iter()
            .map(run)
            .collect::<Result<Vec<_>>>()?;
        let one = known::get(rt, number).ok_or(class(ERR_INTERN))?;
        let function = if is_read { one.read } else { one.write };
        if function == 0 {
            return match runs.iter().all(|run| run.file == run.memory) {
                true => Ok(None),
                false => Err(refused(
                    "MPI_CONVERSION_FN_NULL goes with extents in the file as in memory",
                )),
            };
        }
        Ok(Some(Conversion {
            function,
            extra_state: one.extra_state,
            datatype: abi::for_program(rt, HandleKind::Datatype, datatype.0 as u64),
            items: Items::new(runs),
        }))
    }

    /// Bytes of an element in the file.
    pub(super) fn size(&self) -> u64 {
        self.items.whole[1]
    }

    /// Bytes in memory of what so many bytes of the file hold.
    pub(super) fn in_memory(&self, bytes: u64) -> u64 {
        self.items.in_bytes(bytes)[2]
    }

    /// Converts the items of `filebuf` from the elements at `userbuf`, or to them.
    pub(super) fn run(&self, userbuf: *mut c_void, filebuf: *mut u8, bytes: u64) -> Result<()> {
        let items = self.items.in_bytes(bytes)[0];
        let mut position = 0;
        while position < items {
            let count = MOST_ITEMS.min(items - position);
            let file = filebuf as u64 + self.items.place(position);
            let arguments = [
                userbuf as u64,
                self.datatype,
                count,
                file,
                position,
                self.extra_state,
            ];
            // SAFETY: a conversion function of the program, with the arguments that the standard says; a handler called by the program runs.
            let rc = unsafe {
                call_program_with_six(self.function as *const c_void, arguments) as c_int
            };
            if rc != SUCCESS {
                return Err(class(ERR_CONVERSION));
            }
            position += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Items, Run};

    fn run(count: u64, file: u64, memory: u64) -> Run {
        Run {
            count,
            file,
            memory,
        }
    }

    #[test]
    fn only_whole_items_count() {
        let items = Items::new(vec![run(2, 8, 4), run(1, 3, 8)]);
        assert_eq!(items.whole, [3, 19, 16]);
        assert_eq!(items.in_bytes(19 * 5), [15, 95, 80]);
        assert_eq!(items.in_bytes(19 + 15), [4, 27, 20]);
        assert_eq!(items.in_bytes(19 + 18), [5, 35, 24]);
        assert_eq!(items.in_bytes(7), [0, 0, 0]);
    }

    #[test]
    fn items_have_their_places() {
        let items = Items::new(vec![run(2, 8, 4), run(1, 3, 8)]);
        assert_eq!(
            [0, 1, 2, 3, 5].map(|item| items.place(item)),
            [0, 8, 16, 19, 35]
        );
        assert_eq!(Items::new(Vec::new()).in_bytes(100), [0, 0, 0]);
    }
}
