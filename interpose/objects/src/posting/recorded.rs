//! Creation of requests with recipes, and counts of their starts.
//!
//! The program creates such requests, and a rollback creates them once more.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::errors::ERR_INTERN;
use crate::generated::{Proc, make_request};
use crate::handles::{
    VirtComm, VirtDatatype, VirtInfo, VirtOp, real_comm, real_datatype, real_info, real_op,
};
use crate::requests::{self, Argument, RequestRecipe};
use std::any::Any;
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealDatatype, RealRequest};

/// Arrays that the library reads until the request is freed.
#[derive(Default)]
struct RequestArrays {
    integers: Vec<Vec<c_int>>,
    longs: Vec<Vec<i64>>,
    datatypes: Vec<Vec<RealDatatype>>,
}

impl RequestArrays {
    /// Returns the word to pass to the MPI library.
    ///
    /// The word is a value, a real handle, or the address of a stored array.
    fn argument_word(&mut self, rt: &Runtime, argument: &Argument) -> u64 {
        let pointer = |handle: u64| handle as *mut c_void;
        match argument {
            Argument::Word(value) => *value,
            Argument::Datatype(handle) => {
                real_datatype(rt, VirtDatatype(pointer(*handle))).0 as u64
            }
            Argument::Op(handle) => real_op(rt, VirtOp(pointer(*handle))).0 as u64,
            Argument::Comm(handle) => real_comm(rt, VirtComm(pointer(*handle))).0 as u64,
            Argument::Info(handle) => real_info(rt, VirtInfo(pointer(*handle))).0 as u64,
            Argument::Integers(all) => store_array(&mut self.integers, all.clone()),
            Argument::Longs(all) => store_array(&mut self.longs, all.clone()),
            Argument::Datatypes(all) => {
                let real = |&handle: &u64| real_datatype(rt, VirtDatatype(pointer(handle)));
                store_array(&mut self.datatypes, all.iter().map(real).collect())
            }
        }
    }
}

/// Stores an array, and returns its address.
fn store_array<T>(arrays: &mut Vec<Vec<T>>, array: Vec<T>) -> u64 {
    let address = array.as_ptr() as u64;
    arrays.push(array);
    address
}

/// Creates the real request.
///
/// Returns the request, the arrays that must exist until the request is freed, and the return
/// code.
pub fn create_recorded(
    rt: &Runtime,
    recipe: &RequestRecipe,
) -> (RealRequest, Box<dyn Any + Send>, c_int) {
    let mut request = RealRequest(std::ptr::null_mut());
    let mut arrays = RequestArrays::default();
    let words: Vec<u64> = recipe
        .arguments
        .iter()
        .map(|argument| arrays.argument_word(rt, argument))
        .collect();
    let procedure = Proc::from_slot(u32::from(recipe.slot));
    // SAFETY: the arguments were recorded in a call of this procedure, in which MPI required the
    // program to pass valid ones; copies of arrays are in `arrays`.
    let rc =
        procedure.and_then(|procedure| unsafe { make_request(procedure, &words, &mut request) });
    (request, Box::new(arrays), rc.unwrap_or(ERR_INTERN))
}

/// Adds a started request to the sum that a cut checks.
///
/// `index` is the entry in the request table, `number` the key of its recipe. A partitioned send
/// becomes open until all its partitions are ready.
pub fn count_start(rt: &Runtime, index: u32, number: u64) {
    let Some(recipe) = requests::recipe(rt, number).map(|recipe| recipe.clone()) else {
        return;
    };
    requests::count_started(rt, recipe.share);
    let procedure = Proc::from_slot(u32::from(recipe.slot));
    if let (Some(Proc::MPI_Psend_init), [_, Argument::Word(partitions), ..]) =
        (procedure, &recipe.arguments[..])
    {
        requests::record_start(rt, index, *partitions);
    }
}
