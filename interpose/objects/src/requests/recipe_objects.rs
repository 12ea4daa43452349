//! Objects to which the recipe of a request refers.

use super::request_recipe::{Argument, Recipe, share_of};
use crate::Runtime;
use crate::handles::{VirtComm, predefined_handle};
use crate::objects::{comm, datatype, op};

impl Recipe {
    /// Removes the info object, which the program may free.
    ///
    /// Hints apply to the first creation only.
    pub fn forget_hints(&mut self, rt: &Runtime) {
        for argument in &mut self.arguments {
            if let Argument::Info(hints) = argument {
                *hints = predefined_handle(rt, "ompi_mpi_info_null") as u64;
            }
        }
    }

    /// Keeps the objects of the recipe even if the program frees them.
    pub fn retain(&self, rt: &Runtime) {
        self.each_datatype(|it| datatype::retain(rt, it));
        self.each_op(|it| op::retain(rt, it));
    }

    pub fn release(&self, rt: &Runtime) {
        self.each_datatype(|it| datatype::release(rt, it));
        self.each_op(|it| op::release(rt, it));
    }
}

/// Returns the share of a started collective in the sum over all workers.
///
/// The shares of all members sum up to zero. `number` is 0 for collectives that all members start
/// in one order.
pub fn share(rt: &Runtime, comm: VirtComm, number: u64) -> u64 {
    let Some((uid, me, next)) = comm::neighbour(rt, comm) else {
        return 0;
    };
    share_of([me, next], uid, number)
}
