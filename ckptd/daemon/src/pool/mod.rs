//! The pools of spares of the jobs on a node, as a state machine: no sockets, no clock, no threads.
//!
//! A *job* has one pool. Spares come into it ([`Pools::register`]), say from time to time that they
//! live ([`Pools::beat`]), and are *leased* to the parts of dead workers ([`Pools::lease`]). A
//! lease is confirmed when its spare says that it plays the part ([`Pools::playing`]), which takes
//! it out of the pool; one that is not confirmed goes back, be it that the next round of leases
//! begins, that its time is up, or that it is given back.
//!
//! Every round of leases of a job has a number, which grows. The same round gets the same answer
//! again, however often it asks, and an earlier one is refused; every ticket and lease has a token
//! that is never given out twice. So requests that come late, doubled or out of order cannot lease
//! a spare twice.
//!
//! Time is passed in: `now` is the time since some moment, and never goes back. Nothing happens by
//! itself; [`Pools::tick`] does what is due. What has happened is told as [`Happening`]s.
//!
//! Nothing here assumes how ranks were started, or that there is one launcher.

mod happening;
mod lease;
mod pool_of_job;
mod pools;
mod rules;

pub use happening::Happening;
pub use pool_of_job::{Job, SpareView};
pub use pools::Pools;
pub use rules::{JobKey, Rules};
