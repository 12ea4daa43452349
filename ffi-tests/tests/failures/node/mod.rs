//! A node fails, with its replicas: the job continues from replicas of other failure domains.
//!
//! A loss of all replicas is reported, and ends the job.

mod hosts;
mod redundancy;
