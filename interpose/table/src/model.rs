//! Contents of the call table: procedures and the other symbols of libmpi.
//!
//! The classes follow the chapters of the MPI 4.1 standard. The kinds of parameters follow its
//! language-independent bindings (appendix A), as far as a library between program and MPI library
//! must distinguish them.

use crate::kind::ParamKind;
use crate::named_enum::named;

named! {
    /// Subject of a procedure.
    Class {
        /// Start, end, versions, time and error classes (chapters 9 and 11).
        Environment = "Environment",
        /// Memory and addresses: allocation, attached buffers, `MPI_Get_address`.
        Memory = "Memory",
        /// Blocking and non-blocking sends and receives, and starts of persistent ones (chapter 3).
        PointToPoint = "PointToPoint",
        /// Persistent sends and receives.
        PersistentInit = "PersistentInit",
        /// Partitioned communication (chapter 4).
        Partitioned = "Partitioned",
        /// Waits, tests, cancel and generalized requests.
        Completion = "Completion",
        /// Probes, including matched ones.
        Probe = "Probe",
        /// Queries and changes of a status object, which have no handle.
        Status = "Status",
        Pack = "Pack",
        /// Blocking collectives, including those on neighbourhoods (chapters 6 and 8).
        Collective = "Collective",
        NonblockingCollective = "NonblockingCollective",
        PersistentCollective = "PersistentCollective",
        /// Constructors of communicators (chapters 7 and 8).
        CommConstructor = "CommConstructor",
        /// Name, size, info of a communicator.
        Comm = "Comm",
        /// Queries of virtual topologies.
        Topology = "Topology",
        /// Groups, except for their destructor.
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
        /// Conversion between C and Fortran handles and statuses (chapter 19).
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
        /// Generated: persistent collective, whose request is recreated from its arguments.
        Persistent = "persistent",
        /// Generated: one call of a function of the runtime's `calls`.
        ///
        /// The function receives the remaining words of the column and all arguments.
        Call = "call",
        /// Generated: a function of `calls` stores the handle that the library creates.
        Construct = "construct",
        /// Generated: a function of `calls` stores a datatype that is derived from another one.
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
    /// Property for which generated code or the runtime treats a procedure specially.
    Rule {
        /// May wait for other jobs or programs without polling for a cut.
        ///
        /// Absent if the handler itself reports such waits.
        Waits = "waits",
        /// Waits for no process, and changes no state that other processes can observe.
        Local = "local",
        /// Counted by MPICH, so that the first calls on each communicator are recorded.
        Counted = "counted",
        /// Writes its receive buffer at the root only.
        ToRoot = "to_root",
        /// Reads its arrays at the root only.
        AtRoot = "at_root",
        /// Writes integers that describe a datatype; the combiner determines their meaning.
        Contents = "contents",
        /// Also exported as `MPIX_…`, the name in libraries older than MPI 4.0.
        Older = "older",
        /// Executed by a replay of the journal, because it returns memory.
        Executed = "executed",
        /// Receives a message before it returns.
        Receives = "receives",
    }
}

named! {
    /// Direction in which a parameter's value is passed.
    Direction {
        In = "In",
        Out = "Out",
        InOut = "InOut",
    }
}

named! {
    /// Special properties of a procedure.
    Flag {
        /// Deprecated in MPI 4.1 or an earlier version.
        Deprecated = "deprecated",
        /// Removed from the standard.
        Removed = "removed",
        /// Missing in Open MPI 5.0.
        Newer = "newer",
        /// Has a twin with numbers of 64 bits.
        Large = "large",
        /// Takes further arguments, which are ignored.
        Varargs = "varargs",
        /// Has no `P` name.
        NoProfile = "no_profile",
        /// Returns before its work is done.
        Nonblocking = "nonblocking",
        /// Creates an inactive persistent request.
        Persistent = "persistent",
    }
}

named! {
    /// Types of MPI handles.
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
    /// Returns the type of handle of a C type.
    pub fn from_c_type(c_type: &str) -> Option<Handle> {
        Handle::from_name(c_type.strip_prefix("MPI_")?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the standard.
    pub name: String,
    /// C type, with arrays written as pointers; `int[3]*` is an array of triples.
    pub c_type: String,
    pub kind: ParamKind,
    /// Direction of the value.
    pub direction: Direction,
    /// Number of elements; for a buffer, number of bytes ([`crate::length_terms`]).
    pub length: Option<String>,
}

/// Row of `procedures.tbl`; its index in the table is its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    pub name: String,
    /// Subject of the procedure.
    pub class: Class,
    /// Origin of its handler.
    pub source: Source,
    /// Path of a function in `calls`, and arguments for the function.
    pub arguments: Vec<String>,
    /// Properties for which generated code or the runtime treats the procedure specially.
    pub rules: Vec<Rule>,
    /// Module with the Fortran binding of understudy; `generated` if the binding is generated.
    pub fortran: Option<String>,
    /// C type of the result.
    pub returns: String,
    pub flags: Vec<Flag>,
    /// Parameters, without variable arguments.
    pub parameters: Vec<Parameter>,
}

impl Procedure {
    /// Returns true if the row has this flag.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Returns true if the procedure has this property.
    pub fn is(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }

    /// Returns the name that the real library always exports.
    pub fn real_name(&self) -> String {
        if self.has(Flag::NoProfile) {
            self.name.clone()
        } else {
            format!("P{}", self.name)
        }
    }

    /// Returns all names under which the library exports the procedure.
    pub fn exported_names(&self) -> Vec<String> {
        let mut names = vec![self.name.clone()];
        if !self.has(Flag::NoProfile) {
            names.push(self.real_name());
        }
        names
    }

    /// Returns the names with `MPIX_` that persistent collectives have in Open MPI 4.
    ///
    /// Open MPI 4 had the procedures before MPI 4.0 did, and its Fortran bindings call these names.
    pub fn older_names(&self) -> Vec<String> {
        match self.name.strip_prefix("MPI_") {
            Some(rest) if self.is(Rule::Older) => {
                vec![format!("MPIX_{rest}"), format!("PMPIX_{rest}")]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the first communicator parameter, whose error handler is called for an error.
    pub fn communicator(&self) -> Option<&Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.c_type == "MPI_Comm")
    }
}

named! {
    /// Treatment of a call of a function that is no MPI procedure.
    Policy {
        /// Always passed to the real library, because the function accesses no handle.
        Forward = "forward",
        /// Predefined callback of Fortran (MPI 4.1, 7.7): like `forward`, but missing in MPICH's
        /// libmpi.
        Callback = "callback",
        /// Passed to the real library only without protection.
        Refuse = "refuse",
        /// Served by a handler of the same name in the runtime.
        Serve = "serve",
    }
}

/// An exported function that is no MPI procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// `T` for a strong, `W` for a weak symbol.
    pub binding: char,
    /// Treatment of a call.
    pub policy: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub name: String,
    /// `D` for data, `B` for zeroed data, `R` for read-only data.
    pub section: char,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes, a power of two that divides the size.
    pub alignment: usize,
    /// Type of the predefined handle that points to the object.
    pub predefined: Option<Handle>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Rows of `procedures.tbl`, which have the first slots.
    pub procedures: Vec<Procedure>,
    /// Function rows of `exports.tbl`, which have the remaining slots.
    pub functions: Vec<Function>,
    /// Data rows of `exports.tbl`.
    pub data: Vec<Data>,
    /// Names of thread-local objects, which cannot be replaced.
    pub thread_locals: Vec<String>,
}

impl Table {
    /// Returns the number of slots.
    pub fn slot_count(&self) -> usize {
        self.procedures.len() + self.functions.len()
    }

    /// Returns the name of each slot.
    pub fn slot_names(&self) -> impl Iterator<Item = &str> {
        let procedures = self
            .procedures
            .iter()
            .map(|procedure| procedure.name.as_str());
        procedures.chain(self.functions.iter().map(|function| function.name.as_str()))
    }

    /// Returns the row of this name.
    pub fn procedure(&self, name: &str) -> Option<&Procedure> {
        self.procedures
            .iter()
            .find(|procedure| procedure.name == name)
    }
}
