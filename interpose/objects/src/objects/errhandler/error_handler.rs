//! Recipes of error handlers, and what an error leads to.

/// Kind of objects that an error handler of the program may be set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Kind {
    Comm,
    File,
    Win,
    Session,
}

/// An error handler of the program.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Errhandler {
    /// Kind of objects that it may be set for.
    pub kind: Kind,
    /// Address of the program's function.
    pub function: u64,
    /// Number of handles that the program has.
    ///
    /// `MPI_Comm_get_errhandler` and `MPI_File_get_errhandler` give one more, which is to be freed
    /// as well.
    pub handles: u32,
}

/// Action that follows an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The end of the job (`MPI_ERRORS_ARE_FATAL`).
    Fatal,
    /// The end of the communicator's processes (`MPI_ERRORS_ABORT`).
    Abort,
    Return,
    /// `Fatal`, since no exception gets through the layer.
    ///
    /// `MPI::ERRORS_THROW_EXCEPTIONS` of Open MPI 4.
    Throw,
    /// A call of the program's function at this address.
    Call(u64),
}
