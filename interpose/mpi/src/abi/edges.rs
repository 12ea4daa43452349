//! Functions that translate the calls of each procedure, generated from the call table.
#![allow(unsafe_code)]

use super::abi_edge::Edge;
use super::arguments::{
    Direction, Handles, Integers, displacement, number, pointer, sum_of, value,
};
use super::foreign_abi::{Domain, Pointer};
use super::special::{contents, copy_status};
use super::statuses::Statuses;
use crate::real_types::HandleKind;
use std::ffi::c_int;

include!("../generated/edges.rs");
