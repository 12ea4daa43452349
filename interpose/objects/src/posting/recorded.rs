//! Creation and start of requests with recipes, by the program and after a rollback.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::errors::ERR_INTERN;
use crate::generated::{Proc, make_request};
use crate::handles::{
    VirtComm, VirtDatatype, VirtInfo, VirtOp, real_comm, real_datatype, real_info, real_op,
};
use crate::requests::{self, Argument, Recipe};
use std::any::Any;
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealDatatype, RealRequest};

/// Arrays that the library reads until the request is freed.
#[derive(Default)]
struct Arrays {
    integers: Vec<Vec<c_int>>,
    longs: Vec<Vec<i64>>,
    datatypes: Vec<Vec<RealDatatype>>,
}

impl Arrays {
    /// Returns the argument in the form for the library.
    fn word(&mut self, rt: &Runtime, argument: &Argument) -> u64 {
        let pointer = |handle: u64| handle as *mut c_void;
        match argument {
            Argument::Word(word) => *word,
            Argument::Datatype(handle) => {
                real_datatype(rt, VirtDatatype(pointer(*handle))).0 as u64
            }
            Argument::Op(handle) => real_op(rt, VirtOp(pointer(*handle))).0 as u64,
            Argument::Comm(handle) => real_comm(rt, VirtComm(pointer(*handle))).0 as u64,
            Argument::Info(handle) => real_info(rt, VirtInfo(pointer(*handle))).0 as u64,
            Argument::Integers(all) => place(&mut self.integers, all.clone()),
            Argument::Longs(all) => place(&mut self.longs, all.clone()),
            Argument::Datatypes(all) => {
                let real = |&handle: &u64| real_datatype(rt, VirtDatatype(pointer(handle)));
                place(&mut self.datatypes, all.iter().map(real).collect())
            }
        }
    }
}

/// Keeps an array, and returns its address.
fn place<T>(arrays: &mut Vec<Vec<T>>, array: Vec<T>) -> u64 {
    let place = array.as_ptr() as u64;
    arrays.push(array);
    place
}

/// Creates the real request.
///
/// Returns it with the arrays that must exist until it is freed, and the return code.
pub fn make(rt: &Runtime, recipe: &Recipe) -> (RealRequest, Box<dyn Any + Send>, c_int) {
    let mut request = RealRequest(std::ptr::null_mut());
    let mut arrays = Arrays::default();
    let words: Vec<u64> = recipe
        .arguments
        .iter()
        .map(|argument| arrays.word(rt, argument))
        .collect();
    let procedure = Proc::from_slot(u32::from(recipe.slot));
    // SAFETY: the arguments that were recorded for this procedure.
    let rc =
        procedure.and_then(|procedure| unsafe { make_request(procedure, &words, &mut request) });
    (request, Box::new(arrays), rc.unwrap_or(ERR_INTERN))
}

/// Counts the start of a request.
pub fn is_started(rt: &Runtime, index: u32, number: u64) {
    let Some(recipe) = requests::recipe(rt, number).map(|recipe| recipe.clone()) else {
        return;
    };
    requests::count_started(rt, recipe.share);
    let procedure = Proc::from_slot(u32::from(recipe.slot));
    if let (Some(Proc::MPI_Psend_init), [_, Argument::Word(parts), ..]) =
        (procedure, &recipe.arguments[..])
    {
        requests::open_partitions(rt, index, *parts);
    }
}
