//! Handles of the tool interface that the program has. Plain data.

use super::written_values::Written;
use crate::objects::slots::Slots;
use std::ffi::c_int;

/// A handle of a control variable.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Cvar {
    pub name: Vec<u8>,
    /// The program's handle of the object that it is bound to; 0: none.
    pub object: u64,
    /// Number of its elements.
    pub count: c_int,
}

/// A handle of a performance variable.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Pvar {
    /// Index of its session.
    pub session: u32,
    pub name: Vec<u8>,
    /// Class of the variable, which is part of its name.
    pub class: c_int,
    pub object: u64,
    /// True if the program has started the variable.
    pub started: bool,
}

#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Tool {
    /// Number of initialisations less number of finalisations.
    pub users: u32,
    /// Handles of control variables.
    pub cvars: Slots<Cvar>,
    pub sessions: Slots<()>,
    /// Handles of performance variables.
    pub pvars: Slots<Pvar>,
    /// Values written to control variables.
    pub written: Written,
}

impl Tool {
    pub const NONE: Tool = Tool {
        users: 0,
        cvars: Slots::NONE,
        sessions: Slots::NONE,
        pvars: Slots::NONE,
        written: Written::NONE,
    };
}
