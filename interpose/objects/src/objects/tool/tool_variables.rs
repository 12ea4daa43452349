//! Handles of the tool interface that the program has. Plain data.

use super::written_values::Written;
use crate::objects::slots::Slots;
use std::ffi::c_int;

/// Handle of a control variable.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Cvar {
    pub name: Vec<u8>,
    /// Program's handle of the object that the variable is bound to; zero if unbound.
    pub object: u64,
    /// Number of elements of the variable.
    pub count: c_int,
}

/// Handle of a performance variable.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Pvar {
    /// Index of the session.
    pub session: u32,
    pub name: Vec<u8>,
    /// Class of the variable, which is part of its identity.
    pub class: c_int,
    pub object: u64,
    /// True if the program has started the variable.
    pub started: bool,
}

#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Tool {
    /// Number of initialisations minus number of finalisations.
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
