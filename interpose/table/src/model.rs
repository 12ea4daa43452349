//! What the table says about a procedure and about the other symbols of libmpi.
//!
//! The classes follow the chapters of the MPI 4.1 standard, the kinds of parameters its
//! language-independent bindings (appendix A), as far as a layer between program and library must
//! tell them apart.

use crate::kind::ParamKind;
use crate::named::named;

named! {
    /// What a procedure is about.
    Class {
        /// Start, end, versions, time and error classes (chapters 9 and 11).
        Environment = "Environment",
        /// Memory and addresses: allocation, attached buffers, `MPI_Get_address`.
        Memory = "Memory",
        /// Sends and receives, blocking or not, and starts of persistent ones (chapter 3).
        PointToPoint = "PointToPoint",
        /// Persistent sends and receives.
        PersistentInit = "PersistentInit",
        /// Partitioned communication (chapter 4).
        Partitioned = "Partitioned",
        /// Waits, tests, cancel and generalized requests.
        Completion = "Completion",
        /// Probes, matched or not.
        Probe = "Probe",
        /// Queries and changes of a status object, which hold no handle.
        Status = "Status",
        Pack = "Pack",
        /// Blocking collectives, also those on neighbourhoods (chapters 6 and 8).
        Collective = "Collective",
        NonblockingCollective = "NonblockingCollective",
        PersistentCollective = "PersistentCollective",
        /// Make a communicator (chapters 7 and 8).
        CommConstructor = "CommConstructor",
        /// Name, size, info of a communicator.
        Comm = "Comm",
        /// Queries of virtual topologies.
        Topology = "Topology",
        /// Groups but for their destructor.
        Group = "Group",
        /// Datatypes: constructors and queries (chapter 5).
        Datatype = "Datatype",
        Op = "Op",
        /// Error handlers of communicators.
        Errhandler = "Errhandler",
        /// Info objects (chapter 10).
        Info = "Info",
        /// Attribute caching of communicators and datatypes.
        Attribute = "Attribute",
        Destructor = "Destructor",
        /// Between C and Fortran handles and statuses (chapter 19).
        Conversion = "Conversion",
        /// Windows and one-sided communication (chapter 12).
        Rma = "Rma",
        /// Files (chapter 14).
        Io = "Io",
        Session = "Session",
        /// Process creation, ports and names (chapter 11).
        Dynamic = "Dynamic",
        /// The tool information interface (chapter 15).
        Tool = "Tool",
        /// Fault tolerance (Open MPI's MPIX extension).
        Fault = "Fault",
    }
}

named! {
    /// Origin of the handler that serves a procedure.
    Source {
        /// Generated: translates handles and calls the library.
        Generic = "generic",
        /// Generated: blocking collective, before which a checkpoint may be taken.
        Collective = "collective",
        /// Generated: non-blocking collective, whose request is recorded.
        Nonblocking = "nonblocking",
        /// Generated: persistent collective, whose request is made again from its arguments.
        Persistent = "persistent",
        /// Generated: one call of a function of the runtime's `calls`.
        ///
        /// The function gets the further words of the column and all arguments.
        Call = "call",
        /// Generated: a function of `calls` stores the handle that the library makes.
        Construct = "construct",
        /// Generated: a function of `calls` stores the datatype that is made of another one.
        Derive = "derive",
        /// Generated: a function of `calls` queries the tool interface.
        Tool = "tool",
        /// Generated: conversion of a handle to Fortran's number.
        ToFortran = "to_fortran",
        /// Generated: conversion of Fortran's number to a handle.
        FromFortran = "from_fortran",
        /// Handwritten: `crate::calls::NAME` of the runtime.
        Manual = "manual",
        /// Generated: reports an error while protection is on.
        Refused = "refused",
    }
}

named! {
    /// Property of a procedure for which generated code or the runtime has a rule.
    Rule {
        /// May wait for other programs without polling for a cut.
        ///
        /// Handlers that report such waits themselves do not have the rule.
        Waits = "waits",
        /// Waits for no process, and leaves alone what other processes know of.
        Local = "local",
        /// Counted by MPICH, whose first calls on a communicator are remembered.
        Counted = "counted",
        /// Fills its receive buffer at the root only.
        ToRoot = "to_root",
        /// Reads its arrays at the root only.
        AtRoot = "at_root",
        /// Writes integers that describe a datatype, whose meaning its combiner decides.
        Contents = "contents",
        /// Exported as `MPIX_…`, too, by libraries older than MPI 4.0.
        Older = "older",
        /// Called again by a replay of the journal, since it gives out memory.
        Executed = "executed",
        /// Receives a message before it returns.
        Receives = "receives",
    }
}

named! {
    /// Which way a parameter's value goes.
    Direction {
        In = "In",
        Out = "Out",
        InOut = "InOut",
    }
}

