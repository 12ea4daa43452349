//! Objects to which the recipe of a request refers.

use super::request_recipe::{Argument, RequestRecipe, share_of};
use crate::Runtime;
use crate::handles::{VirtComm, predefined_handle};
use crate::objects::{comm, datatype, op};

impl RequestRecipe {
    /// Removes the info object, which the program may free.
    ///
    /// Hints apply to the first creation only.
    pub fn remove_hints(&mut self, rt: &Runtime) {
        for argument in &mut self.arguments {
            if let Argument::Info(hints) = argument {
                *hints = predefined_handle(rt, "ompi_mpi_info_null") as u64;
            }
        }
    }

    /// Keeps the objects of the recipe even if the program frees them.
    pub fn retain(&self, rt: &Runtime) {
        self.each_datatype(|datatype| datatype::retain(rt, datatype));
        self.each_op(|op| op::retain(rt, op));
    }

    pub fn release(&self, rt: &Runtime) {
        self.each_datatype(|datatype| datatype::release(rt, datatype));
        self.each_op(|op| op::release(rt, op));
    }
}

/// Returns this worker's share of a started collective in the sum over all workers.
///
/// The shares of all members add up to zero. `number` distinguishes persistent collectives, which
/// members may start in different orders; it is zero for collectives that all members start in one
/// order.
pub fn share(rt: &Runtime, comm: VirtComm, number: u64) -> u64 {
    let Some((uid, me, next)) = comm::ring_neighbour(rt, comm) else {
        return 0;
    };
    share_of([me, next], uid, number)
}
