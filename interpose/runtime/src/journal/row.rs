//! What is known of a procedure's arguments: a row of the call table, or of those of clocks.

/// What an output is counted in.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// So many bytes each.
    Bytes(u16),
    /// The datatype in this argument.
    Datatype(u8),
    /// Characters up to the first NUL, at most one more than the amount.
    Text,
    /// What so many elements (argument) of a datatype (argument) take, up to the position (argument) in the buffer.
    Packed(u8, u8, u8),
    /// Not known: such a call cannot be recorded.
    Unknown,
}

/// A factor of how many there are; numbers are those of arguments.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// An `int`.
    Int(u8),
    /// A pointer to an `int`.
    IntAt(u8),
    /// An `MPI_Aint` or `MPI_Count`.
    Long(u8),
    /// This many.
    Number(u32),
    /// The members of the communicator, of its remote group if it has one.
    Members,
    /// Those that send to this process in the communicator's topology.
    Neighbours,
    /// This process's entry of an array of counts.
    Own(u8),
    /// Up to the end of the last of the blocks with these counts and displacements; one for each member or neighbour.
    Span(u8, u8, bool),
}

/// Who has an output.
#[derive(Clone, Copy, Debug)]
pub enum Members {
    /// Every caller.
    All,
    /// The root, which this argument names.
    Only(u8),
    /// All others.
    AllBut(u8),
}

/// An output of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The argument that points to it.
    pub argument: u8,
    /// What it is counted in.
    pub unit: Unit,
    /// Factors of how many there are.
    pub amounts: &'static [Amount],
    /// Who has it.
    pub members: Members,
    /// It is written when a request ends.
    pub later: bool,
}

/// What is known of a procedure's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What it writes.
    pub outputs: &'static [Output],
    /// Which argument is the communicator.
    pub comm: Option<u8>,
    /// Which argument points to the request.
    pub request: Option<u8>,
    /// Bytes of each argument that mean something.
    pub widths: &'static [u8],
}
