//! Recipes of error handlers, and actions that follow an error.

/// Kind of objects that an error handler of the program may be set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Kind {
    Comm,
    File,
    Win,
    Session,
}

/// Error handler of the program.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Errhandler {
    /// Kind of objects for which the error handler may be set.
    pub kind: Kind,
    /// Address of the program's function.
    pub function: u64,
    /// Number of handles that the program has.
    ///
    /// `MPI_Comm_get_errhandler` and `MPI_File_get_errhandler` return one more handle, which the
    /// program must free as well.
    pub handles: u32,
}

/// Action that follows an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// End of the job (`MPI_ERRORS_ARE_FATAL`).
    Fatal,
    /// End of the communicator's processes (`MPI_ERRORS_ABORT`).
    Abort,
    Return,
    /// Same as `Fatal`, since no exception can pass through the runtime.
    ///
    /// `MPI::ERRORS_THROW_EXCEPTIONS` of Open MPI 4.
    Throw,
    /// Call of the program's function at this address.
    Call(u64),
}
