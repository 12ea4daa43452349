//! Objects that the recipe of a request refers to.

use super::request_recipe::{Argument, Recipe, share_of};
use crate::Runtime;
use crate::handles::{VirtComm, predefined_handle};
use crate::objects::{comm, datatype, op};

impl Recipe {
    /// The info object may be freed; hints are for the first time only.
    pub fn forget_hints(&mut self, rt: &Runtime) {
        for argument in &mut self.arguments {
            if let Argument::Info(hints) = argument {
                *hints = predefined_handle(rt, "ompi_mpi_info_null") as u64;
            }
        }
    }

    /// What it refers to stays, though the program may free it.
    pub fn retain(&self, rt: &Runtime) {
        self.each_datatype(|it| datatype::retain(rt, it));
        self.each_op(|it| op::retain(rt, it));
    }

    pub fn release(&self, rt: &Runtime) {
        self.each_datatype(|it| datatype::release(rt, it));
        self.each_op(|it| op::release(rt, it));
    }
}

/// What the start of a collective adds to the sum of all members: nothing, when each of them has
/// started it.
///
/// `number` is 0 for those that are started in the same order everywhere.
pub fn share(rt: &Runtime, comm: VirtComm, number: u64) -> u64 {
    let Some((uid, me, next)) = comm::neighbour(rt, comm) else {
        return 0;
    };
    share_of([me, next], uid, number)
}
