//! Recipes of error handlers, and actions that follow an error.

/// Kind of objects that an error handler of the program may be set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum ErrhandlerKind {
    Comm,
    File,
    Win,
    Session,
}

/// Error handler of the program.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Errhandler {
    /// Kind of objects for which the error handler may be set.
    pub kind: ErrhandlerKind,
    /// Address of the program's function.
    pub function: u64,
    /// Number of handles that the program has.
    ///
    /// Each call of `MPI_Comm_get_errhandler`, or of the procedure for another kind of object,
    /// returns one more handle, which the program must free.
    pub handles: u32,
}

/// Action that follows an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorAction {
    /// End of the job (`MPI_ERRORS_ARE_FATAL`).
    Fatal,
    /// End of the communicator's processes (`MPI_ERRORS_ABORT`).
    Abort,
    Return,
    /// `MPI::ERRORS_THROW_EXCEPTIONS` of Open MPI 4.
    ///
    /// Ends the job as `Fatal` does, since no exception can pass through the runtime.
    Throw,
    /// Call of the program's function at this address.
    Call(u64),
}