named! {
    /// Peculiarities of a procedure.
    Flag {
        /// Deprecated in MPI 4.1 or before.
        Deprecated = "deprecated",
        /// No longer in the standard.
        Removed = "removed",
        /// Not in Open MPI 5.0.
        Newer = "newer",
        /// Has a twin with numbers of 64 bits.
        Large = "large",
        /// Takes further arguments, which are ignored.
        Varargs = "varargs",
        /// Has no `P` name.
        NoProfile = "no_profile",
        /// Returns before its work is done.
        Nonblocking = "nonblocking",
        /// Makes an inactive persistent request.
        Persistent = "persistent",
    }
}

named! {
    /// The kinds of MPI handles.
    Handle {
        Comm = "Comm",
        Group = "Group",
        Request = "Request",
        Datatype = "Datatype",
        Op = "Op",
        Errhandler = "Errhandler",
        Info = "Info",
        Message = "Message",
        Win = "Win",
        File = "File",
        Session = "Session",
    }
}

impl Handle {
    /// The handle of that C type.
    pub fn from_c_type(c_type: &str) -> Option<Handle> {
        Handle::from_name(c_type.strip_prefix("MPI_")?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name as in the standard.
    pub name: String,
    /// C type, arrays written as pointers; `int[3]*` is an array of triples.
    pub c_type: String,
    pub kind: ParamKind,
    /// Which way it goes.
    pub direction: Direction,
    /// Number of elements (of bytes for a buffer, a datatype standing for its extent).
    pub length: Option<String>,
}

/// A row of `procedures.tbl`. Its index in the table is its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    pub name: String,
    /// What it is about.
    pub class: Class,
    /// Origin of its handler.
    pub source: Source,
    /// Words after the source: the function of `calls`, and what the function gets besides.
    pub arguments: Vec<String>,
    /// Properties for which there are rules.
    pub rules: Vec<Rule>,
    /// Module of its Fortran binding; `generated` for a generated one.
    pub fortran: Option<String>,
    /// C type of the result.
    pub returns: String,
    pub flags: Vec<Flag>,
    /// Parameters without the dots of variable arguments.
    pub parameters: Vec<Parameter>,
}

impl Procedure {
    /// Whether the row has this flag.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Returns true if a rule applies to the procedure.
    pub fn is(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }

    /// The name under which the real library always has it.
    pub fn real_name(&self) -> String {
        if self.has(Flag::NoProfile) {
            self.name.clone()
        } else {
            format!("P{}", self.name)
        }
    }

    /// Every name the library exports it under.
    pub fn exported_names(&self) -> Vec<String> {
        let mut names = vec![self.name.clone()];
        if !self.has(Flag::NoProfile) {
            names.push(self.real_name());
        }
        names
    }

    /// The names that Open MPI 4 has for it, from before MPI 4.0 had persistent collectives; its
    /// Fortran bindings call them.
    pub fn older_names(&self) -> Vec<String> {
        match self.name.strip_prefix("MPI_") {
            Some(rest) if self.is(Rule::Older) => {
                vec![format!("MPIX_{rest}"), format!("PMPIX_{rest}")]
            }
            _ => Vec::new(),
        }
    }

    /// The first communicator handed in, whose error handler an error belongs to.
    pub fn communicator(&self) -> Option<&Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.c_type == "MPI_Comm")
    }
}

named! {
    /// What happens to a call of a function that is no MPI procedure.
    Policy {
        /// It always reaches the real library: it looks into no handle.
        Forward = "forward",
        /// Predefined callback of Fortran (MPI 4.1, 7.7): as `forward`; MPICH's libmpi has none.
        Callback = "callback",
        /// It reaches the real library only without protection.
        Refuse = "refuse",
        /// The runtime has a handler of its name.
        Serve = "serve",
    }
}

/// An exported function that is no MPI procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// `T` strong, `W` weak.
    pub binding: char,
    /// What a call of it leads to.
    pub policy: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub name: String,
    /// `D` data, `B` zeroed, `R` read-only.
    pub section: char,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes, a power of two that divides the size.
    pub alignment: usize,
    /// Which predefined handle it is the target of.
    pub predefined: Option<Handle>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Rows of `procedures.tbl`: the first slots.
    pub procedures: Vec<Procedure>,
    /// Function rows of `exports.tbl`: the slots after them.
    pub functions: Vec<Function>,
    /// Data rows of `exports.tbl`.
    pub data: Vec<Data>,
    /// Names of thread-local objects, which cannot be stood in for.
    pub thread_locals: Vec<String>,
}

impl Table {
    /// How many slots there are.
    pub fn slot_count(&self) -> usize {
        self.procedures.len() + self.functions.len()
    }

    /// The name each slot is known by.
    pub fn slot_names(&self) -> impl Iterator<Item = &str> {
        let procedures = self
            .procedures
            .iter()
            .map(|procedure| procedure.name.as_str());
        procedures.chain(self.functions.iter().map(|function| function.name.as_str()))
    }

    /// The row of that name.
    pub fn procedure(&self, name: &str) -> Option<&Procedure> {
        self.procedures
            .iter()
            .find(|procedure| procedure.name == name)
    }
}
