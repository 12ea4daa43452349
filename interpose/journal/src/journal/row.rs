//! Rows of the call table: arguments and outputs of procedures and clock functions.
//!
//! An output consists of units, whose number is the product of the output's amounts. For example,
//! the receive buffer of `MPI_Gather` at the root consists of units of the type `recvtype`. Their
//! number is `recvcount` times the number of members. Members other than the root have no such
//! output.

/// Index of an argument that is an integer or points to integers, and their size.
///
/// The size is 4 or 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Numbers(pub u8, pub u8);

/// Unit in which an output is counted.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// Elements of this size in bytes.
    Bytes(u16),
    /// The datatype in the argument with this index.
    Datatype(u8),
    /// Characters up to the first NUL, at most one more than the amount.
    Text,
    /// Packed elements (`MPI_Pack`): their number, the argument with the datatype, and the
    /// position.
    ///
    /// The elements end at the position, to which an argument points.
    Packed(Numbers, u8, Numbers),
    /// Unknown; a call with such an output cannot be recorded.
    Unknown,
}

/// Factor of the number of units; integers are indices of arguments.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    Value(Numbers),
    /// Integer to which the argument points.
    PointedValue(Numbers),
    Constant(u32),
    /// Number of members of the communicator, or of an intercommunicator's remote group.
    Members,
    /// Number of processes that send to this process in the communicator's topology.
    Neighbours,
    /// This process's entry of an array of counts.
    OwnCount(Numbers),
    /// End of the last block, from arrays of counts and displacements.
    ///
    /// The arrays have an entry for each neighbour if the flag is true, else for each member.
    Span(Numbers, Numbers, bool),
}

/// Members that have an output.
#[derive(Clone, Copy, Debug)]
pub enum Members {
    All,
    /// The root, whose rank is the argument with this index.
    Only(u8),
    /// All members except the root, whose rank is the argument with this index.
    AllBut(u8),
}

/// Output of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Index of the argument that points to the output.
    pub argument: u8,
    pub unit: Unit,
    /// Factors of the number of units.
    pub amounts: &'static [Amount],
    pub members: Members,
    /// True if the output is written when a request completes.
    pub later: bool,
}

/// Arguments and outputs of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub outputs: &'static [Output],
    /// Index of the communicator's argument.
    pub comm: Option<u8>,
    /// Index of the argument that points to the request.
    pub request: Option<u8>,
    /// Number of significant bytes of each argument.
    pub widths: &'static [u8],
}
