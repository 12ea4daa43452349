//! A node or replicas are lost: the job continues from replicas of other failure domains.
//!
//! A loss of all replicas of a worker is reported, and ends the job.

mod drain;
mod host_networks;
mod hosts;
mod redundancy;
mod remote_hangs;
mod stalls;
