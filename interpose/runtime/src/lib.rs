//! The *runtime*: everything that must not roll back with the program, in a namespace and a zone of
//! its own.
//!
//! ```text
//!   thunk → entry::ENTRIES → calls::* → { handles, objects, requests, cut, recovery } → real MPI
//! ```
//!
//! - [`boot`], [`told`], [`events`], [`fault`], [`sys`]: start, settings, reports, tests;
//! - [`entry`], [`arch`]: the way in and out; [`calls`]: one handler per MPI procedure, most are
//!   generated;
//! - [`abi`]: handles of programs of another ABI than Open MPI's;
//! - [`handles`], [`objects`], [`requests`], [`early`]: what the program holds, and how to make it
//!   again; [`posting`], [`completion`]: its beginning and its end; [`exposure`]: general epochs of
//!   windows;
//! - [`user`]: state of the program side except its memory, which `understudy_image` handles;
//! - [`job`], `spare`, [`world`], [`domains`], [`placement`]: workers and spares, where they are,
//!   who holds whose copy;
//! - [`fatal`]: what this process dies of;
//! - [`schedule`], [`cut`], [`drain`], [`checkpoint`], [`disk`]: epochs; [`recovery`]: after a
//!   failure;
//! - [`overdue`]: tells of phases without checkpoints;
//! - [`own_messages`], [`rounds`], [`gather`]: how runtimes talk to each other without waiting.
//!
//! docs/ARCHITECTURE.md has them from the top down; imports point downwards.

pub mod boot;
pub mod calls;
pub mod checkpoint;
pub mod completion;
pub mod cut;
pub mod drain;
pub mod entry;
pub mod job;
pub mod protection;
pub mod raise;
mod spare;

use understudy_base::{
    arch, attention, cell, errors, events, fault, gather, generated, shim, sys, told,
};
use understudy_copies::{
    clock, copies, ending, headroom, marks, overdue, recompute, schedule, step_back,
};
use understudy_job::{daemon, disk, domains, own_messages, renewal, rounds, world};
use understudy_journal::journal;
use understudy_objects::{abi, early, exposure, handles, objects, posting, rendezvous, requests};
use understudy_program::{fatal, user};
use understudy_recovery::{DOOR, Runtime, attempt, recovery, rehearsal};
